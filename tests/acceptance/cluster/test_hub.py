"""The hub at three gateways on one database: what one of them changes holds at the others."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest
from msgspec import Struct
from tests.acceptance.cluster.database import REAL, config_on, read_postgres
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway, held, http_client
from tests.acceptance.raw import envelope, message_params
from tests.postgres.fixtures import fill_template
from tests.postgres.server import embedded_binaries, postgres

from trunkline.hub.budgets import BUDGET
from trunkline.model.values import TaskState

OPERATOR = "operator-of-the-hub"
CALLERS = [f"caller-number-{number:03}" for number in range(200)]
BUDGET_OF_DAY = 100
COMPLETED, REJECTED = "TASK_STATE_COMPLETED", "TASK_STATE_REJECTED"
_HUB = f"""
[hub]
[auth.keys.operator]
key = "{OPERATOR}"
"""
_CALLER = """
[auth.keys.{name}]
key = "{name}"
grants = {{ "acme/*" = ["SendMessage"] }}
"""


class HubNode:
    """One gateway, and a connection to it that is kept alive."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        # Each of these has one connection at most, so a second one is seen by its port.
        self.http = http

    async def api(
        self, method: str, path: str, body: Any = None, *, by: str = OPERATOR
    ) -> httpx.Response:
        url = f"{self.gateway.url}/api/v1{path}"
        return await self.http.request(method, url, json=body, headers=bearer(by))

    async def made(self, path: str, body: Any) -> Any:
        answer = await self.api("POST", path, body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def send(
        self, handle: str, *, by: str, http: httpx.AsyncClient | None = None
    ) -> httpx.Response:
        body = envelope("SendMessage", message_params("hello"))
        url = self.gateway.agent_url(handle)
        return await (http or self.http).post(url, json=body, headers=bearer(by))

    async def card(self, handle: str) -> httpx.Response:
        url = f"{self.gateway.agent_url(handle)}/agent-card.json"
        return await self.http.get(url, headers=bearer(OPERATOR))


class Three(Struct, frozen=True):
    a: HubNode
    b: HubNode
    c: HubNode
    # Of the database.
    url: str

    @property
    def all(self) -> tuple[HubNode, ...]:
        return (self.a, self.b, self.c)


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}", "A2A-Version": "1.0"}


class Started(Struct, frozen=True):
    gateways: tuple[Gateway, Gateway, Gateway]
    # Of the database.
    url: str


@pytest.fixture(scope="module")
def started(gateways: Make) -> Iterator[Started]:
    callers = "".join(_CALLER.format(name=name) for name in CALLERS)
    with postgres(embedded_binaries()) as server:
        url = server.create_database(fill_template)
        config = f"[server]{config_on(url, REAL)}{_HUB}{callers}"
        a, b, c = [gateways(config, agents="") for _ in range(3)]
        for gateway in (a, b, c):
            gateway.launch()
        for gateway in (a, b, c):
            gateway.finish_start()
        yield Started((a, b, c), url)
        for gateway in (a, b, c):
            gateway.clean_up()


@pytest.fixture
async def three(started: Started) -> AsyncIterator[Three]:
    async with AsyncExitStack() as stack:

        async def node(gateway: Gateway) -> HubNode:
            return HubNode(gateway, await stack.enter_async_context(one_connection()))

        a, b, c = [await node(gateway) for gateway in started.gateways]
        yield Three(a, b, c, started.url)


@asynccontextmanager
async def one_connection() -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(limits=httpx.Limits(max_connections=1)) as http:
        yield http


def port_of(answer: httpx.Response) -> int:
    """The client's port, which tells connections apart."""
    port: int = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
    return port


def task_of(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["task"]


def is_refused_by_budget(answer: httpx.Response, handle: str, at_most: int) -> bool:
    status = task_of(answer)["status"]
    if status["state"] != REJECTED:
        return False
    (part,) = status["message"]["parts"]
    assert part["text"] == (
        f"The daily budget of agent @{handle} is used up ({at_most}); it begins anew at midnight "
        "UTC"
    )
    return True


async def until_served(node: HubNode, handle: str) -> float:
    """Ask again and again. How long it took, in seconds."""
    began = time.monotonic()
    async with asyncio.timeout(10):
        while (await node.card(handle)).status_code != 200:
            pass
    return time.monotonic() - began


async def publish(three: Three, slug: str, **limits: int) -> Any:
    """Create an agent at A, and wait until B and C have heard of it."""
    agent = await three.a.made(
        "/agents",
        {
            "owner": "acme",
            "slug": slug,
            "status": "published",
            "backend": {"kind": "echo"},
            "limits": {"concurrencyCap": 20} | limits,
        },
    )
    served = await asyncio.gather(*(until_served(node, f"acme/{slug}") for node in three.all))
    print("served after the call, at A, B, C:", *(f"{each * 1000:.0f} ms" for each in served))
    return agent


@pytest.mark.parametrize("alone", [0, 30], ids=["all at once", "each node takes some"])
async def test_a_budget_of_100_holds_for_200_callers_at_three_nodes(
    three: Three, alone: int
) -> None:
    """The first `alone` callers leave enough for the others, so that every node takes a part: a
    node that commits many messages at once can take all that is left."""
    slug = f"echo{alone}"
    handle = f"acme/{slug}"
    agent = await publish(three, slug, dailyBudgetQueries=BUDGET_OF_DAY)

    async def ask(numbers: range) -> list[httpx.Response]:
        return await asyncio.gather(
            *(three.all[n % 3].send(handle, by=CALLERS[n], http=http) for n in numbers)
        )

    began = time.monotonic()
    async with http_client(limits=httpx.Limits(max_connections=None)) as http:
        first = await ask(range(alone))
        rest = await ask(range(alone, len(CALLERS)))
    print(f"{len(CALLERS)} sends: {time.monotonic() - began:.2f} s")
    answers = [*first, *rest]
    states = [task_of(answer)["status"]["state"] for answer in answers]
    refused = [is_refused_by_budget(answer, handle, BUDGET_OF_DAY) for answer in answers]
    assert (states.count(COMPLETED), refused.count(True)) == (100, 100)
    assert states[:alone] == [COMPLETED] * alone
    print("completed at A, B, C:", *(states[number::3].count(COMPLETED) for number in range(3)))
    await _is_told_everywhere(three, agent)
    # And the database has what the nodes tell.
    stored = await asyncio.to_thread(read_postgres, three.url)
    ids = {task_of(answer)["id"] for answer in answers}
    known = [stored[task_id].state for task_id in ids if task_id in stored]
    assert known.count(TaskState.COMPLETED) == 100
    assert await asyncio.to_thread(counts, three.url, handle) == [100]


async def _is_told_everywhere(three: Three, agent: Any) -> None:
    handle = agent["handle"]
    for node in three.all:
        block = (await node.card(handle)).json()["_trunkline"]
        assert (block["queriesToday"], block["dailyBudget"]) == (100, 100)
        shown = (await node.api("GET", f"/agents/{agent['id']}")).json()
        assert (shown["queriesToday"], shown["queriesAllTime"]) == (100, 100)
        late = await node.send(handle, by=OPERATOR)
        assert is_refused_by_budget(late, handle, BUDGET_OF_DAY)


def counts(url: str, handle: str) -> list[int]:
    with psycopg.connect(url) as connection:
        sql = "SELECT count FROM records WHERE kind = %s AND id = %s"
        return [count for (count,) in connection.execute(sql, (BUDGET, handle))]


class Seen(Struct, frozen=True):
    """What one caller saw who asked without a pause until it was refused."""

    # When the last request began that was accepted, and when the refusal came.
    accepted: float
    refused: float
    port: int


async def until_refused(node: HubNode, key: str, handle: str, accepted: float) -> Seen:
    while True:
        begun = time.monotonic()
        answer = await node.send(handle, by=key)
        if answer.status_code == 401:
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            return Seen(accepted, time.monotonic(), port_of(answer))
        assert task_of(answer)["status"]["state"] == COMPLETED
        accepted = begun


async def test_what_one_node_takes_away_is_gone_at_the_others_when_the_call_returns(
    three: Three,
) -> None:
    agent = await publish(three, "echo", dailyBudgetQueries=100_000)
    key, other = [
        await three.a.made("/tokens", {"name": name, "open": True}) for name in ("ci", "other")
    ]
    await _revoke_while_they_call(three, key)
    await _revoke_while_one_is_stopped(three, other)
    await _lower_the_budget(three, agent)
    await _unpublish(three, agent)


async def _revoke_while_they_call(three: Three, key: Any) -> None:
    others = (three.b, three.c)
    firsts = [await node.send("acme/echo", by=key["token"]) for node in three.all]
    assert [each.status_code for each in firsts] == [200, 200, 200]
    began = time.monotonic()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        asking = [
            group.create_task(until_refused(node, key["token"], "acme/echo", began))
            for node in others
        ]
        revoked = await three.a.api("DELETE", f"/tokens/{key['id']}")
        returned = time.monotonic()
        assert revoked.status_code == 204
    seen = [task.result() for task in asking]
    for name, first, one in zip("BC", firsts[1:], seen, strict=True):
        # Nothing that was sent after the call had returned was accepted.
        assert one.accepted < returned
        assert one.port == port_of(first), "not the connection that was kept alive"
        print(f"refused at {name}: {(one.refused - began) * 1000:.0f} ms after the call began")
    print(f"the call returned after {(returned - began) * 1000:.0f} ms")
    for node, first in zip(three.all, firsts, strict=True):
        again = await node.send("acme/echo", by=key["token"])
        assert (again.status_code, port_of(again)) == (401, port_of(first))


async def _asked_late(
    three: Three,
    node: HubNode,
    change: Callable[[], Awaitable[httpx.Response]],
    ask: Callable[[], Awaitable[httpx.Response]],
) -> httpx.Response:
    """The answer of a node that stands still during a change: it finds the request together with
    what the database has told it meanwhile, and may trust neither its memory nor their order."""
    async with asyncio.TaskGroup() as group:
        with held(node.gateway.process):
            changed = await change()
            assert changed.is_success, changed.text
            late = group.create_task(_awaited(ask))
            # Meanwhile the request is sent.
            await three.a.api("GET", "/agents")
    return late.result()


async def _awaited(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    return await ask()


async def _revoke_while_one_is_stopped(three: Three, key: Any) -> None:
    async def ask() -> httpx.Response:
        return await three.c.send("acme/echo", by=key["token"])

    first = await ask()
    assert first.status_code == 200
    refused = await _asked_late(
        three, three.c, lambda: three.a.api("DELETE", f"/tokens/{key['id']}"), ask
    )
    assert (refused.status_code, port_of(refused)) == (401, port_of(first))
    assert (await three.b.send("acme/echo", by=key["token"])).status_code == 401


async def _lower_the_budget(three: Three, agent: Any) -> None:
    async def ask() -> httpx.Response:
        return await three.b.send("acme/echo", by=OPERATOR)

    assert task_of(await ask())["status"]["state"] == COMPLETED
    lower = {"limits": {"dailyBudgetQueries": 1}}
    refused = await _asked_late(
        three, three.b, lambda: three.a.api("PATCH", f"/agents/{agent['id']}", lower), ask
    )
    assert is_refused_by_budget(refused, "acme/echo", 1)
    at_c = await three.c.send("acme/echo", by=OPERATOR)
    assert is_refused_by_budget(at_c, "acme/echo", 1)


async def _unpublish(three: Three, agent: Any) -> None:
    firsts = [await node.card("acme/echo") for node in three.all]
    assert [each.status_code for each in firsts] == [200, 200, 200]
    draft = {"status": "draft"}
    late = await _asked_late(
        three,
        three.c,
        lambda: three.b.api("PATCH", f"/agents/{agent['id']}", draft),
        lambda: three.c.send("acme/echo", by=CALLERS[0]),
    )
    assert (late.status_code, port_of(late)) == (404, port_of(firsts[2]))
    for node, first in zip(three.all, firsts, strict=True):
        card = await node.card("acme/echo")
        sent = await node.send("acme/echo", by=CALLERS[0])
        assert (card.status_code, sent.status_code) == (404, 404)
        assert card.content == (await node.card("acme/none")).content
        assert port_of(card) == port_of(sent) == port_of(first)
