"""A head that was read before is not read again, and nobody can tell."""

import random
from typing import Any

import pytest
from tests.sockets.handlers import LIMIT, echo, post, told
from tests.sockets.peer import HEAD_LIMIT, Server, passes, serving

from trunkline.server import connection
from trunkline.server.head_cache import HeadCache
from trunkline.server.http import Request, Response
from trunkline.server.sockets import SocketRequest


def plain(body: bytes = b"hello", *, path: str = "/a%20b?c=d", one: int = 1, two: int = 2) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nX-One: {one}\r\n"
    return head.encode() + b"Content-Length: %d\r\nX-Two: %d\r\n\r\n%b" % (len(body), two, body)


FIRST = plain()
LENGTH = b"Content-Length: 5\r\n"

VARIANTS = {
    "the same": FIRST,
    "another body": plain(b"world"),
    "a shorter one": plain(b"he"),
    "a longer one": plain(b"h" * 5000),
    "none": plain(b""),
    "another header before": plain(one=2),
    "another header behind": plain(two=1),
    "one header more": FIRST.replace(LENGTH, LENGTH + b"X-Three: 3\r\n"),
    "another path": plain(path="/a%20b?c=e"),
    "a zero before the length": FIRST.replace(LENGTH, b"Content-Length: 005\r\n"),
    "too short": FIRST.replace(LENGTH, b"Content-Length: 4\r\n"),
    "too long": FIRST.replace(LENGTH, b"Content-Length: 8\r\n"),
    "no number": FIRST.replace(LENGTH, b"Content-Length: 5x\r\n"),
    "signed": FIRST.replace(LENGTH, b"Content-Length: +5\r\n"),
    "without a number": FIRST.replace(LENGTH, b"Content-Length: \r\n"),
    "huge": FIRST.replace(LENGTH, b"Content-Length: 18446744073709551621\r\n"),
    "twice": FIRST.replace(LENGTH, LENGTH + LENGTH),
    "with chunks, too": FIRST.replace(LENGTH, LENGTH + b"Transfer-Encoding: chunked\r\n"),
    "two in one piece": FIRST + FIRST,
    "one and a half": FIRST + FIRST[:30],
    "the last one": FIRST.replace(LENGTH, LENGTH + b"Connection: close\r\n"),
    "nonsense": b"nonsense\r\n\r\n",
}
# What a client may well send again and again.
REPEATED = {
    "plain": FIRST,
    "a leading line": b"\r\n" + FIRST,
    "small letters": FIRST.replace(LENGTH, LENGTH.lower()),
    "no space": FIRST.replace(LENGTH, b"Content-Length:5\r\n"),
    "more space": FIRST.replace(LENGTH, b"Content-Length:  5\r\n"),
    "a length in the body": plain(b"\r\nContent-Length: 3\r\n\r\nabc"),
    "expects to be asked": FIRST.replace(LENGTH, LENGTH + b"Expect: 100-continue\r\n"),
    "wants another protocol": FIRST.replace(
        LENGTH, LENGTH + b"Connection: upgrade\r\nUpgrade: h2c\r\n"
    ),
    "http 1.0": FIRST.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "http 1.0 that stays": FIRST.replace(b"HTTP/1.1", b"HTTP/1.0").replace(
        LENGTH, LENGTH + b"Connection: keep-alive\r\n"
    ),
    "without a body": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "head": plain(b"").replace(b"POST", b"HEAD"),
}


class Seen:
    """A server, and what it made of the bytes that it was sent."""

    def __init__(self) -> None:
        self._requests: list[tuple[object, ...]] = []

    async def serve(self, request: Request, response: Response) -> None:
        body = await request.body(limit=LIMIT)
        told = (request.method, request.path, request.query, tuple(request.header_lines), body)
        self._requests.append((*told, dict(request.headers)))
        await response.answer(200, b"ok")

    async def of(self, server: Server, *pieces: bytes) -> tuple[list[tuple[object, ...]], bool]:
        """The requests in the last piece, and whether the connection stays. Each comes alone."""
        peer = await server.peer()
        for piece in pieces:
            self._requests = []
            peer.send(piece)
            await passes(3)
        stays = bool(server.shared.connections)
        peer.abort()
        await server.everybody_left()
        return self._requests, stays


@pytest.mark.parametrize("data", VARIANTS.values(), ids=VARIANTS)
async def test_a_request_means_the_same_behind_another(data: bytes) -> None:
    seen = Seen()
    async with serving(seen.serve) as server:
        assert await seen.of(server, FIRST, data) == await seen.of(server, data)


@pytest.mark.parametrize("data", REPEATED.values(), ids=REPEATED)
async def test_a_request_means_the_same_each_time(data: bytes) -> None:
    seen = Seen()
    async with serving(seen.serve) as server:
        requests, stays = await seen.of(server, data)
        assert len(requests) == 1
        if stays:
            for times in (2, 3):
                assert await seen.of(server, *[data] * times) == (requests, True)


async def test_any_bytes_mean_the_same_behind_a_request() -> None:
    chance = random.Random(11)
    pieces = (b"", b"\r\n", b"\n", b":", b" ", b"0", b"5", b"x", b"\x00", LENGTH)
    seen = Seen()
    async with serving(seen.serve) as server:
        for _ in range(150):
            changed = bytearray(FIRST)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(changed))
                changed[at : at + chance.randint(0, 2)] = chance.choice(pieces)
            data = bytes(changed)
            assert await seen.of(server, FIRST, data) == await seen.of(server, data), data


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
    flow: Any = None
    lines = [(b"content-length", b"0")]
    request = SocketRequest("POST", "/", b"/", b"", lines, dict(lines), flow=flow)
    request.complete()
    heads = HeadCache()
    heads.remember(post(b""), request)
    assert heads.read(post(b"")) is not None
    heads.remember(data, request)
    assert heads.read(data) is None
