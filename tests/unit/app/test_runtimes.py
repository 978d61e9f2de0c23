"""The main store of a gateway, for agents that have their tasks in another one."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import names

from trunkline.app.gateway import Gateway, build
from trunkline.model.errors import Unavailable
from trunkline.ports.records import Add, Group, Key
from trunkline.ports.store import Store
from trunkline.runtime.outbox import MARKER, OUTBOX
from trunkline.runtime.runtime import Runtime
from trunkline.settings import from_document
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock, settle
from trunkline.testing.stores.kit import create, must_put, opened, with_groups

COUNT = Key("count.1", "", "tasks")
ADD = Add(key=COUNT, amount=1, at_most=9)


def gateway(folder: Path, clock: FakeClock) -> Gateway:
    """Its one agent has a store of its own."""
    agent = {
        "name": "A",
        "backend": {"kind": "echo"},
        "store": {"kind": "json-file", "path": str(folder / "tasks")},
    }
    tables = {
        "store": {"kind": "sqlite", "path": str(folder / "main.db")},
        "agents": {"test/agent": agent},
    }
    return build(from_document(tables, environment={}), base_url="http://h", clock=clock)


async def count_a_task(runtime: Runtime, store: Store, task_id: str) -> None:
    """Commit a task, and with it the change of the main store."""
    group = Group(runtime.main.changes("scope", ADD))
    await must_put(store, with_groups(create(task_id), group))
    runtime.due.wake()


async def until_sent(store: Store, clock: FakeClock) -> None:
    async with asyncio.timeout(10):
        while await store.records(OUTBOX, limit=1):
            # No lease may end while a thread is at work.
            await asyncio.sleep(0.01)  # noqa: TID251 - threads need real time
            await clock.advance(1)


async def test_the_first_entry_of_an_outbox_opens_the_main_store(tmp_path: Path) -> None:
    clock = FakeClock()
    made = gateway(tmp_path, clock)
    await made.runtimes.open()
    (runtime,) = made.runtimes
    store = runtime.store
    assert "main.db" not in names(tmp_path)
    for task_id in ("a", "b"):
        await count_a_task(runtime, store, task_id)
    await until_sent(store, clock)
    main = [each for each in made.runtimes if each is not runtime]
    assert len(main) == 1
    assert main[0].main.has_tasks
    await made.runtimes.close()
    async with opened(lambda _: SqliteStore(tmp_path / "main.db"), "") as left:
        count = await left.record(COUNT)
        assert count is not None
        assert count.count == 2
        assert len(await left.records(MARKER, limit=9)) == 2


async def test_entries_wait_while_another_process_has_the_main_store(tmp_path: Path) -> None:
    clock = FakeClock()
    made = gateway(tmp_path, clock)
    await made.runtimes.open()
    (runtime,) = made.runtimes
    store = runtime.store
    async with opened(lambda _: SqliteStore(tmp_path / "main.db"), "") as other:
        await count_a_task(runtime, store, "a")
        for _ in range(3):
            await clock.advance(1)
        assert len(await store.records(OUTBOX, limit=9)) == 1
        assert await other.record(COUNT) is None
    await until_sent(store, clock)
    await made.runtimes.close()


async def test_turns_have_the_main_store_while_the_gateway_starts_and_stops(
    tmp_path: Path,
) -> None:
    """A turn may begin before all stores are open, and go on while no more agents come."""
    made = gateway(tmp_path, FakeClock())
    with pytest.raises(Unavailable):
        await made.runtimes.main_store()
    (runtime,) = made.runtimes
    asked: list[asyncio.Future[Store]] = []

    async def slowly() -> None:
        asked.append(asyncio.ensure_future(made.runtimes.main_store()))  # noqa: TID251 - awaited
        await settle()
        assert not asked[0].done()
        await runtime.store.open()

    runtime.open = slowly  # type: ignore[method-assign]
    await made.runtimes.open()
    main = await asked[0]
    await made.runtimes.drain(grace_s=0)
    assert await made.runtimes.main_store() is main
    await made.runtimes.close()
    with pytest.raises(Unavailable):
        await made.runtimes.main_store()
