"""An agent on JSON files beside a SQLite main store: a crash at every call of either store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs
from tests.crash.timeless import TimelessStore, all_answered
from tests.unit.stores.jsonfiles import store_on

from trunkline.background import BackgroundTasks
from trunkline.ports.records import Add, Group, Key, Put
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueWork
from trunkline.runtime.outbox import MARKER, OUTBOX, MainStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock, SequentialIds
from trunkline.testing.stores.kit import COMPLETED, create, listed, put

TOTAL = Key("total.1", "", "tasks")
TASKS = ("a", "b", "c")


class Life:
    """A process that has both stores: tasks are committed in one, and counted in the other."""

    def __init__(
        self,
        agent: TimelessStore,
        main: TimelessStore,
        clock: FakeClock,
        name: str,
        *,
        seen: Store,
    ) -> None:
        """`seen` shows the outbox to the test, which is no call of the process."""
        self.agent = agent
        self.stores = (agent, main)
        self.seen = seen

        async def open_main() -> Store:
            return main

        self.main = MainStore(open=open_main, has_tasks=False, ids=SequentialIds(name))
        self.clock = clock
        self.due = DueWork(store=agent, clock=clock, kinds=self.main.due_kinds())

    async def play(self) -> None:
        """Each task counts itself, and overwrites the order in which tasks came."""
        self.due.start()
        for number, task_id in enumerate(TASKS):
            body = "".join(TASKS[: number + 1]).encode()
            changes = self.main.changes(
                "scope",
                Add(key=TOTAL, amount=1, at_most=99),
                Put(key=Key("order.1", "", "tasks"), body=body),
                Put(key=Key("task.1", "", task_id), expected=0),
            )
            append = create(task_id, state=COMPLETED)
            await put(self.agent, structs.replace(append, also=(Group(changes),)))
            self.due.wake()
        await self.until_done()

    async def until_done(self) -> None:
        while await self.seen.records(OUTBOX, limit=1):
            await all_answered(*self.stores)
            await self.clock.advance(1)


@asynccontextmanager
async def stores(folder: Path, clock: FakeClock) -> AsyncIterator[tuple[Store, Store]]:
    agent = store_on(folder / "tasks", clock=clock)
    main = SqliteStore(folder / "main.db", synchronous="normal", clock=clock)
    await agent.open()
    await main.open()
    try:
        yield agent, main
    finally:
        await agent.close()
        await main.close()


async def crash(folder: Path, side: str, crash_on: int, when: Literal["before", "after"]) -> bool:
    """Whether the process died before it was done."""
    clock = FakeClock()
    async with stores(folder, clock) as (agent, main):
        wrapped = {
            name: TimelessStore(each, crash_on=crash_on if name == side else 0, when=when)
            for name, each in (("agent", agent), ("main", main))
        }
        life = Life(wrapped["agent"], wrapped["main"], clock, "one", seen=agent)
        tasks = BackgroundTasks("life")
        playing = tasks.start(life.play(), name="play")
        crashed: asyncio.Task[Any] = tasks.start(wrapped[side].crashed.wait(), name="crash")
        async with asyncio.timeout(10):
            await asyncio.wait({playing, crashed}, return_when=asyncio.FIRST_COMPLETED)
        has_crashed = crashed.done()
        await tasks.close()
        await life.due.close(grace_s=0)
        if not has_crashed:
            playing.result()
        return has_crashed


async def check(folder: Path) -> None:
    """After the restart, every task that is there has been counted once, and in order."""
    clock = FakeClock()
    async with stores(folder, clock) as (agent, main):
        alive = TimelessStore(agent, crash_on=0), TimelessStore(main, crash_on=0)
        life = Life(*alive, clock, "two", seen=agent)
        life.due.start()
        async with asyncio.timeout(10):
            await life.until_done()
        await life.due.close()
        there = sorted(await listed(agent))
        total = await main.record(TOTAL)
        assert (0 if total is None else total.count) == len(there)
        order = await main.record(Key("order.1", "", "tasks"))
        assert (b"" if order is None else order.body) == "".join(there).encode()
        counted = await main.records("task.1", limit=9)
        assert [record.key.id for record in counted] == there
        markers = await main.records(MARKER, limit=9)
        assert len(markers) == len(there)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("side", ["agent", "main"])
async def test_a_change_is_made_exactly_once(
    tmp_path: Path, side: str, when: Literal["before", "after"]
) -> None:
    crash_on = 0
    has_crashed = True
    while has_crashed:
        crash_on += 1
        folder = tmp_path / str(crash_on)
        folder.mkdir()
        has_crashed = await crash(folder, side, crash_on, when)
        await check(folder)
    assert crash_on > len(TASKS)
