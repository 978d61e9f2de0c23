"""Answers that keep to HTTP, in all the forms it has."""

import asyncio
from functools import partial

import pytest
from tests.remote.http.peer import answer, chunked, client, fetch, opened, peer, raw, read, says

from trunkline.remote import Limits, PeerUnreachable
from trunkline.remote.http import Guard, HttpClient, build_request
from trunkline.remote.http.connector import Connector
from trunkline.remote.http.pool import MAX_IN_USE, SPARE, Pool
from trunkline.remote.http.request import origin_of

UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n12345"
WHOLE = {
    "length": says(answer(b"12345")),
    "chunks": says(chunked(b"12", b"345")),
    "trailers": says(chunked(b"12345", end=b"0\r\nX-Sum: 1\r\n\r\n")),
    "until-close": says(UNTIL_CLOSE, closes=True),
    "interim": says(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n" + answer(b"12345")
    ),
    "bare-lf": says(b"HTTP/1.1 200 OK\nContent-Length: 5\n\n12345"),
    "http-1.0": says(b"HTTP/1.0 200 OK\r\n\r\n12345", closes=True),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_every_form_of_body(name: str) -> None:
    async with peer(WHOLE[name]) as one, client() as http:
        for _ in range(2):
            got = await fetch(http, one.url)
            assert (got.status, got.body) == (200, b"12345")
            stream = await opened(http, one.url)
            assert (stream.status, await read(stream)) == (200, b"12345")
            stream.close()


@pytest.mark.parametrize(
    ("data", "closes", "connections"),
    [
        (answer(b"x"), False, 1),
        (chunked(b"x"), False, 1),
        (answer(b"", status=b"204 Nothing"), False, 1),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", False, 1),
        (answer(b"x", b"Connection: close"), False, 3),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", False, 3),
        # A second answer to the same request, or the beginning of one.
        (answer(b"x") + answer(b"y"), False, 3),
        (answer(b"x") + b"HTTP/1.1", False, 3),
        (answer(b"x", b"Connection: close") + b"more", False, 3),
        (UNTIL_CLOSE, True, 3),
    ],
)
async def test_which_connections_are_used_again(
    data: bytes, closes: bool, connections: int
) -> None:
    async with peer(says(data, closes=closes)) as one, client() as http:
        for _ in range(3):
            await fetch(http, one.url)
        assert one.connections == connections


async def test_a_head_is_an_answer_without_its_body() -> None:
    async with peer(says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")) as one, client() as http:
        got = await fetch(http, one.url, "HEAD", body=None)
        assert (got.headers["content-length"], got.body) == ("5", b"")
        assert (await fetch(http, one.url, "HEAD", body=None)).status == 200


async def test_headers_have_lower_case_names_and_repeated_ones_are_joined() -> None:
    data = answer(b"", b"X-One: a", b"Empty:", b"x-one: b", b"Content-Type: Text/HTML; a=b")
    async with peer(says(data)) as one, client() as http:
        got = await fetch(http, one.url)
        assert (got.headers["x-one"], got.headers["empty"]) == ("a, b", "")
        assert got.media_type == "text/html"


async def test_what_is_asked() -> None:
    async with peer(says(answer(b""))) as one, client() as http:
        headers = {"X-Key": "schlüssel", "user-agent": "mine"}
        request = build_request("POST", one.url + "?a=b c#d", headers, b"{}")
        await http.fetch(request, Limits(), max_bytes=10)
        await fetch(http, one.url, "GET", body=None)
        await fetch(http, one.url, "POST", body=None)
    posted, got, empty = [request.split(b"\r\n") for request in one.requests]
    assert posted[0] == b"POST /rpc?a=b%20c HTTP/1.1"
    assert "X-Key: schlüssel".encode() in posted
    assert b"user-agent: mine" in posted
    assert b"Accept-Encoding: identity" in posted
    assert not any(line.startswith(b"User-Agent") for line in posted)
    assert posted[-1] == b"{}"
    assert not any(line.startswith(b"Content-Length") for line in got)
    assert b"Content-Length: 0" in empty


async def test_a_large_request_whose_answer_comes_early() -> None:
    """The rest of the request would be taken for the next one."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"no", status=b"413 Too Large"))
        await gone.wait()

    gone = asyncio.Event()
    async with raw(refuse) as one, client() as http:
        for _ in range(2):
            got = await fetch(http, one.url, body=b"x" * 16 * 1024 * 1024)
            assert (got.status, got.body) == (413, b"no")
        gone.set()


async def test_requests_beyond_the_limit_wait_their_turn() -> None:
    release = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(answer(b"x"))

    async with peer(handle) as one, client() as http:
        calls = [asyncio.get_running_loop().create_task(fetch(http, one.url)) for _ in range(140)]
        while len(one.requests) < 120:
            await asyncio.wait(calls, timeout=0.01)
        # Whoever gives up while waiting takes no place with them.
        for call in calls[130:]:
            call.cancel()
        release.set()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(one, "body", None) for one in done] == [b"x"] * 130 + [None] * 10
        assert one.connections == MAX_IN_USE + SPARE == 120
        assert (await fetch(http, one.url)).body == b"x"


async def test_closing_ends_what_is_under_way() -> None:
    reached = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with peer(handle) as one:
        http = HttpClient(Guard.of(one.url))
        call = asyncio.get_running_loop().create_task(fetch(http, one.url))
        await reached.wait()
        await http.close()
        for waiting in (call, fetch(http, one.url)):
            with pytest.raises(PeerUnreachable) as closed:
                await waiting
            assert closed.value.reason == "CLOSED"
        await http.close()


async def test_closing_ends_the_wait_for_a_place() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with peer(handle) as one:
        pool = Pool(Connector(Guard(allow_private=True)), max_in_use=1)
        origin = origin_of(one.url)
        take = partial(pool.take, origin, connect_s=10, is_stream=True)
        await take()
        waiting = asyncio.get_running_loop().create_task(take())
        given_up = asyncio.get_running_loop().create_task(take())
        await asyncio.wait([waiting, given_up], timeout=0.01)
        given_up.cancel()
        await pool.close()
        with pytest.raises(PeerUnreachable) as closed:
            await waiting
        assert closed.value.reason == "CLOSED"
        with pytest.raises(asyncio.CancelledError):
            await given_up


async def test_streams_leave_room_for_calls() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with peer(handle) as one:
        pool = Pool(Connector(Guard(allow_private=True)), max_in_use=1)
        start = asyncio.get_running_loop().create_task
        take = partial(pool.take, origin_of(one.url), connect_s=10)
        first = await take(is_stream=True)
        second = start(take(is_stream=True))
        calls = [await take() for _ in range(SPARE)]
        late = start(take())
        await asyncio.wait([second, late], timeout=0.01)
        assert not second.done()
        assert not late.done()
        # A call goes before a stream, which waits until there is no more than one at all.
        first.abort()
        await asyncio.wait([late], timeout=10)
        for call in calls:
            call.abort()
        await asyncio.wait([second], timeout=0.01)
        assert not second.done()
        (await late).abort()
        await asyncio.wait([second], timeout=10)
        assert second.done()
        await pool.close()
