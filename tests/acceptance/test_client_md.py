"""docs/guides/client.md does what it says: its scripts, run against a gateway."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.gateway import DEADLINE_S, SOURCE, Gateway
from tests.docs.transcripts import Example, examples_in

from trunkline import remote
from trunkline.remote import errors
from trunkline.remote.retries import LONGEST_RETRY_AFTER_S, OPEN_S

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "client.md"
TEXT = PAGE.read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8642"


@pytest.mark.parametrize("example", examples_in(TEXT), ids=lambda example: f"line-{example.line}")
def test_example(example: Example, shared: Gateway) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.code.replace(ADDRESS, shared.url)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.stderr == ""
    assert example.transcript
    assert run.stdout == example.transcript.replace(ADDRESS, shared.url)


def test_every_reason_is_documented_and_no_other() -> None:
    source = "".join(path.read_text() for path in (SOURCE / "trunkline" / "remote").rglob("*.py"))
    raised = set(re.findall(r'reason(?:: str)? ?= ?"([A-Z_]+)"', source))
    classes = {name for name in dir(errors) if isinstance(getattr(errors, name), type)}
    defaults = {"REMOTE_ERROR", "TIMEOUT", "REFUSED"}
    page = TEXT.partition("## Errors")[2]
    assert {reason for reason in raised - defaults if f"`{reason}`" not in page} == set()
    assert {name for name in classes & set(remote.__all__) if f"`{name}`" not in page} == set()


def test_the_numbers_are_those_of_the_code() -> None:
    limits = remote.Limits()
    assert f"up to {limits.reconnects} times in a row without a new event" in TEXT
    assert f"The client tries a read {limits.attempts} times" in TEXT
    assert f"if that is at most {LONGEST_RETRY_AFTER_S:g} seconds" in TEXT
    failures = f"After {limits.circuit_failures} failures in a row"
    assert f"{failures}, calls to an agent fail at once for {OPEN_S:g} seconds" in TEXT


def test_every_call_is_documented() -> None:
    calls = [name for name in vars(remote.RemoteAgent) if not name.startswith("_")]
    calls.remove("close")
    calls.remove("target")
    assert [name for name in calls if f"`{name}(" not in TEXT] == []
