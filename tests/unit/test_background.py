import asyncio
import logging

import pytest

from trunkline.background import BackgroundTasks
from trunkline.testing.clock import settle


async def test_a_task_runs_under_its_name_until_it_is_done() -> None:
    tasks = BackgroundTasks("test")
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    started = tasks.start(work(), name="work")
    assert len(tasks) == 1
    assert started.get_name() == "work"
    await started
    await settle()
    assert ran.is_set()
    assert len(tasks) == 0


async def test_an_exception_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks("test")

    async def work() -> None:
        raise RuntimeError("boom")

    tasks.spawn(work(), name="work")
    await settle()
    (record,) = caplog.records
    assert (record.message, record.levelno) == ("background task failed", logging.ERROR)
    assert record.__dict__["owner"] == "test"
    assert record.__dict__["task"] == "work"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "boom"
    assert len(tasks) == 0


async def test_close_cancels_what_is_left_and_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = BackgroundTasks("test")
    cleaned_up = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    tasks.spawn(work(), name="work")
    await settle()
    await tasks.close()
    assert cleaned_up.is_set()
    await settle()
    assert len(tasks) == 0
    assert caplog.records == []


async def test_close_leaves_behind_what_ignores_it(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks("test")
    release = asyncio.Event()

    async def work() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    stubborn = tasks.start(work(), name="stubborn")
    await settle()
    await tasks.close(grace_s=0)
    assert [record.message for record in caplog.records] == ["background task ignores cancellation"]
    assert caplog.records[0].__dict__["task"] == "stubborn"
    release.set()
    await stubborn


async def test_closing_nothing_is_fine() -> None:
    await BackgroundTasks("test").close()
