"""An agent that changes nothing may start before its task is stored; others may not."""

from collections.abc import Sequence

import pytest
from tests.runtime.world import world

from trunkline.model.errors import StoreUnusable, Unavailable
from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.ports.store import Append, Settled
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle


class HeldStore(MemoryStore):
    """Commits what it is given when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_holding = True
        self.held: list[tuple[Append, Settled]] = []

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self.is_holding:
            self.held += appends
        else:
            super().submit(appends)

    def release(self) -> None:
        self.is_holding = False
        super().submit(self.held)

    def refuse(self) -> None:
        self.is_holding = False
        for _, settled in self.held:
            settled(StoreUnusable("the disk is full"))


async def test_an_agent_with_effects_starts_when_its_task_is_stored() -> None:
    store = HeldStore()
    async with world(store=store) as w:
        sending = w.soon(w.send("say hello"))
        await settle()
        assert not w.scripted.turns
        store.release()
        assert (await sending).status.state is TaskState.COMPLETED


async def test_an_agent_with_effects_in_a_queue_starts_when_its_beginning_is_stored() -> None:
    store = HeldStore()
    store.is_holding = False
    async with world(store=store) as w:
        first = await w.submit("wait gate; say first", context="c")
        second = await w.submit("say second", context="c")
        await w.gates.reached("gate")
        store.is_holding = True
        w.gates.open("gate")
        await settle()
        # The first has ended and the second has the lane; neither is in the store.
        assert [turn.task_id for turn in w.scripted.turns] == [first.id]
        assert await w.state(second.id) is TaskState.SUBMITTED
        store.release()
        assert (await w.ended(second.id)).status.state is TaskState.COMPLETED
        assert [turn.task_id for turn in w.scripted.turns] == [first.id, second.id]


async def test_a_turn_whose_beginning_is_refused_waits_and_runs_once() -> None:
    store = HeldStore()
    store.is_holding = False
    async with world(store=store) as w:
        await w.submit("wait gate; say first", context="c")
        second = await w.submit("say second", context="c")
        third = await w.submit("say third", context="c")
        await w.gates.reached("gate")
        # It leaves the lane without an append of its own, so that the next turn's beginning
        # is alone in the append that is refused.
        store.is_holding = True
        w.gates.open("gate")
        await settle()
        beginnings = [each for each in store.held if each[0].task_id == second.id]
        [(begun, settled)] = beginnings
        assert begun.state is TaskState.WORKING
        store.held.remove(beginnings[0])
        store.release()
        settled(StoreUnusable("the disk is full"))
        await settle()
        assert await w.state(second.id) is TaskState.SUBMITTED
        await w.clock.advance(1)
        assert (await w.ended(third.id)).status.state is TaskState.COMPLETED
        assert (await w.ended(second.id)).status.state is TaskState.COMPLETED
        turns = [turn.task_id for turn in w.scripted.turns]
        assert turns[1:] == [second.id, third.id]


async def test_a_pure_agent_starts_at_once_and_shows_when_it_is_stored() -> None:
    store = HeldStore()
    async with world(store=store) as w:
        w.scripted.is_pure = True
        stream = await w.stream("say one; say two")
        reading = w.soon(stream.all())
        await settle()
        assert len(w.scripted.turns) == 1
        assert not reading.done()
        assert await w.listed() == ()
        store.release()
        seen = await reading
        assert all(isinstance(item, Entry) for item in seen)
        assert [item.seq for item in seen if isinstance(item, Entry)] == list(
            range(1, len(seen) + 1)
        )
        [task] = await w.listed()
        assert task.status.state is TaskState.COMPLETED
        assert len(w.runtime.registry) == 0


async def test_a_pure_run_whose_task_is_refused_is_as_if_it_had_not_been() -> None:
    store = HeldStore()
    async with world(store=store) as w:
        w.scripted.is_pure = True
        sending = w.soon(w.send("wait gate; say hello", context="c"))
        await w.gates.reached("gate")
        store.refuse()
        with pytest.raises(Unavailable):
            await sending
        # The context goes on.
        task = await w.send("say next", context="c")
        assert task.status.state is TaskState.COMPLETED
        assert len(await w.listed()) == 1
        assert len(w.runtime.registry) == 0


async def test_a_pure_run_that_waits_leaves_the_queue_when_its_task_is_refused() -> None:
    store = HeldStore()
    async with world(store=store) as w:
        w.scripted.is_pure = True
        store.is_holding = False
        first = w.soon(w.send("wait gate; say first", context="c"))
        await w.gates.reached("gate")
        await settle()
        store.is_holding = True
        second = w.soon(w.send("say second", context="c"))
        await settle()
        store.refuse()
        with pytest.raises(Unavailable):
            await second
        w.gates.open("gate")
        assert (await first).status.state is TaskState.COMPLETED
        assert len(w.scripted.turns) == 1
        task = await w.send("say third", context="c")
        assert task.status.state is TaskState.COMPLETED
        assert len(w.runtime.registry) == 0
