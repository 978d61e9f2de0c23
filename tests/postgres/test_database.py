"""`Database`: reads of many callers over few connections, while the database comes and goes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
from tests.postgres.proxy import database_proxy
from tests.postgres.server import PostgresServer

from trunkline.config.urls import postgres_place
from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres.connection import ConnectionLost
from trunkline.stores.postgres.database import READERS, Database

ONE = "SELECT 1"
# Waits until whoever holds the gate lets it pass.
PASS = "SELECT pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7), 1"


@asynccontextmanager
async def opened(url: str, *, read_s: float = 10.0) -> AsyncIterator[Database]:
    database = Database(url, read_s=read_s)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def closed_gate(url: str) -> AsyncIterator[None]:
    """Reads with `PASS` wait in here."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SELECT pg_advisory_lock(7)")
        yield


async def connections(url: str, *, wait_event: str = "%") -> int:
    """How many connections of readers the server has, by what they wait for."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'trunkline read'"
            " AND datname = current_database() AND coalesce(wait_event_type, '') LIKE %s",
            [wait_event],
        )
        [(count,)] = await cursor.fetchall()
    return int(count)


async def until_connections(url: str, count: int, *, wait_event: str = "%") -> None:
    async with asyncio.timeout(10):
        while await connections(url, wait_event=wait_event) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - in every pass of the loop
            await asyncio.sleep(0)


async def test_many_reads_share_few_connections(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        found = await asyncio.gather(*[database.read(ONE) for _ in range(200)])
        assert found == [[(1,)]] * 200
        assert await connections(postgres_url) == READERS
    await until_connections(postgres_url, 0)


async def test_readers_that_hang_up_leave_nothing_behind(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        async with closed_gate(postgres_url):
            reads = [asyncio.create_task(database.read(PASS)) for _ in range(1000)]
            await until_connections(postgres_url, READERS, wait_event="Lock")
            assert database.waiting == 1000 - READERS
            # While those under way wait for the server, others for a connection.
            for read in reads:
                read.cancel()
            await asyncio.wait(reads)
            assert all(read.cancelled() for read in reads)
            assert database.waiting == 0
            later = asyncio.create_task(database.read(ONE))
        assert await later == [(1,)]
        assert await asyncio.gather(*[database.read(PASS) for _ in range(20)])
        assert await connections(postgres_url) == READERS


async def test_readers_that_hang_up_while_a_connection_is_made_leave_nothing_behind(
    postgres_url: str,
) -> None:
    async with database_proxy(postgres_url) as proxy, opened(proxy.url) as database:
        proxy.freeze("read")
        reads = [asyncio.create_task(database.read(ONE)) for _ in range(100)]
        await until(lambda: proxy.roles()["read"] >= READERS)
        for read in reads[:50]:
            read.cancel()
        proxy.thaw("read")
        assert await asyncio.gather(*reads[50:]) == [[(1,)]] * 50
        assert database.waiting == 0
        # The proxy connects before it knows that the client has gone.
        await until_connections(postgres_url, proxy.roles()["read"])
        assert proxy.roles()["read"] <= READERS


async def test_a_reader_that_hangs_up_passes_its_turn_on(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        async with closed_gate(postgres_url):
            first = [asyncio.create_task(database.read(PASS)) for _ in range(READERS)]
            await until_connections(postgres_url, READERS, wait_event="Lock")
            second = [asyncio.create_task(database.read(ONE)) for _ in range(2 * READERS)]
            await until(lambda: database.waiting == len(second))
        # Those whose turn comes hang up in the same pass of the loop in which it comes.
        await until(lambda: database.waiting < len(second))
        for read in second[:READERS]:
            read.cancel()
        assert await asyncio.gather(*first, *second[READERS:])
        assert database.waiting == 0


async def test_a_read_is_repeated_when_its_connection_breaks(postgres_url: str) -> None:
    async with database_proxy(postgres_url) as proxy, opened(proxy.url) as database:
        await asyncio.gather(*[database.read(ONE) for _ in range(READERS)])
        await until_connections(postgres_url, READERS, wait_event="Client")
        # While they are idle, and before the answer.
        assert proxy.cut("read")
        assert await database.read(ONE) == [(1,)]
        proxy.lose_answer("read", ONE)
        assert await database.read(ONE) == [(1,)]
        assert proxy.lost["read"] == 1


async def test_a_server_that_ends_connections_does_not_disturb_reads(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        assert await asyncio.gather(*[database.read(ONE) for _ in range(9)])
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'trunkline read' AND datname = current_database()"
            )
        assert await asyncio.gather(*[database.read(ONE) for _ in range(9)]) == [[(1,)]] * 9


async def test_a_database_that_does_not_answer_is_given_up(postgres_url: str) -> None:
    async with (
        database_proxy(postgres_url) as proxy,
        opened(proxy.url, read_s=0.2) as database,
    ):
        await asyncio.gather(*[database.read(ONE) for _ in range(READERS)])
        proxy.freeze("read")
        reads = [database.read(ONE) for _ in range(3 * READERS)]
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(each) for each in found} == {StoreUnusable}
        assert all("for 0.2 s" in str(each) for each in found)
        assert database.waiting == 0
        proxy.thaw("read")
        await until_answers(database)


async def until_answers(database: Database) -> None:
    """A failed attempt to connect lets others wait for a moment."""
    async with asyncio.timeout(10):
        while True:
            try:
                assert await database.read(ONE) == [(1,)]
                return
            except StoreUnusable:
                await asyncio.sleep(0.01)


async def test_a_database_that_takes_no_more_connections_serves_all_by_those_it_has(
    postgres_url: str,
) -> None:
    async with database_proxy(postgres_url) as proxy, opened(proxy.url) as database:
        await database.read(ONE)
        proxy.refuse("read")
        found = await asyncio.gather(*[database.read(ONE) for _ in range(100)])
        assert found == [[(1,)]] * 100
        assert proxy.roles()["read"] == 1
        # Without any, reads are refused at once, all of them.
        proxy.cut("read")
        refused = await asyncio.gather(
            *[database.read(ONE) for _ in range(100)], return_exceptions=True
        )
        assert {type(each) for each in refused} == {StoreUnusable}
        assert database.waiting == 0
        proxy.accept("read")
        await until_answers(database)


async def test_reads_fail_while_the_server_is_away_and_go_on_after_it(
    own_postgres: PostgresServer,
) -> None:
    url = own_postgres.url("postgres")
    async with opened(url) as database:
        assert await database.read(ONE) == [(1,)]
        own_postgres.kill()
        found = await asyncio.gather(
            *[database.read(ONE) for _ in range(50)], return_exceptions=True
        )
        assert {type(each) for each in found} == {StoreUnusable}
        with pytest.raises(ConnectionLost):
            await database.connect("write")
        assert database.reconnects == 0
        own_postgres.start()
        await until_answers(database)
        assert database.reconnects == 1


async def test_closing_refuses_those_that_wait(postgres_url: str) -> None:
    async with closed_gate(postgres_url):
        database = Database(postgres_url)
        reads = [asyncio.create_task(database.read(PASS)) for _ in range(50)]
        await until_connections(postgres_url, READERS, wait_event="Lock")
        await database.close()
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert {str(each) for each in found if isinstance(each, StoreUnusable)} == {
            f"The store {database.name} cannot be reached: the store is closed. Look whether the "
            "database runs and can be reached; the gateway continues by itself once it answers."
        }
        assert len(found) == 50
    await until_connections(postgres_url, 0)
    with pytest.raises(StoreUnusable):
        await database.read(ONE)


async def test_closing_while_a_connection_is_made_leaves_none(postgres_url: str) -> None:
    async with database_proxy(postgres_url) as proxy:
        database = Database(proxy.url)
        proxy.freeze("read")
        read = asyncio.create_task(database.read(ONE))
        await until(lambda: bool(proxy.roles()["read"]))
        await database.close()
        proxy.thaw("read")
        with pytest.raises(StoreUnusable):
            await read
        await until(lambda: not proxy.roles()["read"])


async def test_a_refused_statement_says_why_and_disturbs_no_other(postgres_url: str) -> None:
    async with opened(postgres_url) as database:
        with pytest.raises(StoreUnusable, match=r"refused \(42P01\): .*nowhere"):
            await database.read("SELECT * FROM nowhere")
        with pytest.raises(StoreUnusable, match=r"refused \(22012\): .*division by zero"):
            await database.read("SELECT 1 / 0")
        assert await database.read(ONE) == [(1,)]


async def test_an_unreachable_database_is_named_without_its_password(tmp_path: object) -> None:
    url = f"postgresql://bob:secret@/tasks?host={tmp_path}"
    async with opened(url) as database:
        with pytest.raises(StoreUnusable) as found:
            await database.read(ONE)
    assert "secret" not in str(found.value)
    assert postgres_place("postgresql://bob:secret@db:5433/tasks") == "postgresql://db:5433/tasks"
