"""WebSocket mounts of the gateway as an ASGI application, behind uvicorn."""

from collections.abc import AsyncIterator

import pytest
from tests.acceptance.asgi_server import asgi_server
from tests.acceptance.websocket_mounts import MOUNTS, ORIGIN
from tests.sockets.websocket_peer import closed
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from trunkline.app.gateway import create_app
from trunkline.ports.websocket import WebSocket, WebSocketClosed, WebSocketLimits, WebSocketMount
from trunkline.settings import Settings, StoreSettings

ends: list[WebSocketClosed] = []


async def until_the_end(socket: WebSocket) -> None:
    try:
        while (message := await socket.receive()) != "enough":
            await socket.send(message)
        await socket.close(4001, "enough")
    except WebSocketClosed as closed:
        ends.append(closed)


async def fails(socket: WebSocket) -> None:
    raise LookupError("a secret")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    ends.clear()
    app = create_app(Settings(store=StoreSettings(kind="memory")))
    limits = WebSocketLimits(max_message_bytes=100_000)
    for prefix, mount in MOUNTS.items():
        app.mount(prefix, mount)
    app.mount("/ws/end", WebSocketMount(handler=until_the_end, limits=limits))
    app.mount("/ws/fails", WebSocketMount(handler=fails))
    async with asgi_server(app) as port:
        yield f"ws://127.0.0.1:{port}"


async def test_messages_go_and_come(url: str) -> None:
    async with connect(f"{url}/ws/echo?a=b") as client:
        for message in ("ü€😀", b"\x00\xff", "x" * 500_000):
            await client.send(message)
            assert await client.recv() == message


async def test_an_origin_that_may_not_connect(url: str) -> None:
    guarded, offered = f"{url}/ws/guarded", [Subprotocol("v0"), Subprotocol("v1")]
    async with connect(guarded, origin=Origin(ORIGIN), subprotocols=offered) as client:
        assert client.subprotocol == "v1"
        await client.send("hello")
        assert await client.recv() == "hello"
    with pytest.raises(InvalidStatus) as caught:
        await connect(guarded, origin=Origin("https://evil.example"), subprotocols=offered)
    assert caught.value.response.status_code == 403
    assert caught.value.response.body == b"Only the console may connect.\n"
    with pytest.raises(InvalidStatus) as caught:
        await connect(guarded, origin=Origin(ORIGIN))
    assert caught.value.response.status_code == 400
    assert caught.value.response.body == b"Offer a subprotocol: v1.\n"


async def test_how_sockets_end(url: str) -> None:
    async with connect(f"{url}/ws/end") as client:
        await client.send("enough")
        assert await closed(client) == (4001, "enough")
    async with connect(f"{url}/ws/end") as client:
        await client.close(4002, "bye")
    async with connect(f"{url}/ws/end") as client:
        await client.send("x" * 100_001)
        assert await closed(client) == (1009, "a message is too large")
    assert [(end.code, end.reason) for end in ends] == [
        (4002, "bye"),
        (1009, "a message is too large"),
    ]


async def test_a_handler_that_fails(url: str) -> None:
    async with connect(f"{url}/ws/fails") as client:
        assert await closed(client) == (1011, "internal error")


async def test_a_path_without_a_mount(url: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await connect(f"{url}/healthz")
    assert caught.value.response.status_code == 403
