"""Random upgrades: each ends the connection, opens a socket, or leaves HTTP in step."""

import asyncio
import logging
import random
from collections import Counter
from contextlib import suppress

import pytest
from tests.sockets.peer import DEADLINE_S
from tests.sockets.websocket_peer import (
    ACCEPT,
    HANDSHAKE,
    KEY,
    SocketServer,
    frame,
    repeat,
    websockets,
)
from websockets.frames import Opcode

from trunkline.ports.websocket import WebSocket, WebSocketClosed, WebSocketLimits

# A request behind the one under test; its answer shows whether both sides are in step.
NEXT = b"GET /behind HTTP/1.1\r\nHost: here\r\n\r\n"
SERVED = b'"path": "/behind", "query": "", "headers": ["host=here"]'
PATHS = [
    "/ws",
    "/ws",
    "/ws",
    "/ws",
    "/ws/below",
    "/other",
    "/ws?a=b",
    "http://here/ws",
    "/%77s",
    "//ws",
    "*",
    "ws",
    "/",
]
METHODS = ["GET"] * 20 + ["POST", "HEAD", "OPTIONS", "CONNECT", "get", "PRI"]
VERSIONS = ["1.1"] * 20 + ["1.0", "2.0", "1.2", ""]
LINES = [
    "Upgrade: websocket",
    "Upgrade: WebSocket",
    "Upgrade: h2c",
    "Upgrade: websocket, h2c",
    "Upgrade:",
    "Connection: Upgrade",
    "Connection: keep-alive, Upgrade",
    "Connection: close, upgrade",
    "Connection: close",
    "Connection: ,",
    f"Sec-WebSocket-Key: {KEY}",
    "Sec-WebSocket-Key: short",
    "Sec-WebSocket-Key: \xff\xff",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Version: 8, 13",
    "Sec-WebSocket-Version: \t13 ",
    "Sec-WebSocket-Protocol: v1",
    "Sec-WebSocket-Protocol: ,,v1,",
    "Sec-WebSocket-Protocol: " + "v" * 3000,
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
    "Sec-WebSocket-Extensions: ;=",
    "Content-Length: 0",
    "Content-Length: 5",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Expect: 100-continue",
    "Host: there",
    "X-Folded: a\r\n b",
    "X-Line: a\nUpgrade: websocket",
    "X-\x00: a",
    " Upgrade: websocket",
    "Upgrade : websocket",
    "Trailer: upgrade",
]
BODIES = [b""] * 20 + [b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"\r\n"]
# What may come right behind the handshake, or in the middle of it.
CLOSE = frame(b"\x03\xe8", Opcode.CLOSE)
PONG = b"\x8a\x04mark"
FRAMES = [
    frame(b"hello"),
    frame(b"", Opcode.BINARY),
    frame(b"x" * 300),
    frame(b"x", fin=False),
    frame(b"x", Opcode.CONT),
    frame(b"", Opcode.PING),
    frame(b"\x03", Opcode.CLOSE),
    frame(b"\xff"),
    CLOSE,
    b"\x00",
    b"\xff" * 14,
]


def changed(chance: random.Random, data: bytes) -> bytes:
    """With a few bytes of it lost, doubled or replaced."""
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(data) + 1)
        piece = chance.choice([b"", data[at : at + 5], chance.randbytes(2), b"\r\n", b"\x00"])
        data = data[:at] + piece + data[at + chance.randrange(3) :]
    return data


def a_case(chance: random.Random) -> bytes:
    lines = [*HANDSHAKE, "Host: here"] if chance.random() < 0.7 else ["Host: here"]
    for _ in range(chance.choice([0, 0, 0, 1, 1, 3])):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(LINES))
    if chance.random() < 0.15:
        lines.pop(chance.randrange(len(lines)))
    version = chance.choice(VERSIONS)
    start = f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/{version}"
    head = "\r\n".join([start, *lines, "", ""]).encode("latin-1")
    if chance.random() < 0.2:
        head = changed(chance, head)
    before = NEXT * chance.choice([0, 0, 0, 1, 2])
    frames = b"".join(chance.choices(FRAMES, k=chance.choice([0] * 8 + [1, 3])))
    return before + head + chance.choice(BODIES) + frames


async def outcome(server: SocketServer, chance: random.Random) -> str:
    data = a_case(chance)
    peer = await server.server.peer()
    # A pong answers this ping if a socket is open, and the request if it is still HTTP.
    tail = frame(b"mark", Opcode.PING) + NEXT if chance.random() < 0.3 else NEXT
    whole = data + tail
    if chance.random() < 0.5:
        cut = chance.randrange(1, len(whole))
        peer.send(whole[:cut])
        await asyncio.sleep(0)  # noqa: TID251 - so that the pieces arrive apart
        peer.send(whole[cut:])
    else:
        peer.send(whole)
    # The client sends no more, so that a server that waits for more of the request gives up.
    peer.end()
    try:
        answer = await asyncio.wait_for(peer.rest(), DEADLINE_S)
    except OSError:
        # Bytes that nobody reads are answered with a reset, which may outrun the answer.
        return "reset"
    assert b"HTTP/1.1 5" not in answer.replace(b"HTTP/1.1 501", b""), (data, answer)
    if ACCEPT.encode() in answer:
        # Nothing is taken for a request any more.
        _, _, behind = answer.partition(b"HTTP/1.1 101 ")
        assert b"HTTP/1.1" not in behind, (data, answer)
        return "upgraded"
    assert b"HTTP/1.1 101" not in answer, (data, answer)
    before = data.count(NEXT)
    served = answer.count(SERVED)
    if served > before:
        assert served == before + 1, (data, answer)
        assert answer.rstrip().endswith(b"}"), (data, answer)
        return "in step"
    assert served == before or b"HTTP/1.1 4" in answer, (data, answer)
    return "closed"


async def fuzz(cases: int, seed: int, log: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    limits = WebSocketLimits(max_message_bytes=200)
    seen: Counter[str] = Counter()
    async with websockets(repeat, limits=limits) as server:
        for _ in range(cases):
            seen[await outcome(server, chance)] += 1
            server.server.forget()
        await server.others_are_served()
    # The cases are worth something: each of the three happens often.
    assert min(seen[name] for name in ("upgraded", "in step", "closed")) > cases // 20, seen
    assert [record for record in log.records if record.levelno >= logging.WARNING] == []


async def test_a_thousand_random_upgrades(caplog: pytest.LogCaptureFixture) -> None:
    await fuzz(1000, 1, caplog)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 12))
async def test_twenty_thousand_random_upgrades(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    # A thousand on each of both event loops.
    await fuzz(1000, seed, caplog)


class Noting:
    """Sends every message back, as far as the socket is open, and notes it."""

    def __init__(self) -> None:
        self.messages: list[str | bytes] = []

    async def __call__(self, socket: WebSocket) -> None:
        async for message in socket:
            self.messages.append(message)
            with suppress(WebSocketClosed):
                await socket.send(message)


async def talk(server: SocketServer, noting: Noting, chance: random.Random) -> str:
    """Random frames behind some messages: those reach the handler, whatever comes then."""
    noting.messages.clear()
    peer = await server.upgraded()
    sent = [chance.choice(["hello", b""]) for _ in range(chance.randrange(4))]
    noise = b"".join(chance.choices(FRAMES, k=chance.randrange(6)))
    whole = b"".join(FRAMES[0] if message else FRAMES[1] for message in sent)
    whole += changed(chance, noise) if noise else b""
    for at in range(0, len(whole), 7):
        peer.send(whole[at : at + 7])
    peer.send(frame(b"mark", Opcode.PING))
    peer.end()
    try:
        answer = await asyncio.wait_for(peer.rest(), DEADLINE_S)
    except OSError:
        answer = b""
    await server.server.everybody_left()
    assert noting.messages[: len(sent)] == sent, (whole, noting.messages)
    if PONG in answer:
        return "open"
    return "closed" if b"\x88" in answer else "cut"


@pytest.mark.parametrize("cases", [200, pytest.param(10_000, marks=pytest.mark.full)])
async def test_random_frames(cases: int, caplog: pytest.LogCaptureFixture) -> None:
    chance, noting = random.Random(cases), Noting()
    seen: Counter[str] = Counter()
    limits = WebSocketLimits(max_message_bytes=200, close_s=0)
    async with websockets(noting, limits=limits) as server:
        for _ in range(cases):
            seen[await talk(server, noting, chance)] += 1
        await server.others_are_served()
    assert min(seen[name] for name in ("open", "closed")) > cases // 20, seen
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
