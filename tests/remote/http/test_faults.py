"""One test for each way in which a peer, or what is between, can fail."""

import asyncio
import socket

import pytest
from tests.remote.http.peer import (
    Handler,
    answer,
    chunked,
    client,
    fetch,
    opened,
    peer,
    raw,
    read,
    says,
)

from trunkline.remote import (
    BadPeerAnswer,
    InvalidTarget,
    Limits,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
)
from trunkline.remote.http import HttpClient, build_request


async def failure(
    http: HttpClient, url: str, method: str = "POST", *, max_bytes: int = 9999
) -> RemoteError:
    with pytest.raises(RemoteError) as failed:
        await fetch(http, url, method, max_bytes=max_bytes)
    return failed.value


FAULTS: dict[str, tuple[Handler, type[RemoteError], str]] = {
    "silent-close": (says(b"", closes=True), PeerUnreachable, "CONNECTION_LOST"),
    "cut-head": (says(b"HTTP/1.1 200 OK\r\nA: b", closes=True), PeerUnreachable, "CONNECTION_LOST"),
    "cut-body": (says(answer(b"12345")[:-1], closes=True), PeerUnreachable, "CONNECTION_LOST"),
    "cut-chunks": (says(chunked(b"1", end=b""), closes=True), PeerUnreachable, "CONNECTION_LOST"),
    "cut-last-chunk": (
        says(chunked(b"1", end=b"0\r\n"), closes=True),
        PeerUnreachable,
        "CONNECTION_LOST",
    ),
    "no-chunks": (says(chunked(end=b"zz\r\n")), PeerUnreachable, "CONNECTION_LOST"),
    "garbage": (says(b"SSH-2.0-OpenSSH\r\n"), BadPeerAnswer, "NOT_HTTP"),
    "two-lengths": (
        says(answer(b"12345", b"Content-Length: 4")),
        BadPeerAnswer,
        "NOT_HTTP",
    ),
    "length-and-chunks": (
        says(answer(b"12345", b"Transfer-Encoding: chunked")),
        BadPeerAnswer,
        "NOT_HTTP",
    ),
    "another-protocol": (
        says(b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
        BadPeerAnswer,
        "NOT_HTTP",
    ),
    "redirect": (
        says(answer(b"", b"Location: http://elsewhere/", status=b"302 Found")),
        BadPeerAnswer,
        "REDIRECT",
    ),
    "compressed": (says(answer(b"x", b"Content-Encoding: br")), BadPeerAnswer, "WRONG_TYPE"),
    "large-head": (says(answer(b"", b"A: " + b"b" * 70_000)), BadPeerAnswer, "TOO_LARGE"),
    "endless-head": (says(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000), BadPeerAnswer, "TOO_LARGE"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_the_error_it_stands_for(name: str) -> None:
    handler, kind, reason = FAULTS[name]
    async with peer(handler) as one, client() as http:
        for _ in range(2):
            error = await failure(http, one.url)
            assert (type(error), error.reason) == (kind, reason)
            with pytest.raises(kind) as failed:
                await read(await opened(http, one.url))
            assert failed.value.reason == reason


@pytest.mark.parametrize("data", [answer(b"x" * 2000), chunked(b"x" * 1000, b"x" * 1000)])
async def test_a_body_beyond_its_limit(data: bytes) -> None:
    async with peer(says(data)) as one, client() as http:
        assert (await failure(http, one.url, max_bytes=1999)).reason == "TOO_LARGE"
        with pytest.raises(BadPeerAnswer, match="larger than 1999"):
            await (stream := await opened(http, one.url)).body(1999)
        stream.close()
        assert len((await fetch(http, one.url, max_bytes=2000)).body) == 2000


@pytest.mark.parametrize(
    ("location", "end"),
    [
        (b"https://elsewhere.example/hunter2", "redirects to, which begins with https://"),
        (b"http://elsewhere.example/hunter2", "redirects to"),
        (b"/hunter2", "redirects to"),
    ],
)
async def test_a_redirect_tells_whether_it_leads_to_tls_and_no_more(
    location: bytes, end: str
) -> None:
    data = answer(b"", b"Location: " + location, status=b"301 Moved")
    async with peer(says(data)) as one, client() as http:
        said = (await failure(http, one.url)).message
    assert said == f"the agent redirects (status 301); use the url it {end}"


async def test_a_peer_that_speaks_first() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await reader.read()

    async with raw(greet) as one, client() as http:
        assert (await failure(http, one.url)).reason == "NOT_HTTP"


async def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with client() as http:
        error = await failure(http, f"http://127.0.0.1:{port}/")
    assert isinstance(error, PeerUnreachable)
    assert (error.reason, error.is_unsent) == ("CONNECTION_FAILED", True)
    assert error.address == f"127.0.0.1:{port}"
    assert error.message == f"cannot connect to 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b/",
        "http://" + "a" * 64 + ".example/",
        "http://a b/",
        "http://\u2488.example/",
        "gopher://a/",
    ],
)
async def test_a_url_that_is_none(url: str) -> None:
    async with client() as http:
        assert (await failure(http, url)).reason == "BAD_CARD"


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nB: c", "a\rb", "a\0b"])
def test_no_header_writes_a_further_one(value: str) -> None:
    with pytest.raises(InvalidTarget):
        build_request("GET", "http://127.0.0.1:9/", {"A": value})


async def test_no_url_writes_a_header() -> None:
    async with peer(says(answer(b""))) as one, client() as http:
        await fetch(http, one.url + "/a\x0bb\x85c HTTP/1.1\x00")
    assert one.requests[0].startswith(b"POST /rpc/a%0Bb%C2%85c%20HTTP/1.1%00 HTTP/1.1\r\n")


def leaves_after_the_first() -> Handler:
    """Answers one request on each connection, and closes at the sight of the next."""
    seen: set[asyncio.StreamWriter] = set()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if writer in seen:
            writer.close()
        else:
            seen.add(writer)
            writer.write(answer(b"x"))

    return handle


async def test_a_connection_that_went_stale_costs_a_safe_request_nothing() -> None:
    async with peer(leaves_after_the_first()) as one, client() as http:
        for _ in range(3):
            assert (await fetch(http, one.url, "GET", body=None)).body == b"x"
        stream = await opened(http, one.url, "GET")
        assert await read(stream) == b"x"
        stream.close()


async def test_what_may_have_been_done_is_not_done_again() -> None:
    async with peer(leaves_after_the_first()) as one, client() as http:
        await fetch(http, one.url)
        error = await failure(http, one.url)
        assert isinstance(error, PeerUnreachable)
        assert (error.reason, error.is_unsent) == ("CONNECTION_LOST", False)
        assert len(one.requests) == 2


async def test_a_safe_request_is_repeated_once_and_only_if_nothing_came() -> None:
    async with peer(says(answer(b"12345")[:-1], closes=True)) as one, client() as http:
        assert (await failure(http, one.url, "GET")).reason == "CONNECTION_LOST"
        assert len(one.requests) == 1
    async with peer(says(b"", closes=True)) as one, client() as http:
        assert (await failure(http, one.url, "GET")).reason == "CONNECTION_LOST"
        assert len(one.requests) == 1, "the connection was new"


async def test_a_farewell_that_was_not_read_yet_is_noticed() -> None:
    """As after a script without a running loop has slept: the peer left while nobody looked."""
    left = asyncio.Event()

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"x"))
        if len(one.requests) == 1:
            await writer.drain()
            writer.close()
            left.set()

    async with peer(handle) as one, client() as http:
        assert (await fetch(http, one.url)).body == b"x"
        await left.wait()
        assert (await fetch(http, one.url)).body == b"x"


async def test_silence() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/head" not in request:
            writer.write(chunked(b"1", end=b""))
            await writer.drain()
        await asyncio.Event().wait()

    limits = Limits(idle_s=0.05)
    async with peer(handle) as one, client() as http:
        with pytest.raises(PeerTimeout) as late:
            await opened(http, one.url + "/head", limits=limits)
        assert late.value.reason == "IDLE_TIMEOUT"
        stream = await opened(http, one.url, limits=limits)
        assert await stream.chunk() == b"1"
        with pytest.raises(PeerTimeout) as late:
            await stream.chunk()
        assert late.value.reason == "IDLE_TIMEOUT"
        stream.close()


async def test_a_stream_that_takes_too_long_though_it_never_falls_silent() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(end=b""))
        while not writer.is_closing():
            writer.write(b"ffff\r\n%b\r\n" % (b"x" * 0xFFFF))
            await writer.drain()

    async with peer(handle) as one, client() as http:
        stream = await opened(http, one.url, within_s=0.1)
        with pytest.raises(PeerTimeout) as late:
            await read(stream)
        assert late.value.reason == "CALL_TIMEOUT"
        stream.close()
        stream = await opened(http, one.url)
        assert await stream.chunk()
        stream.end_within(0.05)
        with pytest.raises(PeerTimeout):
            await read(stream)
        stream.close()


async def test_whoever_gives_up_leaves_no_half_read_answer_behind() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/slow" in request:
            writer.write(answer(b"12345")[:-1])
            reached.set()
            await asyncio.Event().wait()
        writer.write(answer(b"fresh"))

    reached = asyncio.Event()
    async with peer(handle) as one, client() as http:
        call = asyncio.get_running_loop().create_task(fetch(http, one.url + "/slow"))
        await reached.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        stream = await opened(http, one.url + "/slow")
        stream.close()
        assert (await fetch(http, one.url)).body == b"fresh"
        assert one.connections == 3
