"""A clock that is wrong for a while deletes nothing."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stores import STORES
from tests.runtime.world import World, world

from trunkline.runtime.retention import STEADY_CLOCK_S
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

EIGHT_DAYS_S = 8 * 86_400.0
RETENTION_S = 300.0
LOG = "trunkline.retention"


@asynccontextmanager
async def swept_by_hand(**options: Any) -> AsyncIterator[World]:
    """A world in which nothing happens by itself, so that time passes quickly."""
    async with world(**options) as w:
        await w.runtime.due.close(grace_s=0)
        await w.runtime._housekeeping.close()
        yield w


async def left(w: World) -> int:
    await w.sweep()
    return len(await w.listed())


def jumps_told(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [record.__dict__["jump_s"] for record in caplog.records if record.name == LOG]


@pytest.mark.parametrize("store", STORES)
async def test_a_jump_ahead_deletes_nothing_that_is_young(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, LOG)
    async with swept_by_hand(store=STORES[store](tmp_path), retention_s=RETENTION_S) as w:
        await w.clock.advance(RETENTION_S + 30)
        await w.send("say one")
        w.clock.jump(EIGHT_DAYS_S)
        assert await left(w) == 1
        await w.clock.advance(75)
        assert await left(w) == 1
        w.clock.jump(-EIGHT_DAYS_S)
        assert await left(w) == 1
        await w.clock.advance(RETENTION_S - 100)
        assert await left(w) == 1
        # It is old by now, and the clock has been steady since it was set back.
        await w.clock.advance(110)
        assert await left(w) == 0
    assert jumps_told(caplog) == [EIGHT_DAYS_S, -EIGHT_DAYS_S]


@pytest.mark.parametrize("store", STORES)
async def test_a_jump_that_lasts_is_the_time(store: str, tmp_path: Path) -> None:
    async with swept_by_hand(store=STORES[store](tmp_path), retention_s=RETENTION_S) as w:
        await w.send("say one")
        w.clock.jump(EIGHT_DAYS_S)
        assert await left(w) == 1
        await w.clock.advance(RETENTION_S)
        assert await left(w) == 0


async def test_a_process_that_starts_with_a_wrong_clock_deletes_nothing_at_first() -> None:
    store = MemoryStore()
    async with swept_by_hand(store=store) as w:
        await w.send("say one")
    clock = FakeClock(FakeClock().now_ms() + int(EIGHT_DAYS_S * 1000))
    async with swept_by_hand(store=store, clock=clock) as w:
        assert await left(w) == 1
        await w.clock.advance(STEADY_CLOCK_S / 2)
        assert await left(w) == 1
        # A time server corrects it.
        w.clock.jump(-EIGHT_DAYS_S)
        assert await left(w) == 1
        await w.clock.advance(2 * STEADY_CLOCK_S)
        assert await left(w) == 1


async def test_a_clock_must_be_steady_for_an_hour() -> None:
    async with swept_by_hand() as w:
        await w.send("say one")
        w.clock.jump(EIGHT_DAYS_S)
        assert await left(w) == 1
        await w.clock.advance(STEADY_CLOCK_S - 1)
        assert await left(w) == 1
        await w.clock.advance(1)
        assert await left(w) == 0


async def test_the_number_of_tasks_is_bounded_by_whatever_clock() -> None:
    async with swept_by_hand(retention_max_tasks=2) as w:
        for _ in range(5):
            await w.send("say one")
        w.clock.jump(EIGHT_DAYS_S)
        assert await left(w) == 2


async def test_a_clock_that_is_slewed_is_no_reason_to_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with swept_by_hand(retention_s=RETENTION_S) as w:
        await w.send("say one")
        for _ in range(6):
            await w.clock.advance(60)
            w.clock.jump(4)
            await w.sweep()
        assert await left(w) == 0
    assert jumps_told(caplog) == []
