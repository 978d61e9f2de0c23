"""Large values on disk: one slice per commit, others in between, nothing left over."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import STATUS, Entry
from trunkline.model.large_values import SLICE_BYTES, LargeValue
from trunkline.ports.store import Append, Snapshot
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    assert_refused,
    create,
    follow,
    must_get,
    must_put,
    opened,
    put,
    submit,
)

SLICES = 12
TEXT = "x" * (SLICES * SLICE_BYTES)


def large(append: Append, value_id: str = "one") -> Append:
    return msgspec.structs.replace(append, values=(LargeValue(value_id, TEXT),))


class Trace:
    """The statements of the connection that writes, without their values."""

    def __init__(self, store: SqliteStore) -> None:
        self.statements: list[str] = []
        assert store._opened is not None
        store._opened.writer.connection.set_trace_callback(self._take)

    def _take(self, statement: str) -> None:
        self.statements.append(" ".join(statement.split()[:3]))

    def commits(self) -> list[list[str]]:
        found: list[list[str]] = []
        for statement in self.statements:
            if statement.startswith("BEGIN"):
                found.append([])
            elif not statement.startswith("COMMIT"):
                found[-1].append(statement)
        return found


def rows(path: Path, table: str) -> int:
    db = sqlite3.connect(path)
    try:
        ((count,),) = db.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(count)
    finally:
        db.close()


async def until_swept(path: Path) -> None:
    """A look takes a thread, so that the store gets on meanwhile."""
    while await asyncio.to_thread(rows, path, "loose_values"):
        pass


async def test_every_slice_is_a_commit_of_its_own(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    trace = Trace(store)
    await must_put(store, large(create("a")))
    commits = [commit for commit in trace.commits() if commit]
    slices = [commit for commit in commits if "INSERT INTO slices" in commit]
    assert len(slices) == SLICES
    assert all(commit.count("INSERT INTO slices") == 1 for commit in slices)
    assert slices[0] == ["INSERT INTO loose_values", "INSERT INTO slices"]
    # The append comes last, and what it commits is small.
    assert "INSERT INTO large_values" in commits[-1]
    assert "INSERT INTO slices" not in commits[-1]
    await store.close()


async def test_others_commit_between_the_slices(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    trace = Trace(store)
    writing = submit(store, large(create("large")))
    small = 0
    while not writing.done():
        await must_put(store, create(f"small-{small}"))
        small += 1
    kinds = [
        "slice" if "INSERT INTO slices" in commit else "append"
        for commit in trace.commits()
        if commit
    ]
    # A small append never waits for more than the slice under way and the next one.
    assert "slice slice slice" not in " ".join(kinds)
    assert small >= SLICES // 2
    await store.close()


async def test_crash_between_slices_leaves_nothing(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    store = SqliteStore(path)
    await store.open()
    await must_put(store, create("a"))
    writing = submit(store, large(follow("a", 1)))
    while await asyncio.to_thread(rows, path, "slices") < SLICES // 2:
        assert not writing.done()
    # What a machine finds on its disk that lost power now.
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        # For as long as it reads, the log is not begun anew: the two files stay of one moment.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM slices").fetchall()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    await writing
    await store.close()
    assert rows(copy, "loose_values") == 1
    async with opened(lambda _: SqliteStore(copy), "") as after:
        assert (await must_get(after, "a")).last_seq == 1
        assert await after.value_sizes(ALICE, ["one"]) == {}
        assert await after.value_slices("one", first=0, limit=9) == ()
        await until_swept(copy)
        assert rows(copy, "slices") == 0
        # The number of the lost value is free, and what gets it is sound.
        await must_put(after, large(follow("a", 1)))
        assert await after.value_sizes(ALICE, ["one"]) == {"one": len(TEXT)}


async def test_full_disk_in_the_middle_refuses_the_append_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("a"))
        vandal = sqlite3.connect(path, isolation_level=None)
        vandal.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON slices WHEN (NEW.place & 0xFFFFFF) = 5 "
            "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        first, behind, other = await put(store, large(follow("a", 1)), follow("a", 2), create("b"))
        assert_refused(first, StoreUnusable)
        assert behind is not None, "it builds on what was refused"
        assert other is None
        assert (await must_get(store, "a")).last_seq == 1
        vandal.execute("DROP TRIGGER broken")
        vandal.close()
        await until_swept(path)
        assert rows(path, "slices") == 0
        await must_put(store, large(follow("a", 1), "two"), follow("a", 2))
        assert await store.value_sizes(ALICE, ["one", "two"]) == {"two": len(TEXT)}


async def test_slices_of_a_pruned_task_go_little_by_little(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await store.open()
    text = "x" * (40 * SLICE_BYTES)
    ended = create("a", state=COMPLETED)
    await must_put(store, msgspec.structs.replace(ended, values=(LargeValue("one", text),)))
    assert rows(path, "slices") == 40
    trace = Trace(store)
    assert await store.prune("agent", limit=9) == 1
    await until_swept(path)
    assert rows(path, "slices") == 0
    assert sum("DELETE FROM slices" in commit for commit in trace.commits()) == 3
    await store.close()


async def test_sweeping_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, large(create("a", state=COMPLETED)), large(create("b"), "two"))
        assert await store.prune("agent", limit=9) == 1
    async with opened(lambda _: SqliteStore(path), "") as store:
        await until_swept(path)
        assert rows(path, "slices") == SLICES
        assert await store.value_sizes(ALICE, ["one", "two"]) == {"two": len(TEXT)}


def with_bodies(append: Append, size: int) -> Append:
    """Entries and a snapshot that are large without any large text."""
    last = append.expected_seq + 1
    return msgspec.structs.replace(
        append,
        entries=(Entry(last, STATUS, b"e" * size),),
        snapshot=Snapshot(last, b"t" * size, b"a" * size),
    )


async def test_large_bodies_are_written_in_slices_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await store.open()
    await must_put(store, create("a"))
    trace = Trace(store)
    await must_put(store, with_bodies(follow("a", 1), 4 * SLICE_BYTES))
    commits = [commit for commit in trace.commits() if commit]
    assert sum("INSERT INTO slices" in commit for commit in commits) == 12
    assert max(commit.count("INSERT INTO slices") for commit in commits) == 1
    assert rows(path, "large_values") == 3
    # The next snapshot takes the place of the one before; the entry stays.
    await must_put(store, with_bodies(follow("a", 2), 2 * SLICE_BYTES))
    await until_swept(path)
    assert rows(path, "large_values") == 4
    assert rows(path, "slices") == 4 + 3 * 2
    stored = await must_get(store, "a")
    assert stored.snapshot == Snapshot(3, b"t" * 2 * SLICE_BYTES, b"a" * 2 * SLICE_BYTES)
    await store.close()


async def test_small_appends_write_no_slices(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    trace = Trace(store)
    await must_put(store, create("a"), with_bodies(follow("a", 1), SLICE_BYTES))
    assert [commit for commit in trace.commits() if "INSERT INTO slices" in commit] == []
    await store.close()
