"""What another program may do to a database in use, and what it may not."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Snapshot
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import (
    COMPLETED,
    assert_refused,
    create,
    follow,
    must_get,
    must_put,
    put,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path, look_every_s=0)
    await made.open()
    await must_put(made, create("a"))
    yield made
    await made.close()


def other_program(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def size(path: Path) -> int:
    return path.stat().st_size


def log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


async def test_a_log_that_another_program_writes_back_is_no_problem(
    store: SqliteStore, path: Path
) -> None:
    for seq in range(1, 5):
        await must_put(store, follow("a", seq))
    other_program(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert size(log(path)) == 0
    await store.check()
    assert store.problem is None
    await must_put(store, follow("a", 5))
    assert (await must_get(store, "a")).last_seq == 6


async def test_a_vacuum_of_another_program_is_no_problem(store: SqliteStore, path: Path) -> None:
    text = b'"%s"' % (b"long" * 20_000)
    await must_put(store, create("big", state=COMPLETED, snapshot=Snapshot(1, text)))
    other_program(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    await store.check()
    before = size(path)
    assert await store.prune("agent", limit=9) == 1
    other_program(path, "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
    assert size(path) < before
    await must_put(store, follow("a", 1))
    assert store.problem is None


async def test_a_log_with_another_name_is_noticed_by_the_next_look(
    store: SqliteStore, path: Path
) -> None:
    log(path).rename(path.with_name("elsewhere"))
    await store.check()
    assert store.problem is not None
    assert "write-ahead log" in store.problem
    assert_refused((await put(store, follow("a", 1)))[0], StoreUnusable)


def cut_log(path: Path) -> None:
    os.truncate(log(path), size(log(path)) - 1)


def cut_file(path: Path) -> None:
    os.truncate(path, size(path) - 1)


@pytest.mark.parametrize("cut", [cut_log, cut_file])
async def test_a_file_that_was_cut_short_is_a_problem(
    store: SqliteStore, path: Path, cut: Callable[[Path], None]
) -> None:
    await must_put(store, follow("a", 1))
    await store.check()
    cut(path)
    for _ in range(2):
        assert_refused((await put(store, follow("a", 2), create("b")))[1], StoreUnusable)
    with pytest.raises(StoreUnusable, match=r"cut short|write-ahead log"):
        await store.change(Put(key=Key("check.1", "", "a")))
    # What was stored before can be read.
    assert (await must_get(store, "a")).last_seq == 2


def move(path: Path, to: Path) -> None:
    path.rename(to)


async def test_a_refused_change_is_not_in_a_file_that_comes_back(
    store: SqliteStore, path: Path
) -> None:
    elsewhere = path.with_name("elsewhere")
    move(path, elsewhere)
    assert_refused((await put(store, create("late")))[0], StoreUnusable)
    move(elsewhere, path)
    # It may have been anywhere meanwhile.
    assert_refused((await put(store, create("later")))[0], StoreUnusable)
    await store.close()
    again = SqliteStore(path)
    await again.open()
    assert again.problem is None
    assert [scope.principal for scope in await again.scopes()] == ["alice"]
    assert await again.entries("late", after=0, limit=1) == ()
    assert len(await again.entries("a", after=0, limit=9)) == 1
    await again.close()
