"""An agent at two origins, such as its own gateway and a relay: when the second one is asked."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.remote.http.peer import Peer, answer, peer, raw
from tests.remote.names import Names
from tests.remote.test_origins import card, endpoint, port_of

from trunkline.clock import SystemClock
from trunkline.model.calls import SendMessageRequest
from trunkline.model.card import AgentInterface
from trunkline.model.values import Message, Part, Role, Task
from trunkline.remote import (
    Agents,
    Bearer,
    ClientCredentials,
    Limits,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteAgent,
    StreamEnded,
    StreamItem,
    Target,
)
from trunkline.remote.peer_client import MAX_HOMES

SECRET = "the-secret-of-the-target"
LIMITS = Limits(connect_s=5, call_s=10, attempts=1, reconnects=5)
ROUTELESS = "http://192.0.2.1:9/rpc"


class Origin:
    """One of the two. It runs each message once for each key, as a gateway does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[dict[str, Any]] = []
        self.heads: list[str] = []
        # What becomes of the next requests, before the usual answer.
        self.faults: list[Callable[[asyncio.StreamWriter], bytes]] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        # Holds streams open after their first event.
        self.holds = False

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.asked]

    def keys(self) -> list[str]:
        lines = [line for head in self.heads for line in head.splitlines()]
        return [line[17:] for line in lines if line.lower().startswith("idempotency-key: ")]

    async def __call__(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        call = json.loads(body)
        self.asked.append(call)
        self.heads.append(head.decode())
        if self.faults:
            said = self.faults.pop(0)(writer)
            if said:
                writer.write(said)
            else:
                await writer.drain()
                writer.transport.abort()
            return
        said = self._answer(call)
        writer.write(said)
        if b"event-stream" in said:
            await writer.drain()
            if self.holds:
                await asyncio.Event().wait()
            writer.close()

    def _answer(self, call: dict[str, Any]) -> bytes:
        def said(result: Any) -> bytes:
            return json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode()

        match call["method"]:
            case "SendMessage":
                return json_answer(said({"task": self._begin("TASK_STATE_COMPLETED")}))
            case "SendStreamingMessage":
                state = "TASK_STATE_WORKING" if self.holds else "TASK_STATE_COMPLETED"
                return events(said({"task": self._begin(state)}))
            case "SubscribeToTask" if call["params"]["id"] in self.tasks:
                task = self.tasks[call["params"]["id"]]
                task["status"] = {"state": "TASK_STATE_COMPLETED"}
                return events(said({"task": task}))
            case "GetTask" | "CancelTask" if call["params"]["id"] in self.tasks:
                return json_answer(said(self.tasks[call["params"]["id"]]))
            case _:
                error = {"code": -32001, "message": "Task not found"}
                reply = {"jsonrpc": "2.0", "id": call["id"], "error": error}
                return json_answer(json.dumps(reply).encode())

    def _begin(self, state: str) -> dict[str, Any]:
        id = f"{self.name}-{len(self.tasks)}"
        task = {"id": id, "contextId": "c", "status": {"state": state}}
        self.tasks[id] = task
        return task


def json_answer(body: bytes) -> bytes:
    return answer(body, b"Content-Type: application/json")


def events(*data: bytes) -> bytes:
    body = b"".join(b"data: %b\n\n" % each for each in data)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + body


def drops(writer: asyncio.StreamWriter) -> bytes:
    """The request was read, and the connection breaks."""
    return b""


def refuses(status: int) -> Callable[[asyncio.StreamWriter], bytes]:
    return lambda _: answer(b"{}", status=b"%d No" % status)


class World:
    def __init__(
        self,
        first: Origin,
        second: Origin,
        urls: tuple[str, str],
        target: Target,
        limits: Limits,
    ) -> None:
        self.first, self.second = first, second
        self.first_url, self.second_url = urls
        self.target = target
        self.network = Unrouted()
        self.agents = Agents(limits=limits, network=self.network, clock=Hasty())

    def agent(self, **headers: str) -> RemoteAgent:
        return self.agents.at(self.target, headers=headers)


class Hasty(SystemClock):
    """Makes no pauses between attempts."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class Unrouted(Names):
    """One address takes no packets, as behind a firewall. Ports refuse as often as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Counter[int] = Counter()

    async def dial(self, found: list[Any]) -> Any:
        address, port = found[0][4]
        if address == "192.0.2.1":
            await asyncio.Event().wait()
        if self.refuses[port]:
            self.refuses[port] -= 1
            raise ConnectionRefusedError(111, "refused")
        return await super().dial(found)


@asynccontextmanager
async def world(
    *, first_url: str = "", trusted: str = "", connect_s: float = 5.0, **options: Any
) -> AsyncIterator[World]:
    """The card names the first origin, or the URL in its place, and then the second."""
    first, second = Origin("first"), Origin("second")
    said: dict[str, Any] = {}

    async def cards(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(json.dumps(said).encode()))

    async with peer(first) as one, peer(second) as two, peer(cards) as home:
        urls = (first_url or one.url, two.url)
        said |= card(
            endpoint(urls[0]),
            endpoint(urls[0], "HTTP+JSON"),
            endpoint(urls[1]),
            endpoint(urls[1], "HTTP+JSON"),
            capabilities={"streaming": True},
        )
        origins = {"first": one, "second": two}
        target = Target(
            url=home.url,
            allow_private=True,
            trusted_origins=tuple(origin_of(origins[each]) for each in trusted.split()),
            **options,
        )
        made = World(first, second, urls, target, replace(LIMITS, connect_s=connect_s))
        try:
            yield made
        finally:
            await made.agents.close()


def origin_of(one: Peer) -> str:
    return f"http://127.0.0.1:{port_of(one.url)}"


def closed_port() -> str:
    """Of a socket that was closed, so that connections are refused."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/rpc"


async def send(agent: RemoteAgent) -> str:
    task = await agent.send("hi")
    assert isinstance(task, Task)
    return task.id


async def stream(agent: RemoteAgent) -> str:
    items: list[StreamItem] = [item async for item in agent.stream("hi")]
    assert isinstance(items[0], Task)
    return items[0].id


async def speaks_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


CALLS = pytest.mark.parametrize("call", [send, stream])
UNREACHABLE: dict[str, Callable[[], str]] = {
    "refused": closed_port,
    "unknown name": lambda: "http://agents.invalid/rpc",
    "no TLS": lambda: "https://127.0.0.1:{cards}/rpc",
    "no route": lambda: ROUTELESS,
}


@CALLS
@pytest.mark.parametrize("kind", UNREACHABLE)
async def test_an_origin_that_cannot_be_reached_makes_room_for_the_next(
    kind: str, call: Callable[[RemoteAgent], Any]
) -> None:
    async with raw(speaks_plainly) as plain:
        url = UNREACHABLE[kind]().replace("{cards}", str(port_of(plain.url)))
        async with world(first_url=url, connect_s=0.2 if kind == "no route" else 5) as w:
            assert await call(w.agent()) == "second-0"
            # Without a key: the first origin certainly has nothing.
            assert w.second.keys() == []
            assert len(w.second.asked) == 1


@CALLS
async def test_a_message_that_may_have_arrived_stays_with_its_origin(
    call: Callable[[RemoteAgent], Any],
) -> None:
    async with world(idempotency="never") as w:
        w.first.faults = [drops]
        with pytest.raises((PeerUnreachable, StreamEnded)) as error:
            await call(w.agent())
        assert not error.value.is_unsent
        assert len(w.first.asked) == 1
        assert w.second.asked == []


@CALLS
async def test_a_message_with_a_key_goes_to_the_next_origin(
    call: Callable[[RemoteAgent], Any],
) -> None:
    async with world(idempotency="always") as w:
        w.first.faults = [drops]
        assert await call(w.agent()) == "second-0"
        assert len(w.first.asked) == 1
        assert w.first.keys() == w.second.keys() != []


@CALLS
async def test_a_key_of_the_caller_is_one_too(call: Callable[[RemoteAgent], Any]) -> None:
    async with world(idempotency="never") as w:
        w.first.faults = [drops]
        assert await call(w.agent(**{"Idempotency-Key": "k"})) == "second-0"
        assert w.second.keys() == ["k"]


@CALLS
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 502, 503, 504])
async def test_an_answer_is_an_answer(call: Callable[[RemoteAgent], Any], status: int) -> None:
    async with world(idempotency="always") as w:
        w.first.faults = [refuses(status)]
        with pytest.raises(PeerRefused):
            await call(w.agent())
        assert w.second.asked == []


async def test_an_error_of_the_agent_is_an_answer() -> None:
    async with world() as w:
        with pytest.raises(PeerRefused, match="Task not found"):
            await w.agent().get("unknown")
        assert w.second.asked == []


@pytest.mark.parametrize("idempotency", ["always", "never"])
async def test_a_silent_agent_may_work_on_it(idempotency: str) -> None:
    async with world(idempotency=idempotency) as w:
        never = asyncio.Event()

        async def silent(request: bytes, writer: asyncio.StreamWriter) -> None:
            await never.wait()

        async with peer(silent) as quiet:
            target = Target(
                url=w.target.url,
                allow_private=True,
                interfaces=(interface(quiet.url), interface(w.second_url)),
            )
            with pytest.raises(PeerTimeout) as error:
                await w.agents.at(target, timeout_s=0.1).send("hi")
            assert not error.value.is_unsent
            assert w.second.asked == []


def interface(url: str) -> AgentInterface:
    return AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")


async def test_reads_go_to_the_next_origin_as_well() -> None:
    async with world() as w:
        w.first.faults = [drops]
        w.second.tasks["t"] = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
        assert (await w.agent().get("t")).id == "t"


async def test_a_cancel_that_may_have_arrived_does_not() -> None:
    async with world() as w:
        w.first.faults = [drops]
        with pytest.raises(PeerUnreachable):
            await w.agent().cancel("t")
        assert w.second.asked == []


async def test_an_origin_that_failed_is_asked_once_whatever_its_bindings() -> None:
    async with world(first_url=closed_port()) as w:
        w.second.faults = [drops]
        with pytest.raises(PeerUnreachable) as error:
            await w.agent().send("hi")
        # Both are named, and the second one may have the message.
        assert w.first_url.split("/")[2] in error.value.message
        assert "broke off" in error.value.message
        assert not error.value.is_unsent
        assert len(w.second.asked) == 1


async def test_where_no_origin_is_reached_nothing_was_sent() -> None:
    async with world(first_url=closed_port(), connect_s=0.2) as w:
        target = Target(
            url=w.target.url,
            allow_private=True,
            interfaces=(interface(w.first_url), interface(ROUTELESS)),
        )
        with pytest.raises(PeerUnreachable) as error:
            await w.agents.at(target).send("hi")
        assert error.value.is_unsent
        assert "192.0.2.1" in error.value.message


async def test_a_refusal_elsewhere_does_not_say_that_the_message_had_no_effect() -> None:
    async with world(idempotency="always") as w:
        w.first.faults = [drops]
        w.second.faults = [refuses(403)]
        with pytest.raises(PeerUnreachable) as error:
            await w.agent().send("hi")
        assert not error.value.is_unsent


async def test_the_origin_that_worked_is_asked_first_from_then_on() -> None:
    async with world(idempotency="always") as w:
        w.first.faults = [drops]
        agent = w.agent()
        await agent.send("one")
        await agent.send("two")
        assert len(w.first.asked) == 1
        w.second.faults = [drops]
        assert await send(agent) == "first-0"


@pytest.mark.parametrize(
    "own",
    [{"credentials": Bearer(SECRET)}, {"headers": {"X-Key": SECRET, "Cookie": SECRET}}],
    ids=["bearer", "headers"],
)
@CALLS
@pytest.mark.parametrize("trusted", ["first", "first second"])
async def test_credentials_go_to_the_origins_that_the_target_lists(
    trusted: str, call: Callable[[RemoteAgent], Any], own: dict[str, Any]
) -> None:
    async with world(trusted=trusted, idempotency="always", **own) as w:
        w.first.faults = [drops]
        await call(w.agent())
        assert SECRET in w.first.heads[0]
        assert (SECRET in w.second.heads[0]) is ("second" in trusted)


async def test_a_fetched_token_does_not_go_there_either() -> None:
    async def tokens(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(
            json_answer(json.dumps({"access_token": "fetched", "expires_in": 60}).encode())
        )

    async with peer(tokens) as issuer:
        own = ClientCredentials(token_url=issuer.url, client_id="me", client_secret=SECRET)
        async with world(trusted="first", idempotency="always", credentials=own) as w:
            w.first.faults = [drops]
            await w.agent().send("hi")
            assert "Bearer fetched" in w.first.heads[0]
            assert "fetched" not in w.second.heads[0]
            assert SECRET not in w.second.heads[0]


async def test_a_missing_credential_is_explained_with_what_came_before() -> None:
    url = closed_port()
    async with world(first_url=url, credentials=Bearer(SECRET)) as w:
        origin = url.removesuffix("/rpc")
        target = Target(
            url=w.target.url,
            allow_private=True,
            credentials=Bearer(SECRET),
            trusted_origins=(origin,),
        )
        w.second.faults = [refuses(401)]
        with pytest.raises(PeerRefused, match="trusted_origins") as error:
            await w.agents.at(target).send("hi")
        assert error.value.reason == "CREDENTIALS_WITHHELD"
        assert url.split("/")[2] in error.value.message
        assert SECRET not in error.value.message


async def test_a_task_is_asked_for_where_it_began() -> None:
    """The other origin may know the caller by another name, and would say that there is no such
    task."""
    async with world(idempotency="always") as w:
        agent = w.agent()
        w.first.faults = [drops]
        assert await send(agent) == "second-0"
        w.second.faults = [drops]
        assert await send(agent) == "first-0"
        # The first origin is preferred now.
        assert (await agent.get("second-0")).id == "second-0"
        assert (await agent.get("first-0")).id == "first-0"
        assert "GetTask" not in w.second.methods[:-1]
        w.second.faults = [drops, drops]
        with pytest.raises(PeerUnreachable):
            await agent.get("second-0")
        with pytest.raises(PeerUnreachable):
            await agent.send(follow_up("second-0"))
        assert w.first.methods == ["SendMessage", "SendMessage", "GetTask"]


def follow_up(task: str) -> SendMessageRequest:
    message = Message(message_id="m", task_id=task, role=Role.USER, parts=(Part(text="more"),))
    return SendMessageRequest(message=message)


async def test_a_task_whose_origin_is_away_leaves_the_circuit_closed() -> None:
    async with world(idempotency="always") as w:
        agent = w.agent()
        w.first.faults = [drops]
        assert await send(agent) == "second-0"
        w.second.faults = [drops] * 10
        for _ in range(10):
            with pytest.raises(PeerUnreachable, match="broke off"):
                await agent.get("second-0")
        assert await send(agent) in ("first-0", "second-1")


@pytest.mark.parametrize("away", [0, 1, 2])
async def test_a_stream_is_resumed_where_it_began(away: int) -> None:
    """Its own gateway restarts: for a moment only the relay can be reached."""
    async with world(idempotency="always") as w:
        w.first.holds = True
        agent = w.agent()
        items = agent.stream("hi")
        first = await anext(items)
        assert isinstance(first, Task)
        w.first.holds = False
        w.network.refuses[port_of(w.first_url)] = away
        cut(w)
        rest = [item async for item in items]
        assert isinstance(rest[-1], Task)
        assert rest[-1].id == first.id
        assert w.second.asked == []


def cut(w: World) -> None:
    """Break all connections of the client."""
    (client,) = w.agents._clients.values()
    for connection in [*client._http._pool._sockets]:
        connection.abort()


async def test_the_memory_for_origins_of_tasks_is_bounded() -> None:
    async with world(idempotency="always") as w:
        agent = w.agent()
        await agent.send("hi")
        (client,) = w.agents._clients.values()
        for number in range(MAX_HOMES + 10):
            client.note_home(f"t-{number}", client._endpoints[0])
        assert len(client._homes) == MAX_HOMES
