"""`verify` finds every change of what the audit has stored, and names its place."""

import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trunkline.hub.audit_chain import (
    HEAD,
    SEGMENT,
    TIP,
    Head,
    begun,
    closed_at,
    extended,
    head_key,
    head_of,
    put_head,
    put_tip,
    segment_id,
)
from trunkline.hub.audit_rows import Row, encode_row, read_line
from trunkline.hub.audit_verify import verify
from trunkline.ports.records import Delete, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.stores.memory import MemoryStore

SEGMENTS = 3
ROWS = 20


async def stored(
    *, chains: int = 3, segments: int = SEGMENTS, rows: int = ROWS, store: Store | None = None
) -> Store:
    store = store or MemoryStore()
    await store.open()
    before = ""
    for number in range(chains):
        name = f"chain-{number}"
        head = begun(name, before=before, now_ms=1000 + number)
        for _ in range(segments):
            bodies = [
                encode_row(Row(kind="attempt", at_ms=at, who="alice", agent="acme/echo"))
                for at in range(rows)
            ]
            head, puts = extended(head, bodies)
            await store.change(*puts)
        if number < chains - 1:
            head = closed_at(head, 2000)
        await store.change(put_head(head, expected=0), put_tip(name, expected=number))
        before = name
    return store


async def head(store: Store, chain: str) -> Head:
    record = await store.record(head_key(chain))
    assert record is not None
    return head_of(record)


def segment(chain: str = "chain-1", first: int = ROWS + 1) -> Key:
    return Key(SEGMENT, chain, segment_id(first))


async def body(store: Store, key: Key) -> bytes:
    record = await store.record(key)
    assert record is not None
    return record.body


async def lines(
    store: Store, change: Callable[[list[bytes]], object], *, chain: str = "chain-1"
) -> None:
    key = segment(chain)
    changed = (await body(store, key)).split(b"\n")
    change(changed)
    await store.change(Put(key=key, body=b"\n".join(changed)))


async def faults(store: Store) -> list[tuple[str, int, str]]:
    return [(fault.chain, fault.number, fault.what) for fault in (await verify(store)).faults]


async def test_a_whole_audit_is_sound() -> None:
    store = await stored()
    found = await verify(store)
    assert found.is_sound
    assert (found.rows, found.chains, found.newest) == (3 * SEGMENTS * ROWS, 3, "chain-2")
    assert found.hash == (await head(store, "chain-2")).hash


async def test_no_audit_is_sound() -> None:
    store = MemoryStore()
    await store.open()
    found = await verify(store)
    assert (found.is_sound, found.rows, found.newest) == (True, 0, "")


@settings(max_examples=60)
@given(st.data())
async def test_a_flipped_bit_is_found_where_it_is(data: st.DataObject) -> None:
    store = await stored(chains=2, segments=2, rows=3)
    key = segment("chain-1", 4)
    data_body = bytearray(await body(store, key))
    at = data.draw(st.integers(0, len(data_body) - 1))
    data_body[at] ^= 1 << data.draw(st.integers(0, 7))
    await store.change(Put(key=key, body=bytes(data_body)))
    ((chain, number, _),) = await faults(store)
    # A line break that is gone, or one more, shows at its own row or at the next one.
    row = 4 + bytes(data_body[:at]).count(b"\n")
    assert chain == "chain-1"
    assert number in (row, row + 1)


@settings(max_examples=40)
@given(st.data())
async def test_a_flipped_bit_of_a_head_or_of_the_list_is_found(data: st.DataObject) -> None:
    store = await stored(chains=2, segments=1, rows=2)
    key = data.draw(st.sampled_from([TIP, head_key("chain-0"), head_key("chain-1")]))
    changed = bytearray(await body(store, key))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    await store.change(Put(key=key, body=bytes(changed)))
    assert await faults(store) != []


async def test_a_removed_row_is_found() -> None:
    store = await stored()
    await lines(store, lambda all_: all_.pop(4))
    assert await faults(store) == [("chain-1", 25, "the number of the row is 26")]


async def test_a_swapped_pair_is_found() -> None:
    store = await stored()

    def swap(all_: list[bytes]) -> None:
        all_[4], all_[5] = all_[5], all_[4]

    await lines(store, swap)
    assert await faults(store) == [("chain-1", 25, "the number of the row is 26")]


async def test_a_removed_segment_is_found() -> None:
    store = await stored()
    await store.change(Delete(key=segment()))
    assert await faults(store) == [("chain-1", 21, "rows are missing: the next ones begin with 41")]


async def test_a_cut_end_is_found() -> None:
    store = await stored()
    await store.change(Delete(key=segment(first=2 * ROWS + 1)))
    assert await faults(store) == [("chain-1", 41, "rows 41 to 60 are missing at the end")]


@pytest.mark.parametrize("chain", ["chain-0", "chain-1", "chain-2"])
async def test_a_removed_chain_is_found(chain: str) -> None:
    store = await stored()
    await store.change(Delete(key=head_key(chain)))
    for first in range(1, SEGMENTS * ROWS, ROWS):
        await store.change(Delete(key=segment(chain, first)))
    by = {"chain-0": "chain chain-1", "chain-1": "chain chain-2"}.get(chain, "the list of chains")
    assert await faults(store) == [(chain, 0, f"the chain is missing; {by} names it")]


async def test_a_chain_that_is_left_out_of_the_list_is_found() -> None:
    store = await stored()
    other = begun("chain-2", before="chain-0", now_ms=1002)
    await store.change(put_head(other, expected=1))
    assert ("chain-1", 0, "no later chain names it") in await faults(store)


async def test_a_list_that_is_gone_is_found() -> None:
    store = await stored(chains=1)
    await store.change(Delete(key=TIP))
    assert await faults(store) == [("chain-0", 0, "no later chain names it")]


async def test_rows_that_were_put_behind_the_end_are_found() -> None:
    store = await stored()
    _, puts = extended(await head(store, "chain-1"), [encode_row(Row(kind="change", at_ms=1))])
    await store.change(*puts)
    assert await faults(store) == [("chain-1", 61, "there are rows behind the end of the chain")]


async def test_rows_of_another_name_behind_the_end_are_found() -> None:
    store = await stored()
    await store.change(Put(key=Key(SEGMENT, "chain-1", "later"), body=b"x"))
    assert await faults(store) == [("chain-1", 61, "there are rows behind the end of the chain")]


@pytest.mark.parametrize("change", ["damage", "remove"])
async def test_a_head_that_changes_while_its_chain_is_checked_stops_no_check(change: str) -> None:
    store = await stored(chains=1)
    await lines(store, lambda all_: all_.pop(4), chain="chain-0")
    key = head_key("chain-0")

    async def meanwhile() -> None:
        await store.change(Put(key=key, body=b"damaged") if change == "damage" else Delete(key=key))

    # The tip and the heads are read before, so this comes while the rows are.
    found = await verify(Behind(store, 3, meanwhile))
    assert [(fault.chain, fault.number) for fault in found.faults] == [("chain-0", 25)]


async def test_rows_without_a_head_are_found() -> None:
    store = await stored()
    await store.change(Put(key=segment("other", 1), body=b"x"))
    assert await faults(store) == [("other", 0, "the head is missing, and there are rows")]


class Behind:
    """Reads a store that changes after a number of reads."""

    def __init__(self, store: Store, after: int, change: Callable[[], Awaitable[None]]) -> None:
        self._store, self._after, self._change = store, after, change

    async def _read(self) -> None:
        self._after -= 1
        if self._after == 0:
            await self._change()

    async def record(self, key: Key) -> Record | None:
        await self._read()
        return await self._store.record(key)

    async def records(self, kind: str, **options: Any) -> Sequence[Record]:
        await self._read()
        return await self._store.records(kind, **options)


@pytest.mark.parametrize("after", range(1, 12))
async def test_a_node_that_writes_and_forgets_meanwhile_breaks_nothing(after: int) -> None:
    store = await stored(chains=1)
    known = await head(store, "chain-0")

    async def go_on() -> None:
        longer, puts = extended(known, [encode_row(Row(kind="change", at_ms=1))] * 300)
        await store.change(*puts, put_head(longer, expected=1))
        line = (await body(store, segment("chain-0", 1))).split(b"\n")[-1]
        shorter = replace(longer, first=ROWS + 1, hash_before_first=read_line(line).hash)
        await store.change(put_head(shorter, expected=2), Delete(key=segment("chain-0", 1)))
        new = begun("chain-1", before="chain-0", now_ms=3000)
        await store.change(put_head(new, expected=0), put_tip("chain-1", expected=1))

    found = await verify(Behind(store, after, go_on))
    assert found.faults == ()


async def check_many(rows: int) -> None:
    store = await stored(chains=1, segments=0)
    known = await head(store, "chain-0")
    version = 1
    encoded = [
        encode_row(Row(kind="attempt", at_ms=at, who="user:alice", agent="acme/echo", id="x" * 36))
        for at in range(256)
    ]
    for _ in range(rows // 256):
        known, puts = extended(known, encoded)
        await store.change(*puts, put_head(known, expected=version))
        version += 1
    tracemalloc.start()
    found = await verify(store)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.is_sound, found.rows) == (True, rows // 256 * 256)
    # Whatever the number of rows: a page of segments, and its lines.
    assert peak < 16 * 1024 * 1024


async def test_verify_needs_no_more_memory_for_many_rows() -> None:
    await check_many(20_000)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_verify_needs_no_more_memory_for_a_million_rows() -> None:
    await check_many(1_000_000)


async def test_heads_are_listed_beyond_a_page() -> None:
    store = await stored(chains=40, segments=1, rows=1)
    found = await verify(store)
    assert (found.is_sound, found.chains, found.rows) == (True, 40, 40)
    assert len(await store.records(HEAD, limit=100)) == 40
