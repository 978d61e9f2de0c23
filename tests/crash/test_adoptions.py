"""A crash before and after every call of the store while tasks are adopted, then a restart at which
the mailbox delivers them again."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.runtime.deliveries import adopt, given
from tests.runtime.gates import QuickGate
from tests.runtime.test_gate import spends, used
from tests.runtime.world import World, next_morning

from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.store import Store
from trunkline.runtime.given_tasks import GivenTask
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import CrashingStore, settle

When = Literal["before", "after"]

# Two contexts: in the first one all wait behind the first message.
MAILBOX = (
    given("wait gate; say one", id="g-1", context="c"),
    given("say two", id="g-2", context="c"),
    given("say apart", id="g-3", context="d"),
    given("say three", id="g-4", context="c"),
    given("refuse no", id="g-5", context="d"),
)


def made(store: Store, node: str, **options: Any) -> World:
    gate = QuickGate()
    gate.decision = spends(99)
    return World(store=store, gate=gate, node=node, **options)


async def deliver(w: World, accepted: list[GivenTask]) -> None:
    await w.open()
    for task in MAILBOX:
        await adopt(w, task, key=f"key of {task.task_id}")
        accepted.append(task)
        await settle()


async def crashed(inner: Store, crash_on: int, when: When) -> tuple[list[GivenTask], World] | None:
    """The tasks that were accepted before the crash; None for a delivery without one."""
    store = CrashingStore(inner, crash_on=crash_on, when=when)
    w = made(store, "one")
    accepted: list[GivenTask] = []
    playing = w.soon(deliver(w, accepted))
    crash = w.soon(store.crashed.wait())
    both: set[asyncio.Future[Any]] = {playing, crash}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    await settle()
    has_crashed = crash.done()
    if not has_crashed:
        await playing
    await w.vanish()
    return (accepted, w) if has_crashed else None


async def crash_at_every_call(make: Callable[[int], Store], when: When) -> int:
    """Returns the number of cases."""
    for call in count(1):
        store = make(call)
        before = await crashed(store, call, when)
        await store.close()
        if before is None:
            return call
        accepted, first = before
        again = made(make(call), "two", clock=next_morning())
        again.gates.open("gate")
        await again.open()
        for task in accepted:
            journal = await again.journal(task.task_id)
            assert journal[0].body == bytes(task.entry), "an accepted message was lost"
        left = [task for task in MAILBOX if await again.journal(task.task_id)]
        assert len(left) - len(accepted) in (0, 1)
        await check_redelivered(again, first)
        await again.close()
    raise AssertionError


async def check_redelivered(w: World, first: World) -> None:
    for task in MAILBOX:
        await adopt(w, task, key=f"key of {task.task_id}")
    for task in MAILBOX:
        ended = await w.ended(task.task_id)
        journal = await w.journal(task.task_id)
        assert journal[0].body == bytes(task.entry)
        assert [entry.seq for entry in journal] == list(range(1, len(journal) + 1))
        assert ended.status.state in TERMINAL
        key = f"key of {task.task_id}"
        assert (await w.send("say repeated", key=key)).id == task.task_id
    turns = [turn.task_id for turn in (*first.scripted.turns, *w.scripted.turns)]
    assert len(turns) == len(set(turns)), "a message ran twice"
    order = [turn for turn in turns if turn in ("g-1", "g-2", "g-4")]
    assert order == sorted(order)
    # A turn that the crash cut off has failed, and every other one has run.
    failed = [t.task_id for t in MAILBOX if await w.state(t.task_id) is TaskState.FAILED]
    assert {task.task_id for task in MAILBOX} <= {*turns, *failed}
    assert await used(w.store) == len(MAILBOX)
    assert len(w.runtime.registry) == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_memory(when: When) -> None:
    stores: defaultdict[int, Store] = defaultdict(MemoryStore)
    assert await crash_at_every_call(stores.__getitem__, when) > 15


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
async def test_sqlite(tmp_path: Path, when: When) -> None:
    def make(call: int) -> Store:
        return SqliteStore(tmp_path / f"{call}.db", synchronous="normal")

    assert await crash_at_every_call(make, when) > 15
