"""A database that was damaged while no gateway ran is noticed when one starts."""

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Snapshot, TaskQuery
from trunkline.stores.sqlite import SqliteStore, startup_check
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    create,
    must_get,
    must_put,
    opened,
)

PAGE = 4096
TASKS = 200


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with short and long tasks, of a gateway that was stopped properly."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    asyncio.run(fill(path))
    assert path.stat().st_size > 100 * PAGE
    return path


async def fill(path: Path) -> None:
    async with opened(lambda _: SqliteStore(path), "") as store:
        for number in range(TASKS):
            # Every other one does not fit on a page.
            text = b'{"text":"%s"}' % (b"long" * (10 if number % 2 else 3000))
            await must_put(
                store, create(f"t{number}", state=COMPLETED, snapshot=Snapshot(1, text, b"[]"))
            )


@pytest.fixture(params=["with-lock-file", "alone"])
def copy(sound: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "store.db"
    shutil.copy2(sound, path)
    if request.param == "with-lock-file":
        shutil.copy2(sound.with_name("store.db.lock"), tmp_path)
    return path


def contents(path: Path) -> bytes:
    return path.read_bytes()


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def overwrite(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


async def refusal(path: Path) -> str:
    before = contents(path)
    with pytest.raises(StoreUnusable) as refused:
        await SqliteStore(path).open()
    # Somebody may want to rescue what is left.
    assert contents(path) == before
    # And the lock is free again.
    with pytest.raises(StoreUnusable):
        await SqliteStore(path).open()
    text = str(refused.value)
    assert str(path) in text
    return text


@pytest.mark.parametrize("place", range(1, 16))
async def test_a_file_that_was_cut_off_is_refused(copy: Path, place: int) -> None:
    cut(copy, len(contents(copy)) * place // 16)
    text = await refusal(copy)
    assert "damaged" in text
    assert "backup" in text


async def test_a_file_that_lacks_its_last_byte_is_refused(copy: Path) -> None:
    cut(copy, len(contents(copy)) - 1)
    assert "damaged" in await refusal(copy)


@pytest.mark.parametrize("place", range(16))
async def test_a_page_of_zeros_is_noticed(copy: Path, place: int) -> None:
    pages = len(contents(copy)) // PAGE
    overwrite(copy, (pages - 1) * place // 15 * PAGE, bytes(PAGE))
    assert "damaged" in await refusal(copy)


def swap(path: Path, one: int, other: int) -> None:
    data = bytearray(path.read_bytes())
    first, second = slice(one * PAGE, (one + 1) * PAGE), slice(other * PAGE, (other + 1) * PAGE)
    data[first], data[second] = data[second], data[first]
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(8))
async def test_pages_in_each_others_places_are_noticed(copy: Path, seed: int) -> None:
    data = contents(copy)
    # Leaves of tables and of indexes; where a long text lies no one can tell. Those without a
    # cell are all alike.
    leaves = [
        n
        for n in range(1, len(data) // PAGE)
        if data[n * PAGE] in (0x0D, 0x0A) and any(data[n * PAGE + 3 : n * PAGE + 5])
    ]
    one, other = random.Random(seed).sample(leaves, 2)
    swap(copy, one, other)
    assert "damaged" in await refusal(copy)


async def test_garbage_in_place_of_the_header_is_refused(copy: Path) -> None:
    overwrite(copy, 0, random.Random(1).randbytes(100))
    assert "not a SQLite database, or is damaged" in await refusal(copy)


async def test_an_empty_file_where_tasks_were_is_refused(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copy2(sound.with_name("store.db.lock"), tmp_path)
    path.touch()
    text = await refusal(path)
    assert "is empty" in text
    assert f"delete {path}.lock" in text
    # As the error says.
    path.with_name("store.db.lock").unlink()
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert (await store.list(TaskQuery(scope=ALICE))).total == 0


async def test_a_database_without_its_tables_is_refused(copy: Path) -> None:
    vandal = sqlite3.connect(copy)
    vandal.execute("DROP TABLE counts")
    vandal.close()
    assert "lacks counts" in await refusal(copy)


async def test_a_sound_file_is_not_read_through(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    shutil.copy2(sound, path)
    shutil.copy2(sound.with_name("store.db.lock"), tmp_path)
    read: list[Path] = []
    monkeypatch.setattr(startup_check, "read_through", lambda _, path: read.append(path))
    for _ in range(2):
        async with opened(lambda _: SqliteStore(path), "") as store:
            assert (await must_get(store, "t7")).state is COMPLETED
    assert read == []
    # Whoever touched it since may have done anything.
    os.utime(path)
    async with opened(lambda _: SqliteStore(path), ""):
        pass
    assert read == [path]


async def test_a_crash_makes_the_next_start_read_it_through(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = await killed(sound, tmp_path)
    read: list[Path] = []
    monkeypatch.setattr(startup_check, "read_through", lambda _, path: read.append(path))
    async with opened(lambda _: SqliteStore(crashed), "") as store:
        assert (await must_get(store, "last")).last_seq == 1
    assert read == [crashed]


async def killed(sound: Path, tmp_path: Path) -> Path:
    """The files as a process leaves them that is killed after a commit."""
    path = tmp_path / "running" / "store.db"
    path.parent.mkdir()
    shutil.copy2(sound, path)
    shutil.copy2(sound.with_name("store.db.lock"), path.parent)
    left = tmp_path / "left"
    async with opened(lambda _: SqliteStore(path), "") as store:
        await must_put(store, create("last"))
        shutil.copytree(path.parent, left)
    return left / "store.db"


def cut_off(path: Path) -> None:
    cut(path, len(contents(path)) // 2)


def zero_pages(path: Path) -> None:
    overwrite(path, 20 * PAGE, bytes(20 * PAGE))


@pytest.mark.parametrize("damage", [cut_off, zero_pages])
async def test_damage_after_a_crash_is_noticed(
    sound: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = await killed(sound, tmp_path)
    damage(path)
    assert "damaged" in await refusal(path)


async def test_a_file_that_vanished_after_a_crash_is_not_replaced_silently(
    sound: Path, tmp_path: Path
) -> None:
    path = await killed(sound, tmp_path)
    path.unlink()
    with pytest.raises(StoreUnusable, match="is empty or gone"):
        await SqliteStore(path).open()


async def test_a_log_that_vanished_after_a_crash_is_told(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = await killed(sound, tmp_path)
    path.with_name("store.db-wal").unlink()
    async with opened(lambda _: SqliteStore(path), "") as store:
        # What another program may have written back is there; this was not.
        assert await store.get(ALICE, "last") is None
    assert [record.message for record in caplog.records] == ["the log of the last process is gone"]


async def test_a_large_file_is_not_read_through(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = await killed(sound, tmp_path)
    monkeypatch.setattr(startup_check, "READ_THROUGH_BYTES", 100 * PAGE)
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert (await must_get(store, "last")).last_seq == 1
    [record] = caplog.records
    assert "trunkline db check" in record.__dict__["remedy"]


async def test_pages_that_were_freed_are_no_damage(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copy2(sound, path)
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert await store.prune("agent", limit=TASKS // 2) == TASKS // 2
    os.utime(path)
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert (await store.list(TaskQuery(scope=ALICE))).total == TASKS // 2
