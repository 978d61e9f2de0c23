"""What the gate took for a message comes back if its task ends before its first turn begins."""

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.gates import RecordingGate
from tests.runtime.world import World, next_morning, world

from trunkline.model.errors import TooManyRequests
from trunkline.model.values import TaskState
from trunkline.ports.gate import Admission
from trunkline.ports.records import Add, Group, Key
from trunkline.ports.store import Store
from trunkline.runtime.reservations import KIND
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, settle

BUDGET = Key("budget.1", "2026-11-18", "test/agent")


def spends(at_most: int = 100) -> RecordingGate:
    """A gate that takes one for each message."""
    gate = RecordingGate()
    taken = Group((Add(key=BUDGET, amount=1, at_most=at_most),))
    gate.decision = Admission((taken,), returns=(Add(key=BUDGET, amount=-1, at_most=at_most),))
    return gate


async def used(store: Store) -> int:
    record = await store.record(BUDGET)
    return 0 if record is None else record.count


async def held(store: Store) -> int:
    return len(await store.records(KIND, limit=100))


async def test_a_task_that_is_canceled_in_the_queue_gives_back(
    make_store: Callable[[], Store],
) -> None:
    async with world(gate=spends(), store=make_store()) as w:
        running = await w.submit("hang", context="c")
        waiting = await w.submit("say hi", context="c")
        assert (await used(w.store), await held(w.store)) == (2, 1)
        await w.cancel(waiting.id)
        assert await used(w.store) == 1
        await w.cancel(running.id)
        assert await used(w.store) == 1


async def test_a_turn_that_has_begun_counts_whatever_its_end() -> None:
    async with world(gate=spends()) as w:
        for text in ("say hi", "fail because", "crash", "refuse no", "ask which?"):
            await w.send(text)
        running = await w.submit("hang")
        await w.cancel(running.id)
        assert await used(w.store) == 6
        # Nothing was stored for turns that begin at once.
        assert await held(w.store) == 0


async def test_a_turn_that_waited_counts_once_it_begins() -> None:
    async with world(gate=spends()) as w:
        first = await w.submit("wait a", context="c")
        waiting = await w.submit("hang", context="c")
        assert await held(w.store) == 1
        w.gates.open("a")
        await w.ended(first.id)
        await settle()
        assert (await w.get(waiting.id)).status.state is TaskState.WORKING
        assert await held(w.store) == 0
        await w.cancel(waiting.id)
        assert await used(w.store) == 2


async def test_all_messages_of_a_task_that_never_began_come_back() -> None:
    async with world(gate=spends()) as w:
        running = await w.submit("hang", context="c")
        waiting = await w.submit("say hi", context="c")
        await w.submit("say more", task=waiting.id)
        assert (await used(w.store), await held(w.store)) == (3, 1)
        await w.cancel(waiting.id)
        assert await used(w.store) == 1
        # A message for a task that has begun counts, also if it does not get its turn.
        await w.submit("say more", task=running.id)
        await w.cancel(running.id)
        assert await used(w.store) == 2


async def test_a_message_that_is_refused_after_all_gives_back() -> None:
    gate = spends()
    async with world(gate=gate, max_queue_per_context=1) as w:
        running = await w.submit("hang", context="c")
        await w.submit("say hi", context="c")
        with pytest.raises(TooManyRequests):
            await w.submit("say hi", task=running.id)
        await settle()
        assert await used(w.store) == 2
        await w.cancel(running.id)


async def test_a_task_gives_back_after_a_restart(make_store: Callable[[], Store]) -> None:
    first = World(store=make_store(), node="one", gate=spends())
    await first.open()
    await first.submit("hang", context="c")
    waiting = await first.submit("say hi", context="c")
    await first.vanish()
    await first.store.close()
    # The running task fails, and the waiting one is failed before its first turn.
    second = world(
        store=make_store(),
        node="two",
        clock=next_morning(),
        gate=spends(),
        on_restart=("fail_running",),
    )
    async with second as w:
        assert (await w.get(waiting.id)).status.state is TaskState.FAILED
        assert await used(w.store) == 1


async def test_a_task_that_waits_again_after_a_restart_gives_back(
    make_store: Callable[[], Store],
) -> None:
    first = World(store=make_store(), node="one", gate=spends())
    await first.open()
    await first.submit("hang", context="c")
    waiting = await first.submit("say hi", context="c")
    await first.vanish()
    await first.store.close()
    second = world(
        store=make_store(),
        node="two",
        clock=next_morning(),
        gate=spends(),
        on_restart=("resume_queued", "retry_running"),
    )
    async with second as w:
        await w.cancel(waiting.id)
        assert await used(w.store) == 1


async def test_a_turn_that_a_restart_runs_again_still_counts() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"gate": spends(), "on_restart": ("resume_queued", "retry_running")}
    first = World(store=store, node="one", **options)
    await first.open()
    before = await first.submit("wait a", context="c")
    begun = await first.submit("hang", context="c")
    first.gates.open("a")
    await first.ended(before.id)
    await settle()
    await first.vanish()
    async with world(store=store, node="two", **options) as w:
        await w.cancel(begun.id)
        assert await used(store) == 2


async def test_a_task_gives_back_at_the_node_that_took_it_over() -> None:
    async with nodes(2, gate=spends(), on_restart=("resume_queued", "retry_running")) as n:
        one, two = n.worlds
        await one.submit("hang", context="c")
        waiting = await one.submit("say hi", context="c")
        await n.kill(0)
        await n.clock.advance(10)
        await settle()
        assert (await two.cancel(waiting.id)).status.state is TaskState.CANCELED
        assert await used(n.store) == 1


async def run(w: World) -> None:
    """Five messages are accepted, and one is canceled before its turn."""
    await w.open()
    await w.send("say hi")
    running = await w.submit("hang", context="c")
    kept = await w.submit("say hi", context="c")
    waiting = await w.submit("say hi", context="c")
    await w.submit("say more", context="c")
    await w.cancel(waiting.id)
    await w.cancel(running.id)
    await w.ended(kept.id)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_count_is_right_after_a_crash_at_any_call(
    when: Literal["before", "after"],
) -> None:
    for crash_on in count(1):
        inner = MemoryStore()
        store = CrashingStore(inner, crash_on=crash_on, when=when)
        w = World(store=store, gate=spends())
        playing = w.soon(run(w))
        crashed = w.soon(store.crashed.wait())
        while not playing.done() and not crashed.done():
            await settle()
        has_crashed = crashed.done()
        await w.vanish()
        # The next process cancels what waits, and counts what has begun.
        async with world(store=inner, node="two", gate=spends()) as after:
            await settle()
            for task in await after.listed(page_size=100):
                if task.status.state is TaskState.SUBMITTED:
                    await after.cancel(task.id)
            begun = 0
            for task in await after.listed(page_size=100):
                states = await after.states(task.id)
                begun += TaskState.WORKING in states
            assert await used(inner) == begun, crash_on
        if not has_crashed:
            assert begun == 4
            return
