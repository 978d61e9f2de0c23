"""Entries that share a row come back one by one."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trunkline.model.events import Entry
from trunkline.ports.store import Snapshot
from trunkline.stores.sqlite import SqliteStore
from trunkline.stores.sqlite.rows import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_SEQ,
    SEQ_BITS,
    add_rows,
    entries_after,
)
from trunkline.testing.stores.kit import create, entries, follow, must_get, must_put, opened

START = 7 << SEQ_BITS
NOW_MS = 1_750_000_000_000


def rows_of(*parts: tuple[Entry, ...]) -> list[tuple[Any, ...]]:
    values: list[Any] = []
    for part in parts:
        add_rows(values, START, part, NOW_MS)
    return list(zip(values[::4], values[1::4], values[2::4], values[3::4], strict=True))


def seqs(rows: list[tuple[Any, ...]]) -> list[int]:
    assert all(place >> SEQ_BITS == 7 for place, _, _, _ in rows)
    return [place & MAX_SEQ for place, _, _, _ in rows]


def journal(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT place, kind, body, committed_ms FROM events ORDER BY place"
        ).fetchall()
    db.close()
    return rows


@pytest.mark.parametrize("count", [0, 1, 2, MAX_ENTRIES, MAX_ENTRIES + 1, 3 * MAX_ENTRIES + 2])
def test_any_number_of_entries_comes_back(count: int) -> None:
    written = entries(5, count)
    rows = rows_of(written)
    assert len(rows) == -(-count // MAX_ENTRIES)
    found = entries_after(rows, 0, -1)
    assert found == written
    assert {entry.committed_ms for entry in found} <= {NOW_MS}


def test_row_lies_at_its_last_entry() -> None:
    rows = rows_of(entries(0, 4), entries(4, 1), entries(5, 2))
    assert seqs(rows) == [4, 5, 7]
    assert rows[1][1:] == (entries(4, 1)[0].kind, entries(4, 1)[0].body, NOW_MS)


def test_single_entry_is_as_it_was_before_there_were_packed_ones() -> None:
    (entry,) = entries(0, 1)
    assert entries_after([(START | 1, entry.kind, entry.body, None)], 0, -1) == (entry,)


def test_large_entries_have_rows_of_their_own() -> None:
    large = tuple(Entry(seq, "artifact.1", b"x" * (MAX_BYTES // 2)) for seq in (1, 2, 3))
    rows = rows_of(large)
    assert seqs(rows) == [1, 2, 3]
    assert entries_after(rows, 0, -1) == large


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 9])
def test_pages_begin_and_end_within_a_row(after: int, limit: int) -> None:
    rows = rows_of(entries(0, 3), entries(3, 1), entries(4, 3))
    wanted = [row for row in rows if row[0] & MAX_SEQ > after]
    expected = entries(0, 7)[after:]
    assert entries_after(wanted, after, limit) == expected[: None if limit < 0 else limit]


async def test_appends_of_one_commit_share_a_row(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("a"), create("b", count=2), follow("a", 1, count=2))
        await must_put(store, follow("a", 3))
        places = [(place >> SEQ_BITS, place & MAX_SEQ) for place, _, _, _ in journal(path)]
        assert places == [(1, 3), (1, 4), (2, 2)]
        assert (await must_get(store, "a")).tail == entries(0, 4)
        assert await store.entries("a", after=1, limit=2) == entries(1, 2)


async def test_pruning_cuts_a_row_in_two(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        snapshot = Snapshot(6, b"{}")
        await must_put(store, create("t", count=6, snapshot=snapshot), create("u", count=2))
        for up_to in range(7):
            await store.prune_journal("t", up_to=up_to)
            assert await store.entries("t", after=0, limit=9) == entries(up_to, 6 - up_to)
            assert (await must_get(store, "t")).last_seq == 6
            await must_put(store, create(f"v{up_to}"))
        assert await store.entries("u", after=0, limit=9) == entries(0, 2)


async def test_task_whose_snapshot_ends_within_a_row_has_the_rest_as_its_tail(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(
            store, create("t", count=3, snapshot=Snapshot(3, b"{}")), follow("t", 3, count=2)
        )
        task = await must_get(store, "t")
        assert (task.tail, task.last_seq) == (entries(3, 2), 5)
