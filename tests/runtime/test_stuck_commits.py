"""A store that neither commits nor refuses is noticed, and so is its recovery."""

import logging

import pytest
from tests.runtime.stores import AheadStore
from tests.runtime.world import World, world

from trunkline.model.values import TaskState
from trunkline.runtime.housekeeping import COMMITS_STUCK_S
from trunkline.testing import settle


async def seconds(w: World, count: int) -> None:
    for _ in range(count):
        await w.clock.advance(1)
        await settle()


async def test_commits_that_never_come_make_the_gateway_unready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = AheadStore()
    async with world(store=store) as w:
        await w.send("say before")
        store.is_held = True
        sending = w.soon(w.send("say stuck"))
        await settle()
        await seconds(w, COMMITS_STUCK_S - 1)
        assert w.runtime.problems() == []
        await seconds(w, 2)
        [problem] = w.runtime.problems()
        assert "the store has not answered" in problem
        [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert record.message == "commits are stuck: the store neither commits nor refuses"
        assert record.__dict__["appends"] == 1

        store.is_held = False
        store.tell()
        assert (await sending).status.state is TaskState.COMPLETED
        await seconds(w, 1)
        assert w.runtime.problems() == []
        assert "commits continue" in caplog.text
        # One line when it begins and one when it ends, not one for each second.
        assert caplog.text.count("commits are stuck") == 1


async def test_a_busy_store_is_not_a_stuck_one() -> None:
    store = AheadStore()
    async with world(store=store) as w:
        store.is_held = True
        for number in range(3 * COMMITS_STUCK_S):
            # There is always an append under way, and each takes a second.
            sending = w.soon(w.submit(f"say {number}"))
            await settle()
            await seconds(w, 1)
            while store.held:
                store.tell()
                await settle()
            await sending
            assert w.runtime.problems() == []
        store.is_held = False
