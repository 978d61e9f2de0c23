"""Readers that leave early: nothing of them stays behind."""

import asyncio

import pytest
from tests.runtime.stores import AheadStore, SlowReads
from tests.runtime.world import world

from trunkline.model.values import TaskState
from trunkline.testing import settle


async def test_a_client_that_leaves_before_its_message_is_let_in() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        task = await w.send("ask which")
        store.hold(1)

        async def stream() -> None:
            await w.stream("say this", task=task.id)

        leaving = w.callers.start(stream(), name="leaving")
        await settle()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not w.service.readers.subscriptions
        assert await w.state(task.id) is TaskState.INPUT_REQUIRED


async def test_a_reader_that_leaves_before_the_task_is_stored_does_not_hold_it() -> None:
    store = AheadStore()
    async with world(store=store) as w:
        store.is_held = True
        # A stream that wants no history begins with a snapshot, once there is one.
        reading = await w.stream("ask which", history_length=0)
        await settle()
        reading.close()
        store.is_held = False
        store.tell()
        await settle()
        (task,) = await w.listed()
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert not w.service.readers.subscriptions
        assert len(w.runtime.registry) == 0
