"""The process lives on when the file cannot be opened or written."""

import asyncio
import resource
import sqlite3
import stat
from pathlib import Path

import pytest

from trunkline.model.errors import StoreInUse, StoreUnusable
from trunkline.ports.records import Key, Put
from trunkline.ports.store import TaskQuery
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import (
    ALICE,
    assert_refused,
    create,
    follow,
    must_get,
    must_put,
    opened,
    put,
    submit,
)


async def test_failed_batch_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("a"))
        vandal = sqlite3.connect(path, isolation_level=None)
        vandal.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'broken'); END"
        )
        results = await put(store, follow("a", 1), create("b", key="k"), follow("a", 9))
        for result in results:
            assert_refused(result, StoreUnusable)
        assert str(path) in str(results[0])
        assert "broken" in str(results[0])
        vandal.execute("DROP TRIGGER broken")
        vandal.close()
        assert await store.get(ALICE, "b") is None
        await must_put(store, follow("a", 1), create("b", key="k"))
        page = await store.list(TaskQuery(scope=ALICE))
        assert page.total == len(page.tasks) == 2


async def test_refusals_are_told_after_the_batch_before(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        vandal = sqlite3.connect(path, isolation_level=None)
        vandal.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON tasks WHEN NEW.id = 'bad' "
            "BEGIN SELECT RAISE(ABORT, 'broken'); END"
        )
        vandal.close()
        loop = asyncio.get_running_loop()
        told: list[str] = []
        first = submit(store, create("good"))
        first.add_done_callback(lambda _: told.append("good"))
        started = loop.create_future()
        loop.call_soon(started.set_result, None)
        await started
        second = submit(store, create("bad"))
        second.add_done_callback(lambda _: told.append("bad"))
        assert_refused(await second, StoreUnusable)
        assert await first is None
        assert told == ["good", "bad"]


async def test_more_than_one_batch_at_once_is_committed_in_order(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("t"), *[follow("t", after) for after in range(1, 1000)])
        assert (await must_get(store, "t")).last_seq == 1000


async def test_full_disk_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("a"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # No file may grow beyond what the log has now: the commit itself fails.
        size = path.with_name("store.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            results = await put(store, follow("a", 1), create("b"))
            with pytest.raises(StoreUnusable, match="cannot be written"):
                await store.change(Put(key=Key("check.1", "", "a")))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        for result in results:
            assert_refused(result, StoreUnusable)
        assert "free space" in str(results[0])
        assert (await must_get(store, "a")).last_seq == 1
        await must_put(store, follow("a", 1), create("b"))
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert (await must_get(store, "a")).last_seq == 2
        assert (await must_get(store, "b")).last_seq == 1


async def test_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("This is no database. " * 100)
    with pytest.raises(StoreUnusable, match="not a SQLite database"):
        await SqliteStore(text).open()
    assert text.read_text().startswith("This is no database.")

    other = tmp_path / "other.db"
    foreign = sqlite3.connect(other)
    foreign.execute("CREATE TABLE songs (title TEXT)")
    foreign.close()
    with pytest.raises(StoreUnusable, match="another program"):
        await SqliteStore(other).open()


async def test_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "store.db", tmp_path):
        with pytest.raises(StoreUnusable, match=r"opened: .* must be writable for the user"):
            await SqliteStore(path).open()


async def test_refused_open_lets_go_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("This is no database. " * 100)
    with pytest.raises(StoreUnusable):
        await SqliteStore(path).open()
    path.unlink()
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("t"))


async def test_same_process_opens_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        with pytest.raises(StoreInUse, match="in use by process"):
            await SqliteStore(path).open()
        await must_put(store, create("t"))


async def test_file_is_private_and_alone_after_close(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("t"))
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert {file.name for file in path.parent.iterdir()} == {"store.db", "store.db.lock"}


async def test_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with pytest.raises(StoreUnusable, match="not open"):
        await store.get(ALICE, "t")
    await store.open()
    await store.close()
    with pytest.raises(StoreUnusable, match="not open"):
        await store.list(TaskQuery(scope=ALICE))
    with pytest.raises(StoreUnusable, match="not open"):
        await store.prune("agent", limit=1)
