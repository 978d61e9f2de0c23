"""Responses as bytes, and handlers that do not know how to answer."""

import asyncio
import json
import logging

import pytest
from tests.sockets.handlers import echo, post
from tests.sockets.peer import DEADLINE_S, passes, serving

from trunkline.server.asgi import Receive, Scope, Send, serve_with
from trunkline.server.http import Request, Response


async def test_a_stream_is_chunked_and_its_head_goes_with_the_first_piece() -> None:
    async def stream(request: Request, response: Response) -> None:
        await response.begin(200, [(b"x-a", b"1")])
        await response.write(b"first")
        await passes(3)
        await response.write(b"")
        await response.write(b"second")
        await response.end()

    async with serving(stream) as server:
        peer = await server.peer()
        for _ in range(2):
            peer.send(post())
            status, headers, body = await peer.response()
            assert (status, headers["x-a"], body) == (200, "1", b"firstsecond")


async def test_http_1_0_gets_a_stream_up_to_the_end_of_the_connection() -> None:
    async def stream(request: Request, response: Response) -> None:
        await response.begin(200, [])
        await response.write(b"first")
        await response.write(b"second")
        await response.end()

    async with serving(stream) as server:
        for lines in ([], ["Connection: keep-alive"]):
            peer = await server.peer()
            peer.send(post(b"", *lines, version="1.0"))
            _, headers = await peer.head()
            assert headers["connection"] == "close"
            assert "transfer-encoding" not in headers
            assert await peer.rest() == b"firstsecond"


@pytest.mark.parametrize(
    ("lines", "version"),
    [(["Connection: close"], "1.1"), ([], "1.0"), (["Connection: keep-alive"], "1.0")],
)
async def test_a_connection_that_is_not_kept(lines: list[str], version: str) -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        # What comes behind it is not answered.
        peer.send(post(b"abc", *lines, version=version) + post(b"def"))
        status, headers, body = await peer.response()
        assert (status, headers["connection"]) == (200, "close")
        assert json.loads(body)["body"] == "abc"
        assert await peer.rest() == b""


async def test_keep_alive_may_be_said() -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        for _ in range(2):
            peer.send(post(b"", "Connection: keep-alive"))
            _, headers, _ = await peer.response()
            assert "connection" not in headers


async def answers(request: Request, response: Response) -> None:
    status = int(request.query or b"200")
    if request.path == "/whole":
        await response.answer(status, b"body", headers=[(b"x-a", b"1")])
        return
    sized = [(b"content-length", b"4")] if request.path == "/sized" else []
    await response.begin(status, sized)
    if status == 200:
        await response.write(b"bo")
        await response.write(b"dy")
    await response.end()


@pytest.mark.parametrize("path", ["/whole", "/sized", "/chunked"])
async def test_head_has_the_headers_and_no_body(path: str) -> None:
    async with serving(answers) as server:
        peer = await server.peer()
        for _ in range(2):
            peer.send(f"HEAD {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            status, headers = await peer.head()
            assert status == 200
            assert headers.get("content-length") == (None if path == "/chunked" else "4")
        peer.send(post(path=path))
        assert (await peer.response())[2] == b"body"


@pytest.mark.parametrize("status", [204, 304])
async def test_some_answers_never_have_a_body(status: int) -> None:
    async with serving(answers) as server:
        peer = await server.peer()
        for _ in range(2):
            peer.send(post(path=f"/?{status}"))
            got, headers = await peer.head()
            assert got == status
            assert "transfer-encoding" not in headers
            assert "content-length" not in headers
        peer.send(post(path="/"))
        assert (await peer.response())[2] == b"body"


@pytest.mark.parametrize("size", [3, 5])
async def test_a_body_of_another_length_than_announced(size: int) -> None:
    async def wrong(request: Request, response: Response) -> None:
        await response.begin(200, [(b"content-length", b"4")])
        await response.write(b"x" * size)
        await response.end()

    async with serving(wrong) as server:
        peer = await server.peer()
        peer.send(post() + post())
        await peer.head()
        if size < 4:
            # The rest is missing, and the client sees that it is.
            assert await peer.rest() == b"xxx"
        else:
            assert await peer.until(b"xxxx") == b"xxxx"
            assert (await peer.head())[0] == 200


async def test_the_date_is_that_of_the_listener() -> None:
    async with serving(echo) as server:
        server.shared.date = b"date: today\r\n"
        peer = await server.peer()
        peer.send(post())
        assert (await peer.response())[1]["date"] == "today"


@pytest.mark.parametrize("begins", [False, True])
async def test_a_handler_that_fails(begins: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(request: Request, response: Response) -> None:
        if begins:
            await response.begin(200, [])
            await response.write(b"a part")
        raise ValueError("a secret")

    async with serving(fails) as server:
        peer = await server.peer()
        peer.send(post())
        seen = await peer.rest() if begins else (await peer.response())[2]
        if begins:
            # The last chunk is missing, so the client knows that this is not all.
            assert seen.endswith(b"6\r\na part\r\n")
        else:
            assert seen == b"Internal Server Error"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_handler_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def silent(request: Request, response: Response) -> None:
        pass

    async with serving(silent) as server:
        peer = await server.peer()
        peer.send(post())
        assert (await peer.response())[0] == 500
    assert "request failed" in caplog.text


async def test_a_request_is_answered_once(caplog: pytest.LogCaptureFixture) -> None:
    async def twice(request: Request, response: Response) -> None:
        await response.answer(200, b"one")
        await response.answer(200, b"two")

    async with serving(twice) as server:
        peer = await server.peer()
        peer.send(post() + post())
        assert (await peer.response())[2] == b"one"
        assert (await peer.response())[2] == b"one"
    assert "answered once" in caplog.text


@pytest.mark.parametrize(
    "header", [(b"x", b"1\r\nset-cookie: a=b"), (b"x\r\ny", b"1"), (b"x y", b"1"), (b"x", b"\x00")]
)
async def test_a_header_cannot_write_the_rest_of_the_answer(
    header: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def bad(request: Request, response: Response) -> None:
        await response.answer(200, b"", headers=[header])

    async with serving(bad) as server:
        peer = await server.peer()
        peer.send(post())
        status, headers, _ = await peer.response()
        assert status == 500
        assert "set-cookie" not in headers
    assert "not a header" in caplog.text


async def test_an_asgi_application_is_served_as_well() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["method"], scope["path"], scope["raw_path"], scope["query_string"]))
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})
        seen.append((await receive())["type"])

    async def handler(request: Request, response: Response) -> None:
        await serve_with(app, request, response)

    async with serving(handler) as server:
        peer = await server.peer()
        data = post(b"hello", path="/a%20b?c")
        peer.send(data[:-3])
        await passes(5)
        peer.send(data[-3:])
        _, headers, body = await peer.response()
        assert (headers["x-a"], body) == ("1", b"hello")
    assert seen == [("POST", "/a b", b"/a%20b", b"c"), "http.disconnect"]


async def test_a_stream_of_an_asgi_application_opens_before_its_first_event() -> None:
    has_more = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        stream = (b"content-type", b"text/event-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [stream]})
        await has_more.wait()
        await send({"type": "http.response.body", "body": b": hello\n\n"})

    async def handler(request: Request, response: Response) -> None:
        await serve_with(app, request, response)

    async with serving(handler) as server:
        peer = await server.peer()
        peer.send(post())
        assert (await peer.head())[0] == 200
        has_more.set()
        assert await peer.until(b": hello") == b"9\r\n: hello"


async def test_an_asgi_application_hears_at_once_that_its_client_has_left() -> None:
    left = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async def handler(request: Request, response: Response) -> None:
        await serve_with(app, request, response)

    async with serving(handler) as server:
        peer = await server.peer()
        peer.send(post())
        await peer.head()
        peer.close()
        await asyncio.wait_for(left.wait(), DEADLINE_S)
