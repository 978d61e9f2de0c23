"""Copies from and to PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.postgres.server import PostgresServer
from tests.unit.stores.copies import (
    Make,
    assert_like_the_source,
    copy,
    fill,
    json_files,
    opened,
    sqlite,
)

from trunkline.model.errors import StoreInUse, Unstorable
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Key, Put, Record
from trunkline.stores.copying import Progress
from trunkline.stores.postgres.copying import CopyablePostgresStore
from trunkline.testing.stores.kit import create, must_change, must_put


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[CopyablePostgresStore]:
    store = CopyablePostgresStore(postgres_url, allow_unsafe=True)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("make", [sqlite, pytest.param(json_files, marks=pytest.mark.full)])
async def test_a_copy_and_the_copy_of_the_copy_are_equal(
    make: Make, postgres: CopyablePostgresStore, tmp_path: Path
) -> None:
    source = await opened(make(tmp_path / "1"))
    await fill(source)
    first = await copy(source, postgres)
    assert (first.tasks, first.records) == (105, 5)
    back = await opened(make(tmp_path / "2"))
    assert await copy(postgres, back) == first
    for store in (postgres, back):
        await assert_like_the_source(store)
    for store in (source, back):
        await store.close()


async def test_a_task_that_began_in_postgresql_is_copied(
    postgres: CopyablePostgresStore, tmp_path: Path
) -> None:
    await fill(postgres)
    target = await opened(sqlite(tmp_path))
    assert (await copy(postgres, target)).tasks == 105
    await assert_like_the_source(target)
    await target.close()


class Killed(BaseException):
    pass


async def test_a_copy_that_was_killed_is_continued(postgres_url: str, tmp_path: Path) -> None:
    source = await opened(sqlite(tmp_path))
    await fill(source)

    def kill(progress: Progress) -> None:
        raise Killed

    kills, copied = 0, None
    while copied is None:
        target = await opened(CopyablePostgresStore(postgres_url, allow_unsafe=True))
        try:
            copied = await copy(source, target, kill)
        except Killed:
            kills += 1
        finally:
            await target.close()
    assert (kills, copied.tasks) == (3, 105)
    await source.close()


async def test_two_copies_do_not_use_one_database(
    postgres: CopyablePostgresStore, postgres_url: str
) -> None:
    second = CopyablePostgresStore(postgres_url, allow_unsafe=True)
    with pytest.raises(StoreInUse, match=r"Another copy uses postgresql://.*Wait until"):
        await second.open()


async def test_records_are_put_as_they_are(postgres: CopyablePostgresStore) -> None:
    await must_put(postgres, create("t"))
    key = Key("k.1", "s", "i")
    await must_change(postgres, Put(key=key, body=b"old", tags=("x",), due_in_ms=5))
    record = await postgres.record(key)
    assert record is not None
    new = structs.replace(record, version=9, body=b"new", tags=("y",), attempts=3, count=2)
    await postgres.put_copies([RecordCopy(record=new, task_id="t")])
    assert await postgres.records_after(None, limit=9) == [RecordCopy(record=new, task_id="t")]
    assert await postgres.records("k.1", tag="x", limit=9) == ()
    assert await postgres.records("k.1", tag="y", limit=9) == (new,)
    assert await postgres.task_records("t") == (new,)


async def test_a_text_that_postgresql_cannot_store_is_named(
    postgres: CopyablePostgresStore,
) -> None:
    record = Record(key=Key("k.1", "s", "a\0b"), version=1, body=b"")
    with pytest.raises(Unstorable, match=r"A record cannot be stored in postgresql://"):
        await postgres.put_copies([RecordCopy(record=record)])


@pytest.mark.full
async def test_a_database_that_is_killed_meanwhile_ends_the_copy(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    """And the same command continues it."""
    url = own_postgres.create_database(lambda _: None)
    source = await opened(sqlite(tmp_path))
    await fill(source)
    target = await opened(CopyablePostgresStore(url))
    failing = asyncio.Event()

    def kill(progress: Progress) -> None:
        if not failing.is_set():
            failing.set()
            own_postgres.kill()

    with pytest.raises(Exception, match=r"postgresql://|cannot be") as caught:
        await copy(source, target, kill)
    assert type(caught.value).__module__ == "trunkline.model.errors"
    await target.close()
    own_postgres.start()
    target = await opened(CopyablePostgresStore(url))
    assert (await copy(source, target)).tasks == 105
    await target.close()
    await source.close()
