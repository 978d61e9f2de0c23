"""`remote.websocket` against servers that behave, and others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.acceptance.remote import free_port

from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable
from trunkline.remote.websocket import SocketClosed, WebSocket, open_websocket

Serves = Callable[[web.WebSocketResponse], Awaitable[None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{rest:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def socket_that(serves: Serves) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await serves(socket)
        return socket

    return handle


async def opened(url: str, **limits: float) -> WebSocket:
    return await open_websocket(
        url,
        connect_s=limits.get("connect_s", 5),
        max_frame_bytes=1000,
        heartbeat_s=limits.get("heartbeat_s"),
    )


async def test_texts_go_and_come() -> None:
    async def serves(socket: web.WebSocketResponse) -> None:
        await socket.send_str(f"you said {await socket.receive_str()}")
        await socket.close(code=1012, message=b"service restart")

    async with server(socket_that(serves)) as url:
        socket = await opened(url)
        await socket.send("hello")
        assert await socket.receive() == "you said hello"
        with pytest.raises(SocketClosed) as closed:
            await socket.receive()
        assert (closed.value.code, closed.value.told) == (1012, "service restart")
        with pytest.raises(SocketClosed):
            await socket.send("too late")
        await socket.close()


async def test_a_frame_that_is_too_large() -> None:
    async def serves(socket: web.WebSocketResponse) -> None:
        await socket.send_str("x" * 2000)
        await socket.receive()

    async with server(socket_that(serves)) as url:
        socket = await opened(url)
        with pytest.raises(BadPeerAnswer, match="larger than allowed"):
            await socket.receive()
        await socket.close()


async def test_a_frame_that_is_no_text() -> None:
    async def serves(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x00")
        await socket.receive()

    async with server(socket_that(serves)) as url:
        socket = await opened(url)
        with pytest.raises(BadPeerAnswer, match="no text"):
            await socket.receive()
        await socket.close()


async def test_a_peer_that_stops_answering_counts_as_gone() -> None:
    async def serves(socket: web.WebSocketResponse) -> None:
        await asyncio.sleep(2)

    async with server(socket_that(serves)) as url:
        socket = await opened(url, heartbeat_s=0.2)
        with pytest.raises(SocketClosed):
            await socket.receive()
        await socket.close()


async def test_nothing_listens() -> None:
    with pytest.raises(PeerUnreachable, match="cannot connect: connection refused") as caught:
        await opened(f"ws://127.0.0.1:{free_port()}/")
    assert caught.value.is_unsent


async def test_no_websocket_there() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(text="It works!")

    async with server(handle) as url:
        with pytest.raises(BadPeerAnswer, match=r"no WebSocket is opened there \(status 200\)"):
            await opened(url)


async def test_a_redirect_is_not_followed() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:9/elsewhere")

    async with server(handle) as url:
        with pytest.raises(BadPeerAnswer, match="redirects"):
            await opened(url)


async def test_a_peer_that_takes_too_long() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2)
        return web.Response()

    async with server(handle) as url:
        with pytest.raises(PeerTimeout):
            await opened(url, connect_s=0.2)
