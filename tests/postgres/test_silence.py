"""A database that does not answer, and keeps its connections open: reads and changes are refused
soon, and all is well again with the first answer."""

import asyncio
from collections.abc import Awaitable, Callable
from signal import SIGCONT, SIGSTOP

import pytest
from tests.postgres.fixtures import fill_template
from tests.postgres.proxy import database_proxy
from tests.postgres.server import PostgresServer
from tests.postgres.test_writer import behind_a_proxy, count, opened, until

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Add
from trunkline.stores.postgres.connection import ConnectionLost, DatabaseError
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.silence import Silence
from trunkline.testing.stores.kit import create, key, must_put

# Longer than any test: nothing ends because a statement took too long.
PATIENCE_S = 600.0
ADD = Add(key=key("n"), amount=1, at_most=9)


async def until_read(read: Callable[[], Awaitable[object]]) -> None:
    """Return when the database is read again."""
    async with asyncio.timeout(10):
        while True:
            try:
                await read()
                return
            except StoreUnusable:
                await asyncio.sleep(0.005)


async def test_reads_of_a_silent_database_are_refused(postgres_url: str) -> None:
    """Those under way, those that wait for a connection, and those that come later."""
    async with database_proxy(postgres_url) as proxy:
        database = Database(proxy.url, readers=1, read_s=PATIENCE_S)
        assert await database.read("SELECT 1") == [(1,)]
        proxy.freeze()
        reads = [asyncio.ensure_future(database.read("SELECT 1")) for _ in range(3)]
        await asyncio.wait(reads)
        for read in (*reads, asyncio.ensure_future(database.read("SELECT 1"))):
            with pytest.raises(StoreUnusable, match="does not answer"):
                await read
        proxy.thaw()
        await until_read(lambda: database.read("SELECT 1"))
        await database.close()


@pytest.mark.parametrize(
    ("answer", "is_silent"),
    [(None, False), (DatabaseError("53300", "too many clients"), False), (ConnectionLost(), True)],
)
async def test_a_statement_that_takes_long_is_no_silence(
    answer: Exception | None, is_silent: bool
) -> None:
    fell_silent = 0
    answers = [answer, None]

    async def ask() -> None:
        found = answers.pop(0)
        if found is not None:
            raise found

    def began() -> None:
        nonlocal fell_silent
        fell_silent += 1
        assert silence.is_silent

    silence = Silence(ask, began)
    silence.suspect()
    # One question at a time.
    silence.suspect()
    await until(lambda: len(answers) == (0 if is_silent else 1))
    await until(lambda: not silence.is_silent)
    assert fell_silent == is_silent
    await silence.close()


async def test_a_store_whose_database_hangs_refuses_and_goes_on_by_itself(
    own_postgres: PostgresServer,
) -> None:
    url = await asyncio.to_thread(own_postgres.create_database, fill_template)
    async with opened(url) as store:
        await must_put(store, create("t"))
        await asyncio.to_thread(own_postgres.signal_backends, SIGSTOP)
        try:
            under_way = asyncio.ensure_future(store.change(ADD))
            await until(lambda: store.problem is not None)
            for refused in (store.change(ADD), store.record(key("n"))):
                with pytest.raises(StoreUnusable):
                    await refused
        finally:
            await asyncio.to_thread(own_postgres.signal_backends, SIGCONT)
        # What was submitted before was not undone.
        await under_way
        assert store.problem is None
        await until_read(lambda: store.record(key("n")))
        await store.change(ADD)
        assert await count(store) == 2


async def test_a_commit_that_hangs_alone_is_a_problem(cleared_postgres_url: str) -> None:
    """The database answers everything else."""
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        proxy.freeze("write")
        under_way = asyncio.ensure_future(store.change(ADD))
        await until(lambda: "has waited for its database" in (store.problem or ""))
        assert await store.record(key("n")) is None
        proxy.thaw("write")
        await under_way
        assert store.problem is None


async def test_an_idle_store_notices_that_its_connection_broke(cleared_postgres_url: str) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await store.change(ADD)
        proxy.refuse()
        proxy.cut()
        await until(lambda: "cannot reach its database" in (store.problem or ""))
        proxy.accept()
        await until(lambda: store.problem is None)
        await store.change(ADD)
        assert await count(store) == 2
