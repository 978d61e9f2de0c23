"""A head that was read before is not read again, and nobody can tell."""

import random
import re

import pytest
from tests.sockets.handlers import echo, post, told
from tests.sockets.peer import HEAD_LIMIT, Peer, Server, passes, serving

from trunkline.server import connection
from trunkline.server.incoming import Incoming
from trunkline.server.repeats import Repeats

FIRST = post(b"hello", "X-One: 1", path="/a%20b?c=d")
LAST = b"GET /last HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"

VARIANTS = {
    "the same": FIRST,
    "another body": FIRST.replace(b"hello", b"world"),
    "a shorter one": post(b"he", "X-One: 1", path="/a%20b?c=d"),
    "a longer one": post(b"h" * 5000, "X-One: 1", path="/a%20b?c=d"),
    "none": post(b"", "X-One: 1", path="/a%20b?c=d"),
    "another header": post(b"hello", "X-One: 2", path="/a%20b?c=d"),
    "one header more": post(b"hello", "X-One: 1", "X-Two: 2", path="/a%20b?c=d"),
    "another path": post(b"hello", "X-One: 1", path="/a%20b?c=e"),
    "a zero before the length": FIRST.replace(b"Length: 5", b"Length: 005"),
    "too short": FIRST.replace(b"Length: 5", b"Length: 4"),
    "too long": FIRST.replace(b"Length: 5", b"Length: 8"),
    "no number": FIRST.replace(b"Length: 5", b"Length: 5x"),
    "signed": FIRST.replace(b"Length: 5", b"Length: +5"),
    "without length": FIRST.replace(b"Length: 5", b"Length: "),
    "huge": FIRST.replace(b"Length: 5", b"Length: 18446744073709551621"),
    "twice": FIRST.replace(b"Length: 5", b"Length: 5\r\nContent-Length: 5"),
    "chunked": FIRST.replace(b"Length: 5", b"Length: 5\r\nTransfer-Encoding: chunked"),
    "two in one piece": FIRST + FIRST,
    "one and a half": FIRST + FIRST[:30],
    "another protocol": FIRST.replace(b"Host", b"Connection: upgrade\r\nUpgrade: h2c\r\nHost"),
    "the last one": FIRST.replace(b"Host", b"Connection: close\r\nHost"),
    "nonsense": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("data", VARIANTS.values(), ids=VARIANTS)
async def test_a_request_means_the_same_behind_another(data: bytes) -> None:
    async with serving(echo) as server:
        assert await answers(server, FIRST, data) == await answers(server, data)


async def test_any_bytes_mean_the_same_behind_a_request() -> None:
    chance = random.Random(11)
    async with serving(echo) as server:
        for _ in range(150):
            data = bytearray(FIRST)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(data))
                data[at : at + chance.randint(0, 2)] = chance.choice(
                    (
                        b"",
                        b"\r\n",
                        b"\n",
                        b":",
                        b" ",
                        b"0",
                        b"5",
                        b"x",
                        b"\x00",
                        b"Content-Length: 5",
                    )
                )
            assert await answers(server, FIRST, bytes(data)) == await answers(server, bytes(data))


async def answers(server: Server, *pieces: bytes) -> list[bytes]:
    """To the last of the pieces, each of which comes alone, and to all that is left to say."""
    peer = await server.peer()
    for piece in pieces[:-1]:
        peer.send(piece)
        await peer.response()
    peer.send(pieces[-1])
    await passes(2)
    peer.send(LAST)
    return re.split(rb"\r\ndate: [^\r]*", await rest(peer))


async def rest(peer: Peer) -> bytes:
    try:
        return await peer.rest()
    except ConnectionError:
        # It was closed while there was more to read.
        return b""


async def test_the_parser_is_asked_for_new_heads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    parse = connection.Connection._parse

    def counted(self: connection.Connection, data: bytes) -> None:
        parsed.append(data)
        parse(self, data)

    monkeypatch.setattr(connection.Connection, "_parse", counted)
    async with serving(echo) as server:
        peer = await server.peer()
        for body in (b"one", b"three", b"", b"x" * 1000):
            peer.send(post(body))
            assert (await told(peer))["body"] == body.decode()
        assert parsed == [post(b"one")]
        other = post(b"one", "X-Other: 1")
        for data in (other, other):
            peer.send(data)
            await told(peer)
        assert parsed == [post(b"one"), other]
        # Another connection knows nothing of it.
        peer = await server.peer()
        peer.send(other)
        await told(peer)
        assert parsed == [post(b"one"), other, other]


async def test_a_long_head_is_not_kept() -> None:
    data = post(b"", f"X: {'x' * HEAD_LIMIT}")
    request = Incoming(None, "POST", "/", b"/", b"", [(b"content-length", b"0")])  # type: ignore[arg-type]
    request.complete()
    repeats = Repeats()
    repeats.remember(post(b""), request)
    assert repeats.read(post(b"")) is not None
    repeats.remember(data, request)
    assert repeats.read(data) is None
