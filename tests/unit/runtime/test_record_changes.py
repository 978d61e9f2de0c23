"""Changes of the records of a feature: numbered, followed by every node, and trusted for no longer
than they may be."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import pytest

from trunkline.background import next_pass
from trunkline.model.errors import RecordConflict, StoreUnusable
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.store import Store
from trunkline.runtime.record_changes import LOOK_S, TRUST_S, RecordChanges, Touched
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, settle
from trunkline.testing.passing_store import PassingStore

T = TypeVar("T")


class CutStore(PassingStore):
    """A store that does not answer while it is cut off."""

    is_cut = False
    calls = 0

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        # A real store takes a while, and others go on meanwhile.
        await next_pass()
        if self.is_cut:
            raise StoreUnusable("cut off")
        return await super()._pass_on(call)


class Memory:
    """What a node holds in memory of the records of kind `thing.1`."""

    def __init__(self, store: Store, changes: RecordChanges) -> None:
        self._store = store
        self.changes = changes
        self.seen: dict[str, bytes] = {}
        self.followed: list[Sequence[str] | None] = []
        self.fails = False
        changes.follow("thing", self._follow)

    async def _follow(self, ids: Sequence[str] | None) -> None:
        self.followed.append(ids)
        if self.fails:
            raise RuntimeError("this part has a fault")
        if ids is None:
            found = await self._store.records("thing.1", limit=10_000)
            self.seen = {record.key.id: record.body for record in found}
            return
        for name in ids:
            record = await self._store.record(thing(name))
            if record is not None:
                self.seen[name] = record.body

    def is_trusted(self) -> bool:
        return self.changes.is_fresh

    async def put(self, name: str, body: bytes = b"1", *, restricts: bool = False) -> None:
        put = Put(key=thing(name), body=body)
        await self.changes.commit(put, touched=[Touched("thing", name)], restricts=restricts)


def thing(name: str) -> Key:
    return Key("thing.1", "", name)


class Nodes:
    """Nodes of a hub on one store. `heard` says whether notices arrive."""

    def __init__(self, count: int, *, is_shared: bool, heard: bool) -> None:
        self.clock = FakeClock()
        self.inner = MemoryStore(self.clock)
        self.stores = [CutStore(self.inner) for _ in range(count)]
        self.is_shared, self.heard = is_shared, heard
        self.memories = [
            Memory(cast("Store", store), RecordChanges(self.clock, feature="hub"))
            for store in self.stores
        ]

    async def open(self, number: int) -> None:
        changes = self.memories[number].changes
        others = [memory.changes for memory in self.memories if memory.changes is not changes]

        def tell() -> None:
            for other in others if self.heard else ():
                other.hear()

        await changes.open(cast("Store", self.stores[number]), is_shared=self.is_shared, tell=tell)


@asynccontextmanager
async def nodes(
    count: int = 2, *, is_shared: bool = True, heard: bool = True
) -> AsyncIterator[Nodes]:
    made = Nodes(count, is_shared=is_shared, heard=heard)
    await made.inner.open()
    for number in range(count):
        await made.open(number)
    try:
        yield made
    finally:
        for memory in made.memories:
            await memory.changes.close()


async def test_a_change_is_followed_when_the_call_returns() -> None:
    async with nodes(1, is_shared=False) as n:
        (memory,) = n.memories
        await memory.put("a")
        assert memory.seen == {"a": b"1"}
        assert memory.followed == [None, ["a"]]
        assert memory.is_trusted()
        await n.clock.advance(3600)
        # Where no other process changes the store, nothing is asked again.
        assert memory.is_trusted()
        assert memory.followed == [None, ["a"]]


async def test_another_node_follows_at_once_when_it_hears_of_a_change() -> None:
    async with nodes() as n:
        a, b = n.memories
        await a.put("x")
        await settle()
        assert b.seen == {"x": b"1"}
        assert b.followed == [None, ["x"]]


async def test_a_node_that_hears_nothing_follows_within_a_look() -> None:
    async with nodes(heard=False) as n:
        a, b = n.memories
        await a.put("x")
        await settle()
        assert b.seen == {}
        await n.clock.advance(LOOK_S)
        assert b.seen == {"x": b"1"}
        assert b.is_trusted()


async def test_a_change_that_restricts_returns_when_no_node_trusts_an_older_memory() -> None:
    async with nodes(heard=False) as n:
        a, b = n.memories
        # The worst case: the other node has just looked, and then cannot reach the store.
        await b.changes.look()
        n.stores[1].is_cut = True
        call = asyncio.get_running_loop().create_task(a.put("x", restricts=True))
        await settle()
        assert not call.done()
        await n.clock.advance(TRUST_S - 0.01)
        assert not call.done()
        await n.clock.advance(0.01)
        assert call.done()
        assert not b.is_trusted()
        with pytest.raises(StoreUnusable):
            await b.changes.look()
        n.stores[1].is_cut = False
        await b.changes.look()
        assert b.seen == {"x": b"1"}
        assert b.is_trusted()


async def test_a_change_that_gives_rights_does_not_wait() -> None:
    async with nodes(heard=False) as n:
        await n.memories[0].put("x")
        assert n.clock.monotonic() == 0


async def test_a_caller_that_leaves_does_not_keep_the_node_from_following() -> None:
    async with nodes(1, is_shared=False) as n:
        (memory,) = n.memories
        call = asyncio.get_running_loop().create_task(memory.put("x"))
        await next_pass()
        call.cancel()
        await settle()
        assert memory.seen == {"x": b"1"}


async def test_memory_is_not_trusted_while_a_change_cannot_be_followed() -> None:
    async with nodes(1, is_shared=False) as n:
        (memory,) = n.memories
        memory.fails = True
        await memory.put("x")
        assert not memory.is_trusted()
        memory.fails = False
        await n.clock.advance(LOOK_S)
        assert memory.is_trusted()
        assert memory.seen == {"x": b"1"}


async def test_a_conflict_changes_nothing_and_is_told() -> None:
    async with nodes(1) as n:
        (memory,) = n.memories
        await memory.put("x")
        with pytest.raises(RecordConflict):
            await memory.changes.commit(
                Put(key=thing("x"), body=b"2", expected=0), touched=[Touched("thing", "x")]
            )
        record = await n.inner.record(thing("x"))
        assert record is not None
        assert record.body == b"1"
        assert memory.followed == [None, ["x"]]


async def test_changes_at_once_at_many_nodes_are_all_made_and_followed() -> None:
    async with nodes(3) as n:
        names = [f"{node}-{number}" for node in range(3) for number in range(10)]
        calls = [n.memories[int(name[0])].put(name) for name in names]
        await asyncio.gather(*calls)
        await n.clock.advance(LOOK_S)
        for memory in n.memories:
            assert sorted(memory.seen) == sorted(names)
        head = await n.inner.record(Key("hub-head.1", "", ""))
        assert head is not None
        assert head.version == 30


async def test_a_node_that_missed_too_much_reads_everything_again() -> None:
    async with nodes(heard=False) as n:
        a, b = n.memories
        for number in range(3):
            await a.put(f"x{number}")
        # A change that was made long ago cannot be looked up any more.
        await n.inner.change(Delete(key=Key("hub-change.1", "", f"{1:016d}")))
        await b.changes.look()
        assert b.followed == [None, None]
        assert sorted(b.seen) == ["x0", "x1", "x2"]


async def test_callers_that_wait_for_a_look_share_one() -> None:
    async with nodes(1) as n:
        (memory,), (store,) = n.memories, n.stores
        before = store.calls
        await asyncio.gather(*(memory.changes.look() for _ in range(100)))
        # The first of them had begun when the others came.
        assert store.calls - before <= 2
