"""What is not HTTP, or too much of it, or another protocol."""

import pytest
from tests.sockets.handlers import LIMIT, count_bytes, echo, never, post, told
from tests.sockets.peer import HEAD_LIMIT, passes, serving

from trunkline.server.http import Request, Response


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"BREW / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost here\r\n\r\n",
        b"CONNECT here:80 HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused(data: bytes) -> None:
    async with serving(never) as server:
        peer = await server.peer()
        peer.send(data)
        status, headers, body = await peer.response()
        assert (status, headers["connection"]) == (400, "close")
        assert body == b"Invalid HTTP request received."
        assert await peer.rest() == b""


# Whoever stands in front of the gateway must see the same requests in the same bytes.
@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Content-Length: 5, 5\r\n\r\nhello",
        b"Content-Length: +5\r\n\r\nhello",
        b"Content-Length: 18446744073709551621\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
        b"X: a\rContent-Length: 5\r\n\r\nhello",
        b"X: a\nContent-Length: 5\r\n\r\nhello",
        b"X: a\x00b\r\nContent-Length: 5\r\n\r\nhello",
        b"X Y: a\r\nContent-Length: 5\r\n\r\nhello",
        b": a\r\nContent-Length: 5\r\n\r\nhello",
        b"Host: there\r\n\r\n",
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        b"X-API-Key: a\r\nx-api-key: b\r\n\r\n",
        b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n",
    ],
)
async def test_a_request_that_could_be_read_in_two_ways_is_refused(lines: bytes) -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        peer.send(b"POST / HTTP/1.1\r\nHost: here\r\n" + lines + post(path="/next"))
        assert (await peer.response())[0] == 400
        assert await peer.rest() == b""


@pytest.mark.parametrize(
    "lines",
    [
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: ,chunked\r\n",
        b'Transfer-Encoding: chunked;q="1"\r\n',
    ],
)
async def test_only_chunked_is_a_known_transfer_coding(lines: bytes) -> None:
    async with serving(never) as server:
        peer = await server.peer()
        peer.send(b"POST / HTTP/1.1\r\nHost: here\r\n" + lines + b"\r\n5\r\nhello\r\n0\r\n\r\n")
        status, headers, body = await peer.response()
        assert (status, headers["connection"]) in ((501, "close"), (400, "close"))
        assert status == 400 or b"chunked" in body
        assert await peer.rest() == b""


@pytest.mark.parametrize("value", [b"chunked", b"Chunked", b" chunked "])
async def test_a_chunked_body_is_taken(value: bytes) -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        head = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: " + value
        peer.send(head + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert (await peer.response())[2] == b"5"


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5;a\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
    ],
)
async def test_a_chunk_that_could_be_read_in_two_ways_is_refused(chunks: bytes) -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        head = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        peer.send(head + chunks + post(path="/next"))
        assert (await peer.response())[0] == 400
        assert await peer.rest() == b""


async def test_only_http_1_0_may_leave_out_the_host() -> None:
    async with serving(echo) as server:
        old, new = await server.peer(), await server.peer()
        old.send(b"GET / HTTP/1.0\r\n\r\n")
        assert (await told(old))["path"] == "/"
        new.send(b"GET / HTTP/1.1\r\n\r\n")
        assert (await new.response())[0] == 400


@pytest.mark.parametrize("pause", [0, 5])
async def test_a_bad_chunk_is_refused(pause: int) -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        peer.send(
            b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        await passes(pause)
        peer.send(b"zz\r\n")
        assert (await peer.response())[0] == 400
        assert await peer.rest() == b""


@pytest.mark.parametrize("pause", [0, 5])
async def test_what_came_before_nonsense_is_answered_first(pause: int) -> None:
    async def slow(request: Request, response: Response) -> None:
        await passes(10)
        await response.answer(200, await request.body(limit=LIMIT))

    async with serving(slow) as server:
        peer = await server.peer()
        peer.send(post(b"one") + post(b"two"))
        await passes(pause)
        peer.send(b"nonsense\r\n\r\n")
        assert (await peer.response())[::2] == (200, b"one")
        assert (await peer.response())[::2] == (200, b"two")
        assert (await peer.response())[0] == 400
        assert await peer.rest() == b""


@pytest.mark.parametrize("size", [HEAD_LIMIT, 3 * HEAD_LIMIT])
@pytest.mark.parametrize("kind", ["one header", "many headers", "path", "cut off"])
async def test_a_head_that_is_too_large_is_refused(kind: str, size: int) -> None:
    lines = {
        "one header": [f"X: {'x' * size}"],
        "many headers": ["X-Name: of a header that is short"] * (size // 20),
    }
    data = post(b"", *lines.get(kind, []), path="/" + "x" * (size if kind == "path" else 1))
    if kind == "cut off":
        data = b"GET / HTTP/1.1\r\nX: " + b"x" * size
    async with serving(never) as server:
        peer = await server.peer()
        peer.send(data)
        status, headers, body = await peer.response()
        assert (status, headers["connection"]) == (431, "close")
        assert body == b"The head of the request is too large."


async def test_trailers_are_bounded_as_well() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        head = (
            b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
        )
        peer.send(head)
        await passes(5)
        peer.send(b"X: " + b"x" * (HEAD_LIMIT + 1))
        assert (await peer.response())[0] == 431


async def test_a_head_may_be_as_large_as_the_limit_with_a_large_body_behind_it() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        peer.send(post(b"x" * 500_000, f"X: {'x' * (HEAD_LIMIT - 100)}"))
        assert (await peer.response())[::2] == (200, b"500000")


async def test_the_absolute_form_of_an_address() -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        peer.send(b"GET http://here/a%20b?c=d HTTP/1.1\r\nHost: here\r\n\r\n")
        seen = await told(peer)
        assert (seen["path"], seen["query"]) == ("/a b", "c=d")
        peer.send(b"GET http://here?c=d HTTP/1.1\r\nHost: here\r\n\r\n")
        seen = await told(peer)
        assert (seen["path"], seen["query"]) == ("/", "c=d")


@pytest.mark.parametrize("cut", [1, 100, 150, 400])
async def test_a_wish_for_another_protocol_is_ignored(cut: int) -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        for _ in range(2):
            # Java's client asks like this by default.
            data = post(
                b"hello",
                "Connection: Upgrade, HTTP2-Settings",
                "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
                "Upgrade: h2c",
            )
            peer.send(data[:cut])
            await passes(2)
            peer.send(data[cut:])
            assert (await told(peer))["body"] == "hello"


async def test_many_wishes_for_another_protocol_at_once_are_ignored() -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        count = 2000
        peer.send(post(b"", "Connection: Upgrade", "Upgrade: h2c") * count + post(b"last"))
        for _ in range(count):
            assert (await told(peer))["body"] == ""
        assert (await told(peer))["body"] == "last"


async def test_a_connection_too_many_is_sent_away() -> None:
    async with serving(echo, max_connections=2) as server:
        first, second = await server.peer(), await server.peer()
        for peer in (first, second):
            peer.send(post())
            await told(peer)
        third = await server.peer()
        status, headers, _ = await third.response()
        assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "5")
        assert await third.rest() == b""
        second.abort()
        await passes(5)
        fourth = await server.peer()
        fourth.send(post(b"abc"))
        assert (await told(fourth))["body"] == "abc"
        first.send(post(b"def"))
        assert (await told(first))["body"] == "def"
