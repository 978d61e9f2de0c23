"""Hosts that attach by HTTP requests: requests that get lost, and hosts that mean ill."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bindings.asgi import Answer, Asgi, Http
from tests.relay.apps import Scripted, Told
from tests.relay.polling_wire import LOST_REQUEST, LOST_RESPONSE, POLLING_PATH, TWICE, PollingWire
from tests.relay.world import Get, RelayWorld, newest, open_relay

from trunkline.model.principal import Principal
from trunkline.protocol.relay.frames import Hello, Limits, Ping, encode
from trunkline.protocol.relay.polling import (
    MAX_BATCH_BYTES,
    POLL_S,
    batch_of,
    close_of,
    messages_of,
)
from trunkline.relay.hosts.host import HostState
from trunkline.relay.relay import RelaySettings
from trunkline.remote import http
from trunkline.testing import settle

HELLO = batch_of([encode(Hello(Limits()))])
BAD_GATEWAY = http.Answer(502, {}, b"<html>nginx</html>")


@pytest.fixture
async def world() -> AsyncIterator[RelayWorld]:
    async with open_relay(transport="long-poll") as world:
        yield world


def wire(world: RelayWorld) -> PollingWire:
    assert isinstance(world.wire, PollingWire)
    return world.wire


class Raw:
    """A host without a program: its requests, one by one."""

    def __init__(self, world: RelayWorld, token: str = "host-token") -> None:
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        self.path = POLLING_PATH
        self._http = Asgi(world.polling)
        self._world = world

    async def send(self, method: str, below: str = "", query: str = "", body: Any = b"") -> Answer:
        data = body if isinstance(body, bytes | list) else msgspec.json.encode(body)
        request = Http(
            method=method, path=self.path + below, query=query, headers=self.headers, body=data
        )
        return await self._http.send(request)

    async def create(self) -> Answer:
        answer = await self.send("POST", body={"protocols": ["a2a.relay.v2"]})
        if answer.status == 201:
            self.path += "/" + answer.json()["connection"]
        return answer

    async def post(self, first: int, batch: bytes) -> Answer:
        return await self.send("POST", "/frames", f"first={first}", batch)

    async def poll(self, after: int) -> Answer:
        return await self.send("GET", "/frames", f"after={after}")

    def polling(self, after: int) -> "asyncio.Task[Answer]":
        return self._world.tasks.start(self.poll(after), name="poll")


def code(answer: Answer) -> int:
    close = close_of(answer.body)
    assert close is not None
    return close.code


def kinds(answer: Answer) -> list[str]:
    heads = [message.partition(b"\n")[0] for message in messages_of(answer.body)]
    return [msgspec.json.decode(head)["frame"] for head in heads]


# Requests and responses that get lost.


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_RESPONSE, TWICE, BAD_GATEWAY])
async def test_a_request_that_gets_lost_costs_time_alone(
    world: RelayWorld, method: str, fate: Any
) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        for number in range(20):
            wire(world).fates[method].append(fate)
            app.requests[0].say(b"%d " % number, is_last=number == 19)
            await settle()
            await world.clock.advance(3)
        body = b"".join([chunk async for chunk in response.chunks()])
    assert body == b"".join(b"%d " % number for number in range(20))
    assert len(wire(world).ends) == 1
    assert len(app.requests) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["POST", "GET"]),
            st.sampled_from([LOST_REQUEST, LOST_RESPONSE, TWICE, BAD_GATEWAY]),
        ),
        max_size=30,
    )
)
@settings(max_examples=15, deadline=None)
def test_whatever_gets_lost_a_stream_is_complete(faults: list[tuple[str, Any]]) -> None:
    async def case() -> None:
        async with open_relay(transport="long-poll") as world:
            app = Scripted()
            await world.attach(app)
            async with world.http.open(Get().http) as response:
                await settle()
                for method, fate in faults:
                    wire(world).fates[method].append(fate)
                for number in range(10):
                    app.requests[0].say(b"%d " % number, is_last=number == 9)
                    await world.clock.advance(1)
                await world.clock.advance(60)
                body = b"".join([chunk async for chunk in response.chunks()])
            assert body == b"0 1 2 3 4 5 6 7 8 9 "

    asyncio.run(case())


async def test_a_relay_that_is_away_for_long_costs_another_connection(world: RelayWorld) -> None:
    host = await world.attach(Told())
    wire(world).fates["POST"].extend([BAD_GATEWAY] * 5)
    newest(host).offer()
    await world.clock.advance(4)
    assert (str(host.state), host.trouble) == ("connecting", "status 502")
    await world.clock.advance(2)
    assert host.state is HostState.ATTACHED
    assert len(wire(world).ends) == 2
    assert world.relay.sessions == 1


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("status", [200, 302, 403, 404, 511])
async def test_a_page_of_the_network_ends_the_connection_and_no_stream(
    world: RelayWorld, method: str, status: int
) -> None:
    app = Scripted()
    await world.attach(app)
    page = http.Answer(status, {"content-type": "text/html"}, b"<html>Please sign in")
    async with world.http.open(Get().http) as response:
        await settle()
        wire(world).fates[method].extend([page] * 5)
        for number in range(3):
            app.requests[0].say(b"%d " % number, is_last=number == 2)
            await world.clock.advance(8)
        body = b"".join([chunk async for chunk in response.chunks()])
    assert body == b"0 1 2 "
    assert len(wire(world).ends) > 1


# What the relay answers.


async def test_an_idle_poll_is_answered_after_a_while(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    poll = raw.polling(0)
    await world.clock.advance(POLL_S - 1)
    assert not poll.done()
    await world.clock.advance(3)
    answer = await poll
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_poll_is_answered_at_once_and_again(world: RelayWorld) -> None:
    raw = Raw(world)
    assert (await raw.create()).headers["content-type"] == "application/json"
    poll = raw.polling(0)
    assert (await raw.post(1, HELLO)).json() == {"received": 1}
    answer = await poll
    assert kinds(answer) == ["welcome"]
    # As if the answer were lost.
    assert await raw.poll(0) == answer
    # A later poll takes the place of one that waits.
    older, newer = raw.polling(1), raw.polling(1)
    await settle()
    assert (older.done(), newer.done()) == (True, False)
    assert (await older).body == b""
    # What was confirmed is gone, and what was never sent cannot be.
    for after in (0, 5):
        assert (await raw.poll(after)).status == 409


async def test_a_batch_counts_once(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    ping = encode(Ping())
    assert (await raw.post(1, HELLO)).json() == {"received": 1}
    assert (await raw.post(1, HELLO + batch_of([ping]))).json() == {"received": 2}
    assert (await raw.post(2, batch_of([ping]))).json() == {"received": 2}
    assert kinds(await raw.poll(0)) == ["welcome", "pong"]
    early = await raw.post(4, batch_of([ping]))
    assert (early.status, code(early)) == (409, 4412)


async def test_the_code_of_a_close_comes_after_the_frames(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    await raw.post(1, HELLO)
    await settle()
    assert (await raw.send("DELETE", body={"code": 1001, "reason": "bye"})).status == 200
    await settle()
    # A repetition.
    assert (await raw.send("DELETE")).status == 200
    assert kinds(await raw.poll(0)) == ["welcome"]
    last = await raw.poll(1)
    assert (last.status, last.json()) == (410, {"code": 1001, "reason": "bye"})
    assert code(await raw.post(2, batch_of([encode(Ping())]))) == 1001
    await world.clock.advance(62)
    assert (await raw.poll(1)).status == 404
    assert world.relay.sessions == 0


async def test_a_host_that_is_gone_is_closed_as_silent(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    await raw.post(1, HELLO)
    await world.clock.advance(42)
    assert kinds(await raw.poll(0)) == ["welcome", "ping"]
    assert code(await raw.poll(2)) == 4408
    # The session goes on for a while.
    await world.clock.advance(31)
    assert world.relay.sessions == 0


# Who may do what.


async def test_the_id_of_a_connection_is_no_credential(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    await raw.post(1, HELLO)
    for token, status in [
        ("", 401),
        ("nonsense", 401),
        ("alice-token", 403),
        ("other-host-token", 404),
    ]:
        other = Raw(world, token)
        other.path = raw.path
        assert (await other.poll(0)).status == status
        assert (await other.post(2, b"")).status == status
        assert (await other.send("DELETE")).status == status
    assert kinds(await raw.poll(0)) == ["welcome"]
    # Another credential of the same principal is.
    world.principals["renewed"] = world.principals["host-token"]
    renewed = Raw(world, "renewed")
    renewed.path = raw.path
    assert (await renewed.post(2, batch_of([encode(Ping())]))).status == 200


@pytest.mark.parametrize(
    ("token", "status", "close"),
    [("", 401, 4401), ("nonsense", 401, 4401), ("alice-token", 403, 4403)],
)
async def test_only_a_host_opens_a_connection(
    world: RelayWorld, token: str, status: int, close: int
) -> None:
    answer = await Raw(world, token).create()
    assert (answer.status, code(answer)) == (status, close)
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert not world.polling.open_sockets


async def test_a_new_token_counts_for_the_next_requests(world: RelayWorld) -> None:
    ends_ms = world.clock.now_ms() + 300_000
    world.principals["host-token"] = Principal(id="host", roles=("attach:acme/*",), ends_ms=ends_ms)
    host = await world.attach(Told())
    world.principals["renewed"] = Principal(id="host", roles=("attach:acme/*",))

    world.renewed["host-token"] = "renewed"
    await world.clock.advance(280)
    del world.principals["host-token"]
    await world.clock.advance(300)
    assert host.state is HostState.ATTACHED
    assert (await world.send(Get().http)).status == 200
    assert len(wire(world).ends) == 1


# Hosts that mean ill.


@pytest.mark.parametrize(
    ("first", "batch", "status", "close"),
    [
        ("1", b"\0\0\0\5abc", 410, 4400),
        ("1", b"\0\0", 410, 4400),
        ("1", b"\xff\xff\xff\xff", 410, 4400),
        ("1", batch_of([b"nonsense"]), 410, 4400),
        ("1", batch_of([encode(Ping())]), 410, 4400),
        ("1", batch_of([b""] * 1025), 410, 4413),
        ("1", b"x" * (MAX_BATCH_BYTES + 1), 413, 4413),
        ("1", [b"x" * MAX_BATCH_BYTES, b"x"], 413, 4413),
        ("2", HELLO, 409, 4412),
        ("-1", HELLO, 400, 4400),
        ("", HELLO, 400, 4400),
        ("9" * 30, HELLO, 400, 4400),
    ],
)
async def test_a_bad_batch_has_a_code(
    world: RelayWorld,
    first: str,
    batch: Any,
    status: int,
    close: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    raw = Raw(world)
    await raw.create()
    answer = await raw.send("POST", "/frames", f"first={first}", batch)
    if answer.status == 200:
        await settle()
        answer = await raw.poll(0)
    assert (answer.status, code(answer)) == (status, close)
    if status == 410:
        await settle()
        assert not world.polling.open_sockets
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("method", "below", "body", "status"),
    [
        ("POST", "", b"", 400),
        ("POST", "", b"[" * 5000, 400),
        ("POST", "", {"protocols": ["other"]}, 400),
        ("GET", "", b"", 405),
        ("PUT", "/abc/frames", b"", 405),
        ("GET", "/abc/frames", b"", 404),
        ("DELETE", "/abc", b"", 404),
        ("GET", "/abc/frames/more", b"", 404),
        ("GET", "/abc/other", b"", 404),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    world: RelayWorld, method: str, below: str, body: Any, status: int
) -> None:
    answer = await Raw(world).send(method, below, body=body)
    assert answer.status == status
    assert close_of(answer.body) is not None


async def test_a_host_that_never_polls_holds_little(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.relay.polling.polled_socket._MAX_HELD_BYTES", 400)
    raw = Raw(world)
    await raw.create()
    await raw.post(1, HELLO)
    [socket] = world.polling.open_sockets
    for number in range(2, 200):
        # The answer of the relay to each is a pong.
        assert (await raw.post(number, batch_of([encode(Ping())]))).status == 200
        await settle()
    assert 300 < socket.held_bytes < 450


async def test_batches_at_the_same_time_are_few(world: RelayWorld) -> None:
    raw = Raw(world)
    await raw.create()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stuck() -> dict[str, object]:
        await never
        raise AssertionError

    async def ignore(message: object) -> None:
        return

    request = Http(method="POST", path=f"{raw.path}/frames", query="first=1", headers=raw.headers)
    for _ in range(2):
        world.tasks.spawn(world.polling(request.scope(), stuck, ignore), name="stuck")
    await settle()
    answer = await raw.post(1, HELLO)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.parametrize("leaves", ["by a bad batch", "by its close"])
async def test_a_host_that_leaves_before_its_hello_is_no_error(
    world: RelayWorld, caplog: pytest.LogCaptureFixture, leaves: str
) -> None:
    raw = Raw(world)
    await raw.create()
    if leaves == "by a bad batch":
        assert (await raw.post(1, b"\xff" * 5)).status == 410
    else:
        assert (await raw.send("DELETE")).status == 200
    await settle()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_connections_without_a_hello_are_few(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.relay.polling.polling._MAX_SILENT", 2)
    first = Raw(world)
    await first.create()
    await Raw(world).create()
    assert (await Raw(world).create()).status == 429
    assert (await Raw(world, "other-host-token").create()).status == 201
    await first.post(1, HELLO)
    assert (await Raw(world).create()).status == 201


async def test_a_relay_that_is_full_says_so() -> None:
    async with open_relay(RelaySettings(max_sessions=1), transport="long-poll") as world:
        await Raw(world).create()
        answer = await Raw(world).create()
        assert (answer.status, answer.headers["retry-after"], code(answer)) == (503, "30", 1013)


async def test_wrong_credentials_are_checked_a_few_at_a_time(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.relay.polling.polling._MAX_CHECKS", 3)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    known = Raw(world)
    await known.create()
    usual = world.identify

    async def slow(headers: Any, _: str) -> Any:
        if b"nonsense" in headers[b"authorization"]:
            await never
        return await usual(headers)

    monkeypatch.setattr(world.polling._admission, "_identify", slow)
    flood = [
        world.tasks.start(Raw(world, f"nonsense-{number}").create(), name="flood")
        for number in range(10)
    ]
    await settle()
    assert [task.done() for task in flood] == [False] * 3 + [True] * 7
    assert (await flood[-1]).status == 503
    # A connection that is open goes on.
    assert (await known.post(1, HELLO)).status == 200
