"""`remote.websocket` against servers that behave, and others."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.acceptance.remote import free_port
from tests.acceptance.websocket_server import websocket_server
from tests.remote.http.peer import Handler, answer, peer, raw, says
from websockets.asyncio.server import ServerConnection

from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
)
from trunkline.remote.websocket import SocketClosed, WebSocket, open_websocket


@asynccontextmanager
async def http_server(handler: Handler) -> AsyncIterator[str]:
    async with peer(handler) as one:
        yield one.url.replace("http://", "ws://")


async def opened(
    url: str,
    *,
    connect_s: float = 5,
    heartbeat_s: float | None = None,
    headers: dict[str, str] | None = None,
    public_only: bool = False,
) -> WebSocket:
    return await open_websocket(
        url,
        connect_s=connect_s,
        max_frame_bytes=1000,
        heartbeat_s=heartbeat_s,
        headers=headers,
        public_only=public_only,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001"])
async def test_a_private_address_can_be_forbidden(host: str) -> None:
    connections = 0

    async def serves(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1

    async with websocket_server(serves) as url:
        with pytest.raises(AddressRefused, match="operator"):
            await opened(url.replace("127.0.0.1", host), public_only=True)
    assert connections == 0


async def test_texts_go_and_come() -> None:
    async def serves(socket: ServerConnection) -> None:
        await socket.send(f"you said {await socket.recv()!s}")
        await socket.close(1012, "service restart")

    async with websocket_server(serves) as url:
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
    async def serves(socket: ServerConnection) -> None:
        await socket.send("x" * 2000)
        await socket.wait_closed()

    async with websocket_server(serves) as url:
        socket = await opened(url)
        with pytest.raises(BadPeerAnswer, match="larger than allowed"):
            await socket.receive()
        await socket.close()


async def test_a_peer_that_got_too_large_a_frame() -> None:
    async def serves(socket: ServerConnection) -> None:
        await socket.close(1009, "max payload")

    async with websocket_server(serves) as url:
        socket = await opened(url)
        with pytest.raises(SocketClosed) as closed:
            await socket.receive()
        assert (closed.value.code, closed.value.told) == (1009, "max payload")
        await socket.close()


async def test_a_frame_that_is_no_text() -> None:
    async def serves(socket: ServerConnection) -> None:
        await socket.send(b"\x00")
        await socket.wait_closed()

    async with websocket_server(serves) as url:
        socket = await opened(url)
        with pytest.raises(BadPeerAnswer, match="not a text"):
            await socket.receive()
        await socket.close()


async def test_a_peer_that_stops_answering_counts_as_gone() -> None:
    async def serves(socket: ServerConnection) -> None:
        socket.transport.pause_reading()
        await gone.wait()

    gone = asyncio.Event()
    async with websocket_server(serves) as url:
        socket = await opened(url, heartbeat_s=0.2)
        with pytest.raises(SocketClosed):
            await socket.receive()
        gone.set()
        await socket.close()


async def test_a_request_offers_no_compression_and_no_log_has_its_headers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def serves(socket: ServerConnection) -> None:
        assert socket.request is not None
        offered = socket.request.headers.get("Sec-WebSocket-Extensions", "no extension")
        await socket.send(f"{offered}, {socket.request.headers['X-Token']}")

    with caplog.at_level(logging.DEBUG):
        async with websocket_server(serves) as url:
            socket = await opened(url, headers={"X-Token": "a-secret"})
            assert await socket.receive() == "no extension, a-secret"
            await socket.close()
    ours = [record for record in caplog.records if record.name != "websockets.server"]
    assert not [record for record in ours if "a-secret" in record.getMessage()]


async def test_nothing_listens() -> None:
    with pytest.raises(PeerUnreachable, match="cannot connect: connection refused") as caught:
        await opened(f"ws://127.0.0.1:{free_port()}/")
    assert caught.value.is_unsent


@pytest.mark.parametrize(
    ("response", "words", "reason"),
    [
        (answer(b"It works!"), r"no WebSocket is opened there \(status 200\)", "NOT_WEBSOCKET"),
        (
            answer(b"", b"Location: http://127.0.0.1:9/elsewhere", status=b"302 Found"),
            "redirects",
            "REDIRECT",
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "is no WebSocket", "NOT_WEBSOCKET"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "no HTTP", "NOT_HTTP"),
        (b"HTTP/1.1 101 Switch", "broke off", "CONNECTION_LOST"),
    ],
)
async def test_no_websocket_there(response: bytes, words: str, reason: str) -> None:
    async with http_server(says(response, closes=True)) as url:
        with pytest.raises(RemoteError, match=words) as caught:
            await opened(url)
    assert caught.value.reason == reason


async def test_a_peer_without_tls() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"", status=b"400 Bad Request"))

    async with raw(serve) as one:
        with pytest.raises(PeerUnreachable) as caught:
            await opened(one.url.replace("http://", "wss://"))
    assert caught.value.reason == "TLS_FAILED"


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "ws://127.0.0.1:x/", "ws://127.0.0.1/#a"])
async def test_a_url_of_no_websocket(url: str) -> None:
    with pytest.raises(BadPeerAnswer, match="url is not valid"):
        await opened(url)


async def test_a_peer_that_takes_too_long() -> None:
    async def never(request: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with http_server(never) as url:
        with pytest.raises(PeerTimeout):
            await opened(url, connect_s=0.2)
