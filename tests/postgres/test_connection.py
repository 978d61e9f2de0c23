"""`Connection`: statements and their answers, notices, and the many ways in which one breaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from tests.postgres.proxy import database_proxy

from trunkline.stores.postgres.connection import (
    Connection,
    ConnectionLost,
    DatabaseError,
    connect,
)
from trunkline.stores.postgres.packing import int4, int8, text


@asynccontextmanager
async def connected(
    url: str, *, prepares: bool = True, statement_s: float = 10.0
) -> AsyncIterator[Connection]:
    connection = await connect(url, "test", prepares=prepares, statement_s=statement_s)
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("prepares", [True, False], ids=["prepared", "unprepared"])
async def test_answers_come_in_order_and_to_those_who_asked(
    postgres_url: str, prepares: bool
) -> None:
    async with connected(postgres_url, prepares=prepares) as connection:
        sqls = ("SELECT $1::int8", "SELECT $1::int8 + 0")
        answers = [connection.send(sqls[n % 2], [int8(n)]) for n in range(100)]
        assert connection.is_busy
        found = [connection.rows(await answer) for answer in answers]
        assert found == [[(n,)] for n in range(100)]
        assert not connection.is_busy


async def test_large_values_go_both_ways(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        large = bytes(range(256)) * 65536
        assert await connection.run("SELECT $1::bytea, NULL", [large]) == [(large, None)]


async def test_an_answer_that_comes_while_the_last_piece_is_written_is_heard(
    postgres_url: str,
) -> None:
    async with connected(postgres_url, statement_s=2.0) as connection:
        for _ in range(200):
            sent = [b"x" * 300_000]
            assert await connection.run("SELECT length($1::bytea)", sent) == [(300_000,)]


async def test_a_refused_statement_leaves_the_connection_usable(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        # Refused when it is prepared, and when it runs; twice, because the first is forgotten.
        for _ in range(2):
            for sql, sqlstate in (("SELECT nothing", "42703"), ("SELECT 1 / 0", "22012")):
                with pytest.raises(DatabaseError) as refused:
                    await connection.run(sql)
                assert refused.value.sqlstate == sqlstate
            assert await connection.run("SELECT $1::text", [text("x")]) == [("x",)]
        with pytest.raises(DatabaseError):
            # Not a number of four bytes.
            await connection.run("SELECT $1::int4", [int8(1)])
        assert connection.closed is None


async def test_a_statement_is_carried_out_when_nobody_waits_for_it(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        await connection.run("CREATE TABLE numbers (n int4)")
        for number in range(3):
            # The first is under way, the others wait for it.
            connection.send("INSERT INTO numbers VALUES ($1)", [int4(number)]).cancel()
        assert await connection.run("SELECT count(*) FROM numbers") == [(3,)]


async def test_notices_arrive_while_nothing_is_asked(postgres_url: str) -> None:
    async with connected(postgres_url) as listener, connected(postgres_url) as other:
        heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        listener.on_notify = lambda channel, payload: heard.put_nowait((channel, payload))
        await listener.run("LISTEN news")
        await other.run("SELECT pg_notify('news', $1::text)", [text("one")])
        async with asyncio.timeout(10):
            assert await heard.get() == ("news", "one")


async def test_everything_under_way_fails_when_the_server_ends_it(postgres_url: str) -> None:
    async with connected(postgres_url) as connection:
        closed: list[str | None] = []
        connection.on_closed = lambda: closed.append(connection.closed)
        ((pid,),) = await connection.run("SELECT pg_backend_pid()")
        async with await psycopg.AsyncConnection.connect(postgres_url) as other:
            await other.execute("SELECT pg_advisory_lock(8)")
            answers = [connection.send("SELECT pg_advisory_lock_shared(8)") for _ in range(3)]
            await other.execute("SELECT pg_terminate_backend(%s)", [pid])
            found = await asyncio.gather(*answers, return_exceptions=True)
        assert {type(each) for each in found} == {ConnectionLost}
        assert len(closed) == 1
        assert closed[0]
        with pytest.raises(ConnectionLost):
            await connection.run("SELECT 1")


async def test_an_idle_connection_notices_that_it_broke(postgres_url: str) -> None:
    async with database_proxy(postgres_url) as proxy, connected(proxy.url) as connection:
        broke = asyncio.Event()
        connection.on_closed = broke.set
        await connection.run("SELECT 1")
        proxy.cut("test")
        async with asyncio.timeout(10):
            await broke.wait()


async def test_a_statement_without_an_answer_closes_the_connection(postgres_url: str) -> None:
    async with (
        database_proxy(postgres_url) as proxy,
        connected(proxy.url, statement_s=0.1) as connection,
    ):
        await connection.run("SELECT 1")
        proxy.freeze("test")
        answers = [connection.send("SELECT 1") for _ in range(2)]
        for answer in answers:
            with pytest.raises(ConnectionLost, match=r"did not answer for 0.1 s"):
                await answer


async def test_options_of_the_url_are_kept(postgres_url: str) -> None:
    joint = "&" if "?" in postgres_url else "?"
    async with connected(f"{postgres_url}{joint}options=-c%20work_mem%3D5MB") as connection:
        assert await connection.run(
            "SELECT current_setting('work_mem'), current_setting('enable_seqscan')"
        ) == [("5MB", "off")]


async def test_what_cannot_be_connected_to_is_lost() -> None:
    for url in ("postgresql:///x?host=/nowhere", "postgresql://127.0.0.1:1/x"):
        with pytest.raises(ConnectionLost):
            await connect(url, "test")
