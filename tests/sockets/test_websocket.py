"""WebSockets on our own connections: messages, limits, and how they end."""

import asyncio
import logging

import pytest
from tests.sockets.peer import passes
from tests.sockets.websocket_peer import (
    HANDSHAKE,
    Recorded,
    close_of,
    closed,
    frame,
    get,
    repeat,
    until,
    websockets,
)
from websockets.exceptions import InvalidStatus
from websockets.frames import Opcode

from trunkline.ports.websocket import (
    Refusal,
    UpgradeRequest,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
)


@pytest.mark.parametrize(
    "message",
    ["", "hello", "ü€😀", b"", b"\x00\xff", "x" * 70_000, b"x" * 1024 * 1024],
    ids=["no text", "text", "unicode", "no bytes", "bytes", "long text", "long bytes"],
)
async def test_messages_go_and_come(message: str | bytes) -> None:
    async with websockets(repeat) as server, server.connect(max_size=None) as client:
        await client.send(message)
        assert await client.recv() == message
        # In frames of its own choice.
        size = max(1, len(message) // 3)
        await client.send([message[at : at + size] for at in range(0, len(message) + 1, size)])
        assert await client.recv() == message


async def test_a_handler_sees_the_request() -> None:
    async def tell(socket: WebSocket) -> None:
        request = socket.request
        await socket.send(f"{request.path} {request.query.decode()} {socket.peer}")
        await socket.send(f"{request.header(b'origin')} {socket.subprotocol}")

    async with websockets(tell, subprotocols=("v2", "v1")) as server:
        options = {"origin": "http://there", "subprotocols": ["v0", "v1", "v2"]}
        async with server.connect("/ws/a?b=c", **options) as client:
            assert client.subprotocol == "v2"
            assert await client.recv() == "/ws/a b=c 127.0.0.1"
            assert await client.recv() == "http://there v2"
            assert await closed(client) == (1000, "")


async def test_a_check_may_refuse_by_what_it_sees() -> None:
    async def check(request: UpgradeRequest) -> Refusal | None:
        if request.header(b"origin") == "http://here":
            return None
        return Refusal(403, "This origin may not connect.\n", [(b"x-why", b"origin")])

    async with websockets(repeat, check=check) as server:
        async with server.connect(origin="http://here") as client:
            await client.send("hello")
            assert await client.recv() == "hello"
        with pytest.raises(InvalidStatus) as caught:
            await server.connect(origin="http://evil").__aenter__()
        response = caught.value.response
        assert (response.status_code, response.headers["X-Why"]) == (403, "origin")
        assert response.body == b"This origin may not connect.\n"


async def test_a_check_that_takes_too_long() -> None:
    async def check(request: UpgradeRequest) -> Refusal | None:
        await asyncio.Event().wait()
        return None

    limits = WebSocketLimits(handshake_s=0)
    async with websockets(repeat, check=check, limits=limits) as server:
        with pytest.raises(InvalidStatus) as caught:
            await server.connect().__aenter__()
        assert caught.value.response.status_code == 503


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        (HANDSHAKE[:2] + HANDSHAKE[3:], 400, b"Sec-WebSocket-Key"),
        ((*HANDSHAKE[:2], "Sec-WebSocket-Key: short", HANDSHAKE[3]), 400, b"Sec-WebSocket-Key"),
        ((*HANDSHAKE, HANDSHAKE[2]), 400, b"Sec-WebSocket-Key"),
        (HANDSHAKE[:3], 400, b"Sec-WebSocket-Version"),
        ((*HANDSHAKE[:3], "Sec-WebSocket-Version: 8"), 400, b"Sec-WebSocket-Version"),
        ((*HANDSHAKE, "Upgrade: websocket"), 426, b"Upgrade"),
        ((*HANDSHAKE, "Sec-WebSocket-Protocol: v0"), 400, b"expected one of v1, v2"),
        ((*HANDSHAKE, "Sec-WebSocket-Protocol: v1,,;"), 400, b"Sec-WebSocket-Protocol"),
        (HANDSHAKE, 400, b"missing subprotocol"),
        ((*HANDSHAKE[1:], "Upgrade: h2c"), 426, b"Upgrade: websocket"),
        ((), 426, b"Upgrade: websocket"),
    ],
)
async def test_a_handshake_that_is_not_accepted(
    lines: tuple[str, ...], status: int, words: bytes
) -> None:
    async with websockets(repeat, subprotocols=("v1", "v2")) as server:
        peer = await server.server.peer()
        peer.send(get("/ws", *lines))
        found, headers, body = await peer.response()
        assert found == status
        assert words in body
        assert headers["content-type"] == "text/plain; charset=utf-8"
        # RFC 9110, 15.5.22, and RFC 6455, 4.4.
        assert headers["upgrade"] == "websocket"
        assert headers["sec-websocket-version"] == "13"
        await server.others_are_served()


async def test_an_upgrade_where_no_websocket_is_served_is_ignored() -> None:
    async with websockets(repeat) as server:
        peer = await server.server.peer()
        for lines in (HANDSHAKE, HANDSHAKE, ("Upgrade: h2c", "Connection: Upgrade")):
            peer.send(get("/other", *lines) + get("/next"))
            for path in (b"/other", b"/next"):
                status, _, body = await peer.response()
                assert (status, path in body, b"upgrade" in body) == (200, True, False)


@pytest.mark.parametrize("lines", [HANDSHAKE, ()], ids=["with an upgrade", "without"])
@pytest.mark.parametrize("target", ["/ws", "here:80"])
async def test_connect_is_refused(lines: tuple[str, ...], target: str) -> None:
    """The parser takes it for an upgrade, whatever its headers are."""
    async with websockets(repeat) as server:
        peer = await server.server.peer()
        peer.send(get("/other", *HANDSHAKE) + get(target, *lines).replace(b"GET", b"CONNECT"))
        assert (await peer.response())[0] == 200
        assert (await peer.response())[0] == 400
        assert await peer.rest() == b""
        await server.others_are_served()


async def test_http_1_0_knows_no_upgrade() -> None:
    async with websockets(repeat) as server:
        peer = await server.server.peer()
        peer.send(get("/ws", *HANDSHAKE, version="1.0"))
        status, headers, _ = await peer.response()
        assert (status, headers["connection"]) == (426, "close")
        assert await peer.rest() == b""


async def test_requests_before_and_messages_right_behind_the_handshake() -> None:
    recorded = Recorded()
    recorded.may_read.set()
    async with websockets(recorded) as server:
        peer = await server.server.peer()
        early = frame(b"one") + frame(b"two")[:4]
        peer.send(get("/other") * 3 + get("/ws", *HANDSHAKE) + early)
        for _ in range(3):
            assert (await peer.response())[0] == 200
        assert (await peer.head())[0] == 101
        await until(lambda: recorded.messages == ["one"])
        peer.send(frame(b"two")[4:])
        peer.send(frame(b"\x03\xe8", Opcode.CLOSE))
        assert await close_of(peer) == (1000, "")
    assert recorded.messages == ["one", "two"]
    assert await recorded.end() == (1000, "")


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (frame(b"x" * 101, Opcode.BINARY), 1009, "frame is larger than 100 bytes"),
        (frame(b"x" * 90, fin=False) + frame(b"x" * 90, Opcode.CONT), 0, ""),
        (frame(b"x" * 90, fin=False) + frame(b"x" * 90, Opcode.CONT, fin=False) * 3, 1009, ""),
        (frame(b"x" * 300), 1009, ""),
        (frame(b"\xff"), 1007, "a text is not valid UTF-8"),
        (frame(b"\xe2", fin=False) + frame(b"\x28", Opcode.CONT), 1007, ""),
        (b"\x81\x01x", 1002, ""),
        (frame(b"x", Opcode.CONT), 1002, ""),
        (frame(b"x", fin=False) + frame(b"x"), 1002, ""),
        (frame(b"\x03\xe7", Opcode.CLOSE), 1002, ""),
        (b"\xf1" + frame(b"x")[1:], 1002, ""),
        (b"\x83" + frame(b"x")[1:], 1002, ""),
        (b"GET / HTTP/1.1\r\n\r\n", 1002, ""),
    ],
)
async def test_frames_that_are_not_accepted(data: bytes, code: int, words: str) -> None:
    recorded = Recorded()
    recorded.may_read.set()
    limits = WebSocketLimits(max_message_bytes=200, max_frame_bytes=100)
    async with websockets(recorded, limits=limits) as server:
        peer = await server.upgraded()
        peer.send(frame(b"before") + data + frame(b"after"))
        if code:
            found, reason = await close_of(peer)
            assert found == code
            assert words in reason
            assert await recorded.end() == (code, reason)
            assert recorded.messages == ["before"]
        else:
            await until(lambda: recorded.messages == ["before", "x" * 180, "after"])
        await server.others_are_served()


async def test_a_handler_that_fails_closes_its_socket(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(socket: WebSocket) -> None:
        raise LookupError("a secret")

    async with websockets(fails) as server, server.connect() as client:
        assert await closed(client) == (1011, "internal error")
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is not None


async def test_a_handler_may_close_with_a_code_and_a_reason() -> None:
    async def closes(socket: WebSocket) -> None:
        with pytest.raises(ValueError, match="at most 123 bytes"):
            await socket.close(4001, "ü" * 62)
        await socket.close(4001, "ü" * 61)
        for use in (socket.send("late"), socket.receive()):
            with pytest.raises(WebSocketClosed) as caught:
                await use
            assert (caught.value.code, caught.value.reason) == (4001, "ü" * 61)
        await socket.close()

    async with websockets(closes) as server, server.connect() as client:
        assert await closed(client) == (4001, "ü" * 61)


async def test_a_client_that_does_not_answer_a_close_is_cut_off() -> None:
    async def closes(socket: WebSocket) -> None:
        await socket.close(4001)

    async with websockets(closes, limits=WebSocketLimits(close_s=0.01)) as server:
        peer = await server.upgraded()
        assert await peer.rest() == b"\x88\x02\x0f\xa1"
        await server.server.everybody_left()


async def test_one_reader_at_a_time_and_many_senders() -> None:
    async def sends(socket: WebSocket) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(socket.receive())
            await passes()
            with pytest.raises(RuntimeError, match="one reader"):
                await socket.receive()
            for number in range(100):
                group.create_task(socket.send(f"{number}" * 5000))

    async with websockets(sends) as server, server.connect() as client:
        heard = {await client.recv() for _ in range(100)}
        assert heard == {f"{number}" * 5000 for number in range(100)}
        await client.send("done")
        assert await closed(client) == (1000, "")


async def test_a_silent_client_is_pinged_and_one_that_answers_stays() -> None:
    async with websockets(repeat) as server:
        silent, other = await server.upgraded(), await server.upgraded()
        for _ in range(3):
            server.after(20)
            for peer in (silent, other):
                assert await peer.exactly(2) == b"\x89\x00"
            for peer in (silent, other):
                peer.send(frame(b"", Opcode.PONG))
            await passes(5)
        server.after(20)
        other.send(frame(b"", Opcode.PONG))
        await passes(5)
        # A ping was sent; time has not passed for the one that has answered since.
        assert await silent.exactly(2) == b"\x89\x00"
        before = asyncio.get_running_loop().time()
        server.shared.close_idle(before + 39)
        assert len(server.shared.connections) == 2
        await server.others_are_served()


async def test_a_client_that_answers_no_ping_is_cut_off() -> None:
    recorded = Recorded()
    recorded.may_read.set()
    async with websockets(recorded) as server:
        peer = await server.upgraded()
        server.after(20)
        server.after(30)
        assert await peer.exactly(2) == b"\x89\x00"
        server.after(40)
        assert await close_of(peer) == (1011, "the peer does not answer pings")
        assert await recorded.end() == (1011, "the peer does not answer pings")
        # It does not close its side either.
        server.after(50)
        await server.server.everybody_left()


async def test_pings_are_answered() -> None:
    async with websockets(repeat) as server, server.connect() as client:
        await (await client.ping("x" * 125))


@pytest.mark.parametrize("leaves", ["end", "close", "abort"])
async def test_a_client_that_leaves_without_a_close_frame(leaves: str) -> None:
    recorded = Recorded()
    recorded.may_read.set()
    async with websockets(recorded) as server:
        peer = await server.upgraded()
        peer.send(frame(b"one") + frame(b"two", fin=False))
        await until(lambda: recorded.messages == ["one"])
        getattr(peer, leaves)()
        assert await recorded.end() == (1006, "the connection ended without a close frame")
        await server.server.everybody_left()


async def test_a_stop_tells_all_clients_to_go_away() -> None:
    async def also_sends(socket: WebSocket) -> None:
        await socket.send("welcome")
        await repeat(socket)

    async with (
        websockets(also_sends) as server,
        server.connect() as first,
        server.connect() as second,
    ):
        for client in (first, second):
            assert await client.recv() == "welcome"
        for connection in [*server.shared.connections]:
            connection.shutdown()
        for client in (first, second):
            assert await closed(client) == (1001, "the gateway stops")
        await server.server.everybody_left()


async def test_a_stop_cuts_off_clients_that_do_not_answer() -> None:
    recorded = Recorded()
    recorded.may_read.set()
    async with websockets(recorded) as server:
        peer = await server.upgraded()
        for connection in [*server.shared.connections]:
            connection.shutdown()
        assert (await peer.exactly(4))[2:] == (1001).to_bytes(2)
        # Its last words are still heard.
        peer.send(frame(b"last"))
        await until(lambda: recorded.messages == ["last"])
        assert server.shared.tasks
        server.shared.abort_all()
        await server.server.everybody_left()
    assert await recorded.end() == (1001, "the gateway stops")
