"""The sign-in at two gateways that share a store: each step may be served by the other one."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
from tests.hub.sign_in_world import (
    CALLBACK,
    ME,
    PAGE,
    PASSWORD,
    START,
    TOKEN,
    VERIFIER,
    csrf_in,
    program_query,
    query_of,
)

from trunkline.app.gateway import Gateway, build
from trunkline.background import BackgroundTasks, next_pass
from trunkline.hub.users import Users
from trunkline.settings import from_document
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore

T = TypeVar("T")
FORM = "application/x-www-form-urlencoded"


class Nodes:
    """A load balancer: each request of the browser goes to the node that a test names."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.gateways: list[Gateway] = []
        self.cookies: dict[str, str] = {}
        self.tasks = BackgroundTasks("test")

    async def done(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call during which time passes, and threads work."""
        task = self.tasks.start(call, name="call")
        while not task.done():
            for _ in range(2000):
                if task.done():
                    break
                await next_pass()
            else:
                await self.clock.advance(0.1)
        return task.result()

    async def send(
        self,
        node: int,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        kind: str = "",
        token: str = "",
    ) -> httpx.Response:
        headers = {"Content-Type": kind} if kind else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx.ASGITransport(self.gateways[node].application)
        async with httpx.AsyncClient(
            transport=transport, base_url="https://gateway.example", cookies=self.cookies
        ) as client:
            answer = await self.done(client.request(method, path, headers=headers, content=body))
            self.cookies = {name: value for name, value in client.cookies.items() if value}
        return answer

    async def password(self, start_at: int, check_at: int, **query: str) -> str:
        """The address of the callback."""
        started = await self.send(start_at, "GET", f"{START}?{urlencode(query)}")
        assert started.status_code == 303
        page = await self.send(start_at, "GET", PAGE)
        form = {"csrf": csrf_in(page.text), "login": "ada", "password": PASSWORD}
        sent = await self.send(check_at, "POST", PAGE, body=urlencode(form).encode(), kind=FORM)
        assert sent.status_code == 303, sent.text
        return f"{CALLBACK}?{urlencode(query_of(sent.headers['location']))}"

    async def exchange(self, node: int, code: str) -> httpx.Response:
        body = msgspec.json.encode({"code": code, "code_verifier": VERIFIER})
        return await self.send(node, "POST", TOKEN, body=body, kind="application/json")

    async def status_of(self, node: int, token: str) -> int:
        return (await self.send(node, "GET", ME, token=token)).status_code

    def users(self, node: int) -> Users:
        hub = self.gateways[node].hub
        assert hub is not None
        return hub.sign_in.users


@pytest.fixture
async def nodes(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    clock = FakeClock()
    # Deaf nodes: no notice arrives.
    shared = SharedStore(clock, loses_notice=lambda: True)
    stores: list[Node] = []

    def make_store(*_: Any, **__: Any) -> Node:
        stores.append(shared.node())
        return stores[-1]

    monkeypatch.setattr("trunkline.app.runtimes.make_store", make_store)
    monkeypatch.setattr("trunkline.app.runtimes.make_cluster", lambda _, node, **__: node)
    made = Nodes(clock)
    settings = from_document({"store": {"kind": "memory"}, "hub": {}}, environment={})
    for _ in range(2):
        gateway = build(settings, base_url="https://gateway.example", clock=clock)
        await gateway.open()
        made.gateways.append(gateway)
    await made.done(made.users(0).add("ada", password=PASSWORD))
    yield made
    await made.tasks.close()
    for gateway in made.gateways:
        await gateway.close()
    await settle()


async def test_started_at_one_and_finished_at_the_other(nodes: Nodes) -> None:
    callback = await nodes.password(0, 1)
    done = await nodes.send(0, "GET", callback)
    assert done.status_code == 303
    token = nodes.cookies["tl_session"]
    assert [await nodes.status_of(node, token) for node in (0, 1)] == [200, 200]


async def test_a_callback_counts_once_over_all_nodes(nodes: Nodes) -> None:
    callback = await nodes.password(0, 0)
    cookies = dict(nodes.cookies)
    assert (await nodes.send(1, "GET", callback)).status_code == 303
    nodes.cookies = cookies
    assert (await nodes.send(0, "GET", callback)).status_code == 400
    assert "tl_session" not in nodes.cookies


async def test_a_replay_at_one_ends_the_session_of_the_other(nodes: Nodes) -> None:
    callback = await nodes.password(0, 1, **program_query())
    done = await nodes.send(1, "GET", callback)
    code = query_of(done.headers["location"])["code"]
    token = (await nodes.exchange(0, code)).json()["session"]["token"]
    assert [await nodes.status_of(node, token) for node in (0, 1)] == [200, 200]
    assert (await nodes.exchange(1, code)).status_code == 400
    assert [await nodes.status_of(node, token) for node in (0, 1)] == [401, 401]


async def test_a_user_who_is_disabled_at_one_is_out_at_the_other(nodes: Nodes) -> None:
    await nodes.send(0, "GET", await nodes.password(0, 0))
    token = nodes.cookies["tl_session"]
    assert await nodes.status_of(1, token) == 200
    await nodes.done(nodes.users(0).set_disabled("ada", is_disabled=True))
    # When the call has returned, no node trusts an older memory.
    assert await nodes.status_of(1, token) == 401
