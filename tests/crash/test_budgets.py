"""A crash at every call of the store, while messages spend a budget at the gate."""

import asyncio
from itertools import count
from typing import Any, Literal

import pytest
from tests.runtime.gates import RecordingGate
from tests.runtime.world import World

from trunkline.model.errors import TooManyRequests
from trunkline.model.values import Role, TaskState
from trunkline.ports.gate import Admission
from trunkline.ports.records import Add, Group, Key
from trunkline.ports.store import Store
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, settle

BUDGET = Key("budget.1", "test/agent", "today")
AT_MOST = 4


async def spend(w: World) -> None:
    """Two more messages than the budget allows: some create a task, two continue one."""
    await w.open()
    asked = await w.send("ask which?")
    await asyncio.gather(*(w.send(f"say {n}") for n in range(2)))
    await w.send("ask again?", task=asked.id)
    assert (await w.send("say too much")).status.state is TaskState.REJECTED
    with pytest.raises(TooManyRequests):
        await w.send("say too much", task=asked.id)


async def crash(inner: Store, crash_on: int, when: Literal["before", "after"]) -> bool:
    """Whether the scenario crashed before its end."""
    store, gate = CrashingStore(inner, crash_on=crash_on, when=when), RecordingGate()
    gate.decision = Admission((Group((Add(key=BUDGET, amount=1, at_most=AT_MOST),)),))
    w = World(store=store, gate=gate)
    playing = w.soon(spend(w))
    crashed = asyncio.ensure_future(store.crashed.wait())  # noqa: TID251 - ends below
    both: set[asyncio.Future[Any]] = {playing, crashed}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    has_crashed = crashed.done()
    crashed.cancel()
    await settle()
    if not has_crashed:
        await playing
    await w.vanish()
    return has_crashed


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_neither_loses_nor_exceeds_what_was_spent(
    when: Literal["before", "after"],
) -> None:
    for crash_on in count(1):
        inner = MemoryStore()
        has_crashed = await crash(inner, crash_on, when)
        w = World(store=inner, node="two")
        listed = await w.listed(page_size=100)
        tasks = [task for task in listed if task.status.state is not TaskState.REJECTED]
        accepted = sum(
            message.role is Role.USER for task in tasks for message in task.history or ()
        )
        record = await inner.record(BUDGET)
        spent = 0 if record is None else record.count
        # A message that continues a task spends right before it is accepted.
        continued = any(len(task.history or ()) > 2 for task in tasks)
        assert accepted <= spent <= min(AT_MOST, accepted + (not continued)), crash_on
        if not has_crashed:
            assert (spent, accepted) == (AT_MOST, AT_MOST)
            return
