"""`bounded`: the one way in which work ends, when several come together."""

import asyncio
from typing import NoReturn

import pytest

from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.tool.failures import ToolFailure, stream_too_long, timed_out
from trunkline.remote.tool.limits import Limit, bounded
from trunkline.testing import FakeClock, settle


async def forever() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError


async def test_work_for_a_caller_that_has_left_does_not_begin() -> None:
    begun, left = [], asyncio.Event()
    left.set()

    async def work() -> None:
        begun.append(True)

    with pytest.raises(ToolFailure, match="aborted"):
        await bounded(work, Limit(FakeClock(), idle_s=1), left)
    assert begun == []


async def test_a_silence_and_the_end_of_all_time_are_told_apart() -> None:
    for idle_s, cap_s, words in ((1, 2, "timed out"), (2, 1, "overall time limit")):
        clock = FakeClock()
        limit = Limit(clock, idle_s=idle_s, cap_s=cap_s)
        ends = {"idle": timed_out(), "cap": stream_too_long()}
        ended = asyncio.gather(bounded(forever, limit, at=ends.__getitem__), return_exceptions=True)
        await clock.advance(1)
        [failure] = await ended
        assert isinstance(failure, ToolFailure)
        assert words in failure.message


async def test_a_sign_of_life_postpones_the_limit() -> None:
    clock = FakeClock()
    limit = Limit(clock, idle_s=2, cap_s=3)
    ended = asyncio.gather(bounded(forever, limit), return_exceptions=True)
    await clock.advance(1.5)
    limit.touch()
    await clock.advance(1)
    assert not ended.done()
    await clock.advance(0.5)
    [failure] = await ended
    assert isinstance(failure, ToolFailure), "however lively, not beyond the cap"


async def test_a_result_that_comes_with_the_limit_is_the_result() -> None:
    clock, answered = FakeClock(), asyncio.Event()

    async def work() -> str:
        await answered.wait()
        return "in time"

    limit = Limit(clock, idle_s=1)
    work_done = asyncio.gather(bounded(work, limit))
    await settle()
    # Both wake in the same pass of the loop, and the work was first.
    answered.set()
    await clock.advance(1)
    [result] = await work_done
    assert result == "in time"


async def test_the_first_reason_is_the_one_that_is_told() -> None:
    clock, left = FakeClock(), asyncio.Event()

    async def slow_to_leave() -> None:
        try:
            await forever()
        finally:
            await clock.sleep(5)

    ended = asyncio.gather(
        bounded(slow_to_leave, Limit(clock, idle_s=1), left), return_exceptions=True
    )
    await settle()
    left.set()
    await clock.advance(10)
    [failure] = await ended
    assert isinstance(failure, ToolFailure)
    assert failure.details["reason"] == "ABORTED"


async def test_work_that_fails_or_returns_when_it_is_ended_was_ended() -> None:
    async def fails() -> str:
        try:
            await forever()
        finally:
            raise PeerUnreachable("the connection broke off")

    async def returns() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "late"

    for work in (fails, returns):
        clock = FakeClock()
        ended = asyncio.gather(bounded(work, Limit(clock, idle_s=1)), return_exceptions=True)
        await clock.advance(1)
        [failure] = await ended
        assert isinstance(failure, ToolFailure)
        assert failure.details["reason"] == "TIMEOUT"


async def test_a_failure_of_the_work_passes_through() -> None:
    async def work() -> None:
        raise PeerUnreachable("the connection broke off")

    with pytest.raises(PeerUnreachable):
        await bounded(work, Limit(FakeClock(), idle_s=1))


async def test_nothing_is_left_behind_when_the_caller_is_cancelled() -> None:
    before = asyncio.all_tasks()
    cleaned = []

    async def work() -> None:
        try:
            await forever()
        finally:
            cleaned.append(True)

    ended = asyncio.gather(bounded(work, Limit(FakeClock(), idle_s=1), asyncio.Event()))
    await settle()
    ended.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended
    assert cleaned == [True]
    assert asyncio.all_tasks() == before
