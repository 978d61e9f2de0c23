"""WebSockets whose peer or handler is behind: bounded, cut off, and nobody else is delayed."""

import asyncio

import pytest
from tests.sockets.peer import Peer, passes
from tests.sockets.websocket_peer import (
    Recorded,
    SocketServer,
    close_of,
    closed,
    frame,
    repeat,
    until,
    websockets,
)
from websockets.frames import Opcode

from trunkline.ports.websocket import (
    Refusal,
    UpgradeRequest,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
)

KB, MB = 1024, 1024 * 1024


async def stands_still(server: SocketServer, peer: Peer, data: bytes) -> int:
    """Send until the server takes no more; the bytes that it took, kernel included."""
    socket, taken = server.only_socket(), 0
    transport = peer._writer.transport
    while transport.get_write_buffer_size() == 0 or socket._flow.is_reading:
        peer.send(data)
        taken += len(data)
        await passes(3)
        assert taken < 200 * MB, "the server reads without an end"
    await passes(20)
    return taken - transport.get_write_buffer_size()


@pytest.mark.parametrize("size", [50 * KB, pytest.param(1000, marks=pytest.mark.full)])
async def test_a_peer_that_floods_is_not_read_from(size: int) -> None:
    recorded = Recorded()
    async with websockets(recorded) as server:
        peer = await server.upgraded()
        message = frame(b"x" * size, Opcode.BINARY)
        burst = message * (512 * KB // len(message))
        taken = await stands_still(server, peer, burst)
        socket = server.only_socket()
        # One read, and the messages that wait for the handler.
        assert socket._size < 600 * KB
        assert server.budget.held_bytes == socket._size
        assert len(socket._messages) < 500
        await server.others_are_served()
        # Nothing is lost, and the handler gets the rest.
        recorded.may_read.set()
        await until(lambda: len(recorded.messages) * len(message) >= taken - len(message))
        assert set(recorded.messages) == {b"x" * size}


async def test_others_are_served_between_the_frames_of_a_flood() -> None:
    """A handler that is always faster than the parser does not keep the loop for itself."""
    recorded = Recorded()
    recorded.may_read.set()
    async with websockets(recorded) as server:
        peer = await server.upgraded()
        empty = frame(b"")
        peer.send(empty * 15_000)
        await until(lambda: bool(recorded.messages))
        await server.others_are_served()
        assert len(recorded.messages) < 15_000
        await until(lambda: len(recorded.messages) == 15_000)


async def test_a_flood_of_empty_fragments_takes_no_memory() -> None:
    async with websockets(repeat) as server:
        peer = await server.upgraded()
        peer.send(frame(b"x", fin=False))
        for _ in range(20):
            await peer.send_all(frame(b"", Opcode.CONT, fin=False) * 2000)
            await server.others_are_served()
        await until(lambda: server.only_socket()._size < 100)
        peer.send(frame(b"y", Opcode.CONT))
        assert await peer.exactly(4) == b"\x81\x02xy"


@pytest.mark.full
async def test_a_peer_that_pings_and_does_not_read_is_not_read_from() -> None:
    async with websockets(repeat) as server:
        peer = await server.upgraded(reads=False)
        await stands_still(server, peer, frame(b"x" * 125, Opcode.PING) * 1000)
        socket = server.only_socket()
        assert socket._flow.transport.get_write_buffer_size() < 300 * KB
        await server.others_are_served()
        server.after(1)
        server.after(77)
        await server.server.everybody_left()


@pytest.mark.full
async def test_a_peer_that_reads_later_gets_its_pongs() -> None:
    async with websockets(repeat) as server:
        peer = await server.upgraded(reads=False)
        burst = frame(b"x" * 125, Opcode.PING) * 1000
        await stands_still(server, peer, burst)
        peer.read_on()
        assert (await peer.exactly(127 * 1000))[-127:] == b"\x8a\x7d" + b"x" * 125
        while not server.only_socket()._flow.is_reading:
            await peer.exactly(127)


@pytest.mark.parametrize("size", [900 * KB, pytest.param(1000, marks=pytest.mark.full)])
async def test_a_peer_that_does_not_read_is_cut_off_with_a_reason(size: int) -> None:
    ended: asyncio.Future[WebSocketClosed] = asyncio.get_running_loop().create_future()

    async def floods(socket: WebSocket) -> None:
        if socket.request.query == b"repeat":
            return await repeat(socket)
        try:
            while True:
                await socket.send(b"x" * size)
        except WebSocketClosed as closed:
            ended.set_result(closed)

    # It cannot answer pings either, but that is another reason.
    limits = WebSocketLimits(ping_s=1000)
    async with (
        websockets(floods, limits=limits) as server,
        server.connect("/ws?repeat") as other,
    ):
        await server.upgraded(reads=False)
        is_stuck = False
        flow = next(one._flow for one in server.sockets() if one.request.query != b"repeat")
        left, quiet = -1, 0
        while quiet < 15:
            await passes(20)
            before, left = left, flow.transport.get_write_buffer_size()
            quiet = quiet + 1 if left == before else 0
            is_stuck = flow.is_congested
            await other.send("hello")
            assert await other.recv() == "hello"
        assert is_stuck
        assert left <= 64 * KB + size + 100
        assert server.budget.held_bytes <= 2 * (64 * KB + size + 100)
        server.after(1)
        assert not ended.done()
        server.after(77)
        assert (await ended).code == 1006
        assert (await ended).reason == "the peer does not read"
        await until(lambda: len(server.shared.connections) == 1)
        await other.send("hello")
        assert await other.recv() == "hello"


async def sends_for_ever(socket: WebSocket) -> None:
    while True:
        await socket.send(b"x" * 1000)


@pytest.mark.parametrize("leaves", ["abort", "close", "end"])
async def test_a_handler_that_always_sends_learns_that_its_peer_has_left(leaves: str) -> None:
    async with websockets(sends_for_ever) as server:
        peer = await server.upgraded()
        await peer.exactly(100 * KB)
        getattr(peer, leaves)()
        await server.server.everybody_left()


async def test_a_handler_that_always_sends_lets_others_be_served() -> None:
    """Here everything that is written is read at once, so that no write ever waits."""
    async with websockets(sends_for_ever) as server:
        peer = await server.upgraded()
        server.only_socket().pause_writing = lambda: None  # type: ignore[method-assign]
        for _ in range(10):
            await server.others_are_served()
            await peer.exactly(100 * KB)


async def test_many_senders_wait_for_a_slow_peer() -> None:
    """The memory of a slow peer does not grow with the number of senders."""

    async def sends(socket: WebSocket) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(socket.send(b"x" * 50 * KB))

    async with websockets(sends) as server:
        peer = await server.upgraded(reads=False)
        await passes(50)
        unread = server.only_socket()._flow.transport.get_write_buffer_size()
        assert unread <= 64 * KB + 60 * KB
        peer.read_on()
        await peer.exactly(200 * (50 * KB + 4))


async def test_a_large_message_asks_the_memory_budget() -> None:
    recorded = Recorded()

    async def check(request: UpgradeRequest) -> Refusal | None:
        request.caller = "alice"
        return None

    limits = WebSocketLimits(max_message_bytes=MB, max_frame_bytes=MB)
    small = {"max_held_bytes": MB}
    async with websockets(recorded, check=check, limits=limits, server=small) as server:
        first, second = await server.upgraded(), await server.upgraded()
        await first.send_all(frame(b"x" * 400 * KB)[: 300 * KB])
        await until(lambda: server.budget.held_for("alice") > 250 * KB)
        # One caller may have half of the budget.
        large = frame(b"x" * 400 * KB)[: 250 * KB]
        for at in range(0, len(large), 50 * KB):
            second.send(large[at : at + 50 * KB])
            await passes(3)
        assert await close_of(second) == (1013, "the gateway has no room for the message")
        assert server.budget.held_for("alice") < 310 * KB
        await server.others_are_served()
        recorded.may_read.set()


async def test_a_handler_that_does_not_read_is_no_silent_peer() -> None:
    recorded = Recorded()
    async with websockets(recorded) as server, server.connect() as client:
        for number in range(100):
            await client.send(f"{number}")
        await until(lambda: not server.only_socket()._flow.is_reading)
        server.after(100)
        recorded.may_read.set()
        await until(lambda: recorded.messages == [f"{number}" for number in range(100)])


async def test_a_handler_that_ends_before_a_flood_closes_cleanly() -> None:
    async def leaves(socket: WebSocket) -> None:
        await socket.receive()

    async with websockets(leaves) as server, server.connect() as client:
        for _ in range(200):
            await client.send(b"x" * 10 * KB)
        assert await closed(client) == (1000, "")


async def test_sockets_count_as_connections() -> None:
    async with websockets(repeat, server={"max_connections": 2}) as server:
        await server.upgraded()
        await server.upgraded()
        peer = await server.server.peer()
        status, _, body = await peer.response()
        assert (status, body) == (503, b"Too many connections.")
