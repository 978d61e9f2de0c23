"""Hosts that break the protocol of the relay, in bytes: each gets the close code that is written
for it, and the other hosts and their callers notice nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec import Struct
from tests.acceptance.gateway import Gateway
from tests.acceptance.raw_host import (
    LIMITS,
    PING,
    TEXT,
    UPGRADE,
    RawHost,
    frame,
    message,
    raw_host,
)
from tests.acceptance.relay_hosts import (
    ALICE_KEY,
    HOST_TOKEN,
    RELAY,
    AttachedHost,
    Echo,
    caller,
    relay_process,
    request,
)
from tests.acceptance.relay_streams import Latencies

THIEF = "the-thief-has-this-token"


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = f'{RELAY}[auth.keys.thief]\nkey = "{THIEF}"\nattach = ["acme/*"]\n'
    with relay_process(tmp_path_factory.mktemp("relay"), config) as relay:
        yield relay
        assert relay.process.poll() is None
        # Whatever they send, it is no error of the relay.
        relay.check_log()
        assert '"level": "error"' not in relay.stderr, relay.stderr


@pytest.fixture
async def good(relay: Gateway) -> AsyncIterator[AttachedHost]:
    host = AttachedHost(relay.port, Echo(), agent="good")
    yield await host.attached()
    await host.close()


Data: TypeAlias = Callable[[RawHost], bytes]


def numbered(kind: str, body: bytes | None = None, **members: Any) -> Data:
    return lambda host: message(host.next(kind, body, **members))


BROKEN: dict[str, tuple[int, bytes | Data]] = {
    "a text": (4400, message(b'{"frame":"ping"}', TEXT)),
    "garbage": (4400, message(b"\xff\x00garbage")),
    "nothing": (4400, message(b"")),
    "an unknown frame": (4400, message(frame("nonsense"))),
    "a second hello": (4400, message(frame("hello", limits=LIMITS))),
    "a frame of relays": (4400, numbered("leases", epochs={"acme/good": 9})),
    "a request": (
        4400,
        numbered(
            "req",
            stream=1,
            agent="acme/good",
            epoch=1,
            caller="x",
            method="GET",
            target="/",
        ),
    ),
    "a gap in the numbers": (4412, message(frame("credit", n=9, stream=1, more=1))),
    "a number again": (4412, message(frame("agents", n=1, agents=["acme/bad"]))),
    "an ack of what was not sent": (4412, message(frame("ack", n=99))),
    "a huge head": (4413, message(frame("reauth", token="x" * 70_000))),
    "a huge frame": (4413, message(b"x" * 300_000)),
    "16 MB": (1009, message(b"x" * 16_000_000)),
    "10,000 agents": (
        4413,
        numbered("agents", agents=[f"acme/a{i}" for i in range(10_000)]),
    ),
    "257 agents": (4400, numbered("agents", agents=[f"acme/a{i}" for i in range(257)])),
    "an agent of others": (4403, numbered("agents", agents=["acme/bad", "other/x"])),
    "an agent that is a path": (4400, numbered("agents", agents=["acme/../../x"])),
    "an answer to no stream": (4400, numbered("res", stream=5, status=200)),
    "a body of no stream": (4400, numbered("data", b"x", stream=5)),
    "an accept of no stream": (4400, numbered("accept", stream=5)),
    "a number that is none": (4400, message(frame("agents", n=2**60, agents=[]))),
    "deep JSON": (4400, message(b'{"frame":"ping","x":' + b"[" * 60_000)),
    "half a character": (4400, message(b'{"frame":"reauth","token":"\\ud800"}')),
    "a token of nobody": (4401, message(frame("reauth", token="nobody-has-this-token-here"))),
    "a token of a caller": (4403, message(frame("reauth", token=ALICE_KEY))),
    "an unmasked frame": (1002, b"\x82\x05hello"),
    "a large ping": (1002, message(b"x" * 200, PING)),
}


@pytest.mark.parametrize(("code", "data"), BROKEN.values(), ids=BROKEN)
async def test_each_fault_has_its_code(
    relay: Gateway, good: AttachedHost, code: int, data: bytes | Data
) -> None:
    async with raw_host(relay.port) as host:
        await host.attach("bad")
        host.writer.write(data if isinstance(data, bytes) else data(host))
        assert (await host.closed())[0] == code
    async with caller(relay.port) as client:
        if code != 1002:
            # The agent is gone with the session, and is not waited for.
            missing = request(agent="bad", below="/tasks/none")
            assert (await client.call(missing))[0] == 503
        assert (await client.call(request(b"x", agent="good"))) == (200, b"x")


FIRST = {
    "a ping": frame("ping"),
    "garbage": b"\x00",
    "too small a window": frame("hello", limits=LIMITS | {"stream_bytes": 1}),
    "no limits": frame("hello"),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
async def test_a_host_greets_first(relay: Gateway, first: bytes) -> None:
    async with raw_host(relay.port) as host:
        host.write(first)
        assert (await host.closed())[0] == 4400


async def test_a_session_of_others_is_not_resumed(relay: Gateway) -> None:
    """The same answer, whether there is such a session or not."""
    async with raw_host(relay.port) as victim:
        known = (await victim.attach("victim"))["session"]
        resumed = []
        for session in (known, "00" * 16):
            async with raw_host(relay.port, token=THIEF) as host:
                welcome = await host.hello(resume={"session": session, "received": 0})
                resumed.append((welcome["resumed"], welcome["session"] == session))
        assert resumed == [(False, False)] * 2
        async with caller(relay.port) as client:
            await client.send(request(agent="victim"))
            stream = (await victim.expect("req"))["stream"]
            victim.send("res", b"", stream=stream, status=204, fin=True)
            assert (await client.head())[0] == 204


class Response(Struct):
    """What a host answers, and what its caller must not read."""

    headers: list[tuple[str, str]] = []
    status: int = 200
    body: bytes = b"{}"
    expected: int = 200
    absent: bytes = b"\r\nset-cookie:"


RESPONSES = {
    "100": Response(status=100, expected=502),
    "101": Response(status=101, expected=502),
    "999": Response(status=999, expected=502),
    "a status that nobody knows": Response(status=299, expected=200),
    "a body of 204": Response(
        status=204, headers=[("content-length", "2")], expected=204, absent=b"content-length"
    ),
    "headers of the connection": Response(
        headers=[
            ("connection", "close"),
            ("transfer-encoding", "gzip"),
            ("upgrade", "x"),
            ("set-cookie", "a=b"),
        ],
        absent=b"gzip",
    ),
    "a header within a header": Response(headers=[("content-type", "a\r\nset-cookie: b")]),
    "a length that is a word": Response(headers=[("content-length", "abc")], absent=b"abc"),
    "a negative length": Response(headers=[("content-length", "-2")], absent=b"-2"),
    "two lengths": Response(
        headers=[("content-length", "2"), ("content-length", "99")], absent=b"content-length"
    ),
    "more than the length": Response(
        headers=[("content-length", "2")], body=b"{}evil", absent=b"evil"
    ),
    "huge headers": Response(headers=[("etag", "x" * 60_000)]),
    "a page": Response(headers=[("content-type", "text/html")], body=b"<script>"),
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
async def test_a_response_does_no_harm_to_its_caller(relay: Gateway, response: Response) -> None:
    async with raw_host(relay.port) as host:
        await host.attach("bad")
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port, limit=1 << 20)
        writer.write(request(agent="bad"))
        stream = (await host.expect("req"))["stream"]
        host.send(
            "res",
            response.body,
            stream=stream,
            status=response.status,
            headers=response.headers,
            fin=True,
        )
        # Its end is found, so that the next response is one.
        head = await reader.readuntil(b"\r\n\r\n")
        assert int(head.split()[1]) == response.expected
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        rest = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert rest.endswith(b"\r\n\r\nok\n")
    whole = head + rest
    first = whole[: whole.rindex(b"HTTP/1.1 ")]
    assert response.absent not in first
    # What the relay says itself is JSON.
    is_own = b'"INVALID_AGENT_RESPONSE"' in first or response.expected == 502
    assert is_own or b"content-security-policy: default-src 'none'" in head
    assert whole.count(b"HTTP/1.1 ") == 2


async def test_a_response_that_is_too_short_closes_the_connection(relay: Gateway) -> None:
    async with raw_host(relay.port) as host:
        await host.attach("bad")
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(request(agent="bad") + request(agent="good"))
        stream = (await host.expect("req"))["stream"]
        headers = [("content-length", "10")]
        host.send("res", b"{}", stream=stream, status=200, headers=headers, fin=True)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.count(b"HTTP/1.1 ") == 1


STREAM = {
    "a second response": [("res", b"x", {"status": 200}), ("res", b"x", {"status": 200})],
    "a body first": [("data", b"x", {})],
    "more than the credit": [("res", b"x" * 60_000, {"status": 200}), ("data", b"x" * 70_000, {})],
    "an unknown reason": [("cancel", None, {"reason": "nonsense"})],
    "too much credit": [("credit", None, {"more": 1 << 40})],
    "two accepts": [("accept", None, {}), ("accept", None, {})],
}


@pytest.mark.parametrize("frames", STREAM.values(), ids=STREAM)
async def test_a_fault_within_a_stream_ends_the_session(
    relay: Gateway, frames: list[tuple[str, bytes | None, dict[str, Any]]]
) -> None:
    async with raw_host(relay.port) as host, caller(relay.port) as client:
        await host.attach("bad")
        await client.send(request(agent="bad"))
        stream = (await host.expect("req"))["stream"]
        for kind, body, members in frames:
            host.send(kind, body, stream=stream, **members)
        assert (await host.closed())[0] in (4400, 4429)
        status, _ = await client.head()
        assert status == (200 if frames[0][0] == "res" else 502)


# Floods.

LONG = [f"acme/{'a' * 120}{number:03}" for number in range(256)]


class Flood(Struct):
    # The next messages of the host.
    more: Callable[[RawHost], bytes]
    # Whether it ends by a close code.
    code: int = 0
    # What the memory of the relay may grow by.
    most_mb: int = 12


def _alternating(host: RawHost) -> bytes:
    return message(host.next("agents", agents=LONG)) + message(
        host.next("agents", agents=["acme/bad"])
    )


FLOODS = {
    "pings of WebSockets": Flood(lambda _: message(b"x" * 125, PING) * 500),
    "pings": Flood(lambda _: message(frame("ping")) * 500),
    "pongs": Flood(lambda _: message(frame("pong")) * 500),
    "acks": Flood(lambda _: message(frame("ack", n=1)) * 500),
    "new tokens": Flood(lambda _: message(frame("reauth", token=HOST_TOKEN)) * 500),
    "credit of no stream": Flood(
        lambda host: b"".join(message(host.next("credit", stream=77, more=1)) for _ in range(500))
    ),
    # The relay remembers each agent.
    "agents": Flood(_alternating, code=4429, most_mb=40),
}


async def flood(
    relay: Gateway, name: str, it: Flood, *, seconds: float, reads: bool
) -> tuple[float, float]:
    """Returns how the memory of the relay has grown, and the latency of other callers."""
    before = relay.resident_bytes()
    async with raw_host(relay.port) as host:
        await host.attach("bad")
        reading: asyncio.Future[Any] | None = None
        if reads:
            reading = asyncio.ensure_future(host.closed() if it.code else host.read_all())
        else:
            host.pause()
        until = time.monotonic() + seconds
        sent = 0
        async with Latencies(relay.port, "good") as latencies:
            try:
                while (left_s := until - time.monotonic()) > 0:
                    data = it.more(host)
                    sent += len(data)
                    host.writer.write(data)
                    async with asyncio.timeout(left_s):
                        await host.writer.drain()
                    await asyncio.sleep(0)
            except (TimeoutError, ConnectionError):
                # The relay reads no more, or has closed the connection.
                pass
            await asyncio.sleep(max(0.0, until - time.monotonic()))
        grown_mb = (relay.resident_bytes() - before) / 1e6
        if reading is not None:
            if it.code:
                assert (await reading)[0] == it.code
            reading.cancel()
    assert not latencies.failed
    print(
        f"\n{name}: {sent / 1e6:.1f} MB sent, memory of the relay +{grown_mb:.1f} MB; {latencies}"
    )
    return grown_mb, latencies.p99_ms


@pytest.mark.parametrize("name", ["new tokens", "agents"])
async def test_a_flood_fills_no_memory_and_delays_nobody(
    relay: Gateway, good: AttachedHost, name: str
) -> None:
    grown_mb, p99_ms = await flood(relay, name, FLOODS[name], seconds=0.3, reads=False)
    assert grown_mb < FLOODS[name].most_mb
    # Of a machine that does other things too; see docs/evidence/relay.md for a quiet one.
    assert p99_ms < 500


@pytest.mark.full
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "never-reads"])
@pytest.mark.parametrize("name", FLOODS)
async def test_nor_does_a_long_one(
    relay: Gateway, good: AttachedHost, name: str, reads: bool
) -> None:
    grown_mb, p99_ms = await flood(relay, name, FLOODS[name], seconds=5, reads=reads)
    assert grown_mb < FLOODS[name].most_mb
    assert p99_ms < 250


async def test_two_hosts_take_an_agent_from_each_other(relay: Gateway, good: AttachedHost) -> None:
    """As fast as they can: each newcomer has it, and the one before is told."""
    async with Latencies(relay.port, "good") as latencies:
        turns, until = 0, time.monotonic() + 0.5
        async with raw_host(relay.port) as first:
            older = first
            await older.attach("bad")
            while time.monotonic() < until:
                newer = await _newcomer(relay.port)
                assert (await older.closed())[0] == 4409
                older.close()
                older, turns = newer, turns + 1
            async with caller(relay.port) as client:
                await client.send(request(agent="bad"))
                stream = (await older.expect("req"))["stream"]
                older.send("res", b"", stream=stream, status=204, fin=True)
                assert (await client.head())[0] == 204
            older.close()
    # Hundreds on a quiet machine.
    assert turns > 2
    assert not latencies.failed
    print(f"\n{turns} turns in half a second; {latencies}")


async def _newcomer(port: int) -> RawHost:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(UPGRADE.format(token=HOST_TOKEN).encode())
    host = RawHost(reader, writer)
    assert await host.status() == 101
    await host.attach("bad")
    return host


async def test_sockets_that_say_nothing_are_closed(relay: Gateway, good: AttachedHost) -> None:
    """300 that never greet, and 100 whose upgrade never ends."""
    before = relay.resident_bytes()
    connections = [await asyncio.open_connection("127.0.0.1", relay.port) for _ in range(400)]
    for number, (_, writer) in enumerate(connections):
        data = UPGRADE.format(token=HOST_TOKEN).encode()
        writer.write(data if number < 300 else data[: 40 + number // 4])
    async with Latencies(relay.port, "good") as latencies:
        for reader, _ in connections[:300]:
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        await asyncio.sleep(0.2)
    grown_mb = (relay.resident_bytes() - before) / 1e6
    print(f"\n400 silent sockets: memory of the relay +{grown_mb:.1f} MB; {latencies}")
    assert not latencies.failed
    assert grown_mb < 40
    for _, writer in connections:
        writer.transport.abort()


@pytest.mark.full
async def test_a_socket_that_does_not_greet_has_ten_seconds(relay: Gateway) -> None:
    async with raw_host(relay.port) as host:
        began = time.monotonic()
        assert (await host.closed())[0] == 4408
        assert 9 < time.monotonic() - began < 12


async def test_credentials_that_may_not_attach_are_refused_before_the_upgrade(
    relay: Gateway,
) -> None:
    for token, status in ((ALICE_KEY, 403), ("nobody-has-this-token-here", 401)):
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(UPGRADE.format(token=token).encode())
        assert await RawHost(reader, writer).status() == status
        writer.close()


def test_nothing_of_it_was_an_error(relay: Gateway, tmp_path: Path) -> None:
    """The log names each host that has left, and its code."""
    assert '"code": 4412' in relay.stderr
