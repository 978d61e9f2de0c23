"""One node is cut off from the database in every way that a network knows; another one is not."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.acceptance.cluster.clients import ClusterClient
from tests.acceptance.cluster.database import SHORT, config_on, read_postgres
from tests.acceptance.cluster.history import History, Sent, messages_of
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import http_client
from tests.acceptance.kill_clients import ENDED, HEADERS, envelope
from tests.acceptance.kill_gateway import GatewayProcess
from tests.postgres.fixtures import fill_template
from tests.postgres.proxy import DatabaseProxy, database_proxy
from tests.postgres.server import PostgresServer, embedded_binaries, postgres
from tests.remote.http.peer import client as remote_client

FAILED, COMPLETED = "TASK_STATE_FAILED", "TASK_STATE_COMPLETED"


class Pair:
    """`near` reaches the database directly, `far` through a proxy."""

    def __init__(
        self, nodes: Nodes, http: httpx.AsyncClient, proxy: DatabaseProxy, url: str
    ) -> None:
        self.nodes = nodes
        self.near, self.far = nodes.all
        self.http = http
        self.proxy = proxy
        self.url = url
        self.sent: dict[str, Sent] = {}

    async def post(
        self, node: GatewayProcess, method: str, params: dict[str, Any]
    ) -> httpx.Response:
        return await self.http.post(
            node.url("effects"), content=envelope(method, params), headers=HEADERS
        )

    async def send(
        self, node: GatewayProcess, text: str, *, context: str = "", returns: bool = False
    ) -> httpx.Response:
        message_id = f"m{len(self.sent)}"
        self.sent[message_id] = Sent(time.monotonic_ns())
        message: dict[str, Any] = {
            "messageId": message_id,
            "role": "ROLE_USER",
            "parts": [{"text": text}],
        } | ({"contextId": context} if context else {})
        configuration = {"returnImmediately": returns}
        params = {"message": message, "configuration": configuration}
        return await self.post(node, "SendMessage", params)

    async def task(self, node: GatewayProcess, text: str, **options: Any) -> dict[str, Any]:
        answer = await self.send(node, text, **options)
        task: dict[str, Any] = answer.json()["result"]["task"]
        return task

    async def state(self, node: GatewayProcess, task_id: str) -> str:
        answer = (await self.post(node, "GetTask", {"id": task_id})).json()
        return str(answer["result"]["status"]["state"]) if "result" in answer else ""

    async def is_ready(self, node: GatewayProcess) -> bool:
        answer = await self.http.get(f"http://127.0.0.1:{node.port}/readyz")
        return answer.status_code == 200

    def becomes_ready(self, node: GatewayProcess, ready: bool) -> Awaitable[None]:
        async def is_so() -> bool:
            return await self.is_ready(node) is ready

        return eventually(is_so)

    def has_begun(self, task_id: str) -> Awaitable[None]:
        async def is_so() -> bool:
            return task_id in {turn.task_id for turn in self.nodes.turns()}

        return eventually(is_so)


@asynccontextmanager
async def a_pair(folder: Path, server: PostgresServer) -> AsyncIterator[Pair]:
    url = await asyncio.to_thread(server.create_database, fill_template)
    async with database_proxy(url) as proxy, http_client() as http:
        configs = [config_on(url, SHORT), config_on(proxy.url, SHORT)]
        nodes = Nodes(folder, configs, random.Random(1))
        try:
            await nodes.start()
            yield Pair(nodes, http, proxy, url)
        except BaseException:
            print(nodes.logs())
            raise
        finally:
            proxy.thaw()
            await nodes.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """With so few connections that a test can take them all."""
    with postgres(embedded_binaries(), {"max_connections": "40"}) as server:
        yield server


@pytest.fixture
async def pair(tmp_path: Path, own_postgres: PostgresServer) -> AsyncIterator[Pair]:
    async with a_pair(tmp_path, own_postgres) as pair:
        yield pair


Fault = Callable[[DatabaseProxy], object]


def refuse_all(proxy: DatabaseProxy) -> None:
    proxy.refuse()
    proxy.cut()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(DatabaseProxy.freeze, id="silent"),
        pytest.param(refuse_all, id="refused", marks=pytest.mark.full),
    ],
)
async def test_a_node_without_its_database_says_so_and_comes_back(pair: Pair, fault: Fault) -> None:
    running = (await pair.task(pair.far, "200 0.05", returns=True))["id"]
    await pair.has_begun(running)
    fault(pair.proxy)
    answer = await pair.send(pair.far, "1 0")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
    await pair.becomes_ready(pair.far, False)
    # The other node takes over: the turn had effects, so it is not repeated.

    async def is_failed() -> bool:
        return await pair.state(pair.near, running) == FAILED

    await eventually(is_failed)
    assert (await pair.task(pair.near, "1 0"))["status"]["state"] == COMPLETED
    pair.proxy.accept()
    pair.proxy.thaw()
    await pair.becomes_ready(pair.far, True)
    assert (await pair.task(pair.far, "1 0"))["status"]["state"] == COMPLETED
    assert await pair.state(pair.far, running) == FAILED
    assert [turn.task_id for turn in pair.nodes.turns()].count(running) == 1


async def test_a_commit_whose_answer_is_lost_counts_once(pair: Pair) -> None:
    sent = []
    for _ in range(10):
        pair.proxy.lose_answer("write")
        sent.append(await pair.task(pair.far, "2 0.01"))
    assert pair.proxy.lost["write"] >= 10
    assert {task["status"]["state"] for task in sent} == {COMPLETED}
    rows = await asyncio.to_thread(read_postgres, pair.url)
    assert [list(messages_of(rows[task["id"]])) for task in sent] == [
        [message["messageId"] for message in task["history"] if message["role"] == "ROLE_USER"]
        for task in sent
    ]
    assert len(rows) == len(sent)


@pytest.mark.full
async def test_a_stream_goes_on_when_notices_are_lost(pair: Pair) -> None:
    pair.proxy.refuse("listen")
    pair.proxy.cut("listen")
    running = (await pair.task(pair.near, "20 0.02", returns=True))["id"]
    async with remote_client() as http:
        reader = ClusterClient(http, pair.far.url, pair.nodes.told, random.Random(1), "reader")
        seen = await reader.follow("effects", running, after=0)
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert await pair.state(pair.far, running) == COMPLETED


@pytest.mark.full
async def test_a_restart_of_the_database_is_lived_through(
    pair: Pair, own_postgres: PostgresServer
) -> None:
    waiting = [await pair.task(pair.far, "3 0.05", context="c", returns=True) for _ in range(3)]
    await asyncio.to_thread(own_postgres.restart)
    for node in (pair.near, pair.far):
        await pair.becomes_ready(node, True)
        assert (await pair.task(node, "1 0"))["status"]["state"] == COMPLETED
    for task in waiting:

        async def has_ended(task_id: str = task["id"]) -> bool:
            return await pair.state(pair.near, task_id) in ENDED

        await eventually(has_ended)


async def test_a_stopped_node_finds_its_work_taken_over(pair: Pair) -> None:
    """What a zombie says comes too late, and goes nowhere."""
    first = (await pair.task(pair.far, "40 0.05", context="c", returns=True))["id"]
    second = (await pair.task(pair.far, "2 0", context="c", returns=True))["id"]
    await pair.has_begun(first)
    async with remote_client() as http, asyncio.TaskGroup() as group:
        reader = ClusterClient(http, pair.far.url, pair.nodes.told, random.Random(1), "reader")
        stream = group.create_task(reader.follow("effects", first, after=0))
        group.create_task(pair.nodes.pause(pair.far, 2 * SHORT.lease_s))

        async def is_completed() -> bool:
            return await pair.state(pair.near, second) == COMPLETED

        await eventually(is_completed)
        assert await pair.state(pair.near, first) == FAILED
        seen = await stream
    await pair.becomes_ready(pair.far, True)
    assert await pair.state(pair.far, first) == FAILED
    rows = await asyncio.to_thread(read_postgres, pair.url)
    assert list(seen) == list(rows[first].events)
    history = History(rows, messages=pair.sent, turns=pair.nodes.turns(), stops=pair.nodes.stops)
    history.check()


def take_all_connections(url: str, stack: ExitStack) -> None:
    while True:
        try:
            stack.callback(psycopg.connect(url).close)
        except psycopg.OperationalError as error:
            if "too many clients" not in str(error):
                raise
            return


@pytest.mark.full
async def test_a_database_without_a_free_connection_is_waited_for(pair: Pair) -> None:
    with ExitStack() as stack:
        refuse_all(pair.proxy)
        await asyncio.to_thread(take_all_connections, pair.url, stack)
        pair.proxy.accept()
        answer = await pair.send(pair.far, "1 0")
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
        await pair.becomes_ready(pair.far, False)
    await pair.becomes_ready(pair.far, True)
    assert (await pair.task(pair.far, "1 0"))["status"]["state"] == COMPLETED
