"""A store says once that it takes no changes, and once that it does again."""

import logging
from pathlib import Path

import pytest

from trunkline.stores.health import Health, Problem

PATH = Path("/data/store.db")
FULL = Problem("is full", "Free some space.")
GONE = Problem("is gone", "Put it back.", is_lasting=True)


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trunkline.store")


def state(health: Health) -> tuple[str | None, bool]:
    return health.problem, health.is_lost


def test_a_problem_that_passes(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(PATH)
    errors = [health.failed(FULL).message for _ in range(3)]
    assert errors == ["The store /data/store.db is full. Free some space."] * 3
    assert state(health) == ("The store is full. Free some space.", False)
    health.wrote()
    health.wrote()
    assert state(health) == (None, False)
    assert [record.message for record in caplog.records] == [
        "the store takes no changes",
        "the store takes changes again",
    ]


def test_a_problem_that_lasts(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(PATH)
    health.failed(FULL)
    health.failed(GONE, detail="no such file")
    # A full disk does not make it any better.
    health.failed(FULL)
    health.wrote()
    assert state(health) == ("The store is gone. Put it back.", True)
    assert health.refusal().message == "The store /data/store.db is gone. Put it back."
    reasons = [record.__dict__["reason"] for record in caplog.records]
    assert reasons == [
        "The store /data/store.db is full. Free some space.",
        "The store /data/store.db is gone. Put it back. (no such file)",
    ]
