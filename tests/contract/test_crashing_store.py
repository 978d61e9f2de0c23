"""A store that crashes on purpose is a store like any other until it does."""

import asyncio

import pytest

from trunkline.stores.memory import MemoryStore
from trunkline.testing.check_store import CHECKS, Check
from trunkline.testing.crashing_store import CrashingStore
from trunkline.testing.stores.kit import ALICE, create, follow, must_put, submit


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_without_a_crash_nothing_differs(check: Check) -> None:
    await check(lambda _: CrashingStore(MemoryStore(), crash_on=0))


async def test_append_before_the_crash_is_not_there() -> None:
    inner = MemoryStore()
    store = CrashingStore(inner, crash_on=2, when="before")
    await store.open()
    await must_put(store, create("t"))
    pending = submit(store, follow("t", 1))
    await store.crashed.wait()
    assert not pending.done()
    task = await inner.get(ALICE, "t")
    assert task is not None
    assert task.last_seq == 1


async def test_append_after_the_crash_is_there_but_unanswered() -> None:
    inner = MemoryStore()
    store = CrashingStore(inner, crash_on=2, when="after")
    await store.open()
    await must_put(store, create("t"))
    pending = submit(store, follow("t", 1))
    await store.crashed.wait()
    assert not pending.done()
    task = await inner.get(ALICE, "t")
    assert task is not None
    assert task.last_seq == 2


@pytest.mark.parametrize("when", ["before", "after"])
async def test_reads_never_return_after_the_crash(when: str) -> None:
    store = CrashingStore(MemoryStore(), crash_on=1, when="before" if when == "before" else "after")
    await store.open()
    async with asyncio.TaskGroup() as group:
        reads = [group.create_task(store.get(ALICE, "t")) for _ in range(2)]
        await store.crashed.wait()
        assert not any(read.done() for read in reads)
        for read in reads:
            read.cancel()
    assert store.calls == 1
    await store.close()
