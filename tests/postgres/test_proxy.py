"""The faults between a node and the database: each does what it says, to its role alone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tests.postgres.proxy import DatabaseProxy, database_proxy


@pytest.fixture(params=[False, True], ids=["unix", "tcp"])
async def proxy(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[DatabaseProxy]:
    async with database_proxy(postgres_url, tcp=request.param) as proxy:
        yield proxy


async def connect(proxy: DatabaseProxy, role: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(
        proxy.url, autocommit=True, application_name=f"trunkline {role}"
    )


async def one(connection: psycopg.AsyncConnection[Any]) -> int:
    cursor = await connection.execute("SELECT 1")
    [(number,)] = await cursor.fetchall()
    return int(number)


async def test_faults_meet_the_role_that_they_are_for(proxy: DatabaseProxy) -> None:
    async with await connect(proxy, "write") as write, await connect(proxy, "listen") as listen:
        assert proxy.roles() == {"write": 1, "listen": 1}
        assert (await one(write), await one(listen)) == (1, 1)
        assert proxy.cut("listen") == 1
        with pytest.raises(psycopg.OperationalError):
            await one(listen)
        assert await one(write) == 1
    proxy.refuse("listen")
    with pytest.raises(psycopg.OperationalError):
        await connect(proxy, "listen")
    proxy.accept("listen")
    async with await connect(proxy, "listen") as listen:
        assert await one(listen) == 1


async def test_a_frozen_connection_is_open_and_silent(proxy: DatabaseProxy) -> None:
    async with await connect(proxy, "write") as write, await connect(proxy, "beat") as beat:
        proxy.freeze("write")
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(one(write))
            for _ in range(3):
                assert await one(beat) == 1
            assert not waiting.done()
            proxy.thaw("write")
            assert await waiting == 1


@pytest.mark.parametrize("prepare", [False, True], ids=["unprepared", "prepared"])
async def test_a_lost_answer_belongs_to_a_statement_that_was_carried_out(
    proxy: DatabaseProxy, prepare: bool
) -> None:
    async with await connect(proxy, "write") as write:
        await write.execute("CREATE TABLE numbers (n int)")
        proxy.lose_answer("write", "INSERT INTO numbers")
        assert await one(write) == 1
        with pytest.raises(psycopg.OperationalError):
            await write.execute("INSERT INTO numbers VALUES (%s)", [7], prepare=prepare)
    assert proxy.lost == {"write": 1}
    async with await connect(proxy, "write") as write:
        cursor = await write.execute("SELECT n FROM numbers")
        assert await cursor.fetchall() == [(7,)]
        await write.execute("INSERT INTO numbers VALUES (8)")


async def test_a_delay_is_for_answers(proxy: DatabaseProxy) -> None:
    loop = asyncio.get_running_loop()
    async with await connect(proxy, "write") as write:
        proxy.delay(0.01, "write")
        began = loop.time()
        assert await one(write) == 1
        assert loop.time() - began >= 0.01
