"""WebSocket mounts of a gateway in a process of its own, with real clients and hostile ones."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.acceptance import raw
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway
from tests.acceptance.websocket_mounts import ORIGIN
from tests.sockets.websocket_peer import HANDSHAKE, closed, frame, get
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Opcode
from websockets.typing import Origin, Subprotocol

SCRIPT = Path(__file__).parent / "js" / "websocket.mjs"
MB = 1024 * 1024
CONFIG = """
[store]
kind = "memory"
[agents."test/echo"]
name = "Echo"
default = true
backend = { kind = "echo" }
"""


@contextmanager
def with_mounts(folder: Path) -> Iterator[Gateway]:
    with gateway(folder, CONFIG) as made:
        made.module = "tests.acceptance.websocket_mounts"
        made.environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
        yield made.start()


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with with_mounts(tmp_path_factory.mktemp("mounted")) as made:
        yield made


def url(mounted: Gateway, path: str = "/ws/echo") -> str:
    return mounted.url.replace("http://", "ws://") + path


@asynccontextmanager
async def opened(
    mounted: Gateway, path: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client in bytes, after the handshake. It reads no more than a little by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", mounted.port, limit=1024)
    try:
        writer.write(get(path, *HANDSHAKE))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_the_client_of_websockets(mounted: Gateway) -> None:
    # It offers to compress its messages, which the gateway does not.
    async with connect(url(mounted)) as client:
        assert client.protocol.extensions == []
        for message in ("ü€😀", b"\x00\xff", "x" * 500_000):
            await client.send(message)
            assert await client.recv() == message
        await (await client.ping())
    assert (client.close_code, client.close_reason) == (1000, "")


async def test_an_origin_that_may_not_connect(mounted: Gateway) -> None:
    guarded, offered = url(mounted, "/ws/guarded"), [Subprotocol("v1")]
    async with connect(guarded, origin=Origin(ORIGIN), subprotocols=offered) as client:
        assert client.subprotocol == "v1"
    with pytest.raises(InvalidStatus) as caught:
        await connect(guarded, origin=Origin("https://evil.example"), subprotocols=offered)
    assert caught.value.response.status_code == 403
    assert caught.value.response.body == b"Only the console may connect.\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not there")
def test_the_websocket_of_node(mounted: Gateway) -> None:
    command = ["node", "--experimental-websocket", "--no-warnings", str(SCRIPT), url(mounted, "")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "messages": ["ü€😀4", [0, 255], "xxxxxxxxxx500000"],
        "code": 4000,
        "reason": "enough",
        "wasClean": True,
        "refused": "error",
    }


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_curl(mounted: Gateway) -> None:
    def curl(path: str, *options: str) -> str:
        command = ["curl", "--silent", "--include", "--max-time", "0.5", *options]
        return subprocess.run([*command, mounted.url + path], capture_output=True).stdout.decode()

    asked = [part for line in HANDSHAKE for part in ("--header", line)]
    assert curl("/ws/echo", *asked).startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert "Only the console may connect.\n" in curl("/ws/guarded", *asked)
    plain = curl("/ws/echo")
    assert plain.startswith("HTTP/1.1 426 Upgrade Required\r\n")
    assert "upgrade: websocket\r\n" in plain
    # A path without a mount ignores the wish (RFC 9110, 7.8).
    assert curl("/healthz", *asked).endswith("\r\n\r\nok\n")


# Those that neither read nor answer have three seconds, and a handler that does not end five.
@pytest.mark.parametrize(
    "silent", [(), pytest.param(("echo", "flood", "deaf"), marks=pytest.mark.full)]
)
async def test_a_stop_says_goodbye_to_all(tmp_path: Path, silent: tuple[str, ...]) -> None:
    with with_mounts(tmp_path) as made:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connect(url(made))) for _ in range(20)]
            for name in silent:
                await stack.enter_async_context(opened(made, f"/ws/{name}"))
            made.terminate()
            for client in clients:
                assert await closed(client) == (1001, "the gateway stops")
            assert await asyncio.to_thread(made.wait) == 0
        assert "Traceback" not in made.stderr


async def never_reads(mounted: Gateway) -> None:
    async with opened(mounted, "/ws/flood"):
        await asyncio.Event().wait()


async def floods(mounted: Gateway, path: str, data: bytes) -> None:
    async with opened(mounted, path) as (_, writer):
        while True:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0)


async def sends_garbage(mounted: Gateway) -> None:
    while True:
        async with opened(mounted, "/ws/echo") as (reader, writer):
            writer.write(b"\xff" + os.urandom(1000))
            await reader.read()


async def half_closes(mounted: Gateway) -> None:
    while True:
        async with opened(mounted, "/ws/echo") as (reader, writer):
            writer.write(frame(b"hello")[:7])
            writer.write_eof()
            await reader.read()


async def test_hostile_peers_harm_nobody(mounted: Gateway) -> None:
    before = mounted.resident_bytes()
    pings = frame(b"x" * 125, Opcode.PING) * 500
    hostile = [
        *(never_reads(mounted) for _ in range(20)),
        *(floods(mounted, "/ws/deaf", frame(b"x" * 1000) * 60) for _ in range(5)),
        *(floods(mounted, "/ws/echo", frame(b"") * 2000) for _ in range(2)),
        *(floods(mounted, "/ws/deaf", pings) for _ in range(2)),
        *(sends_garbage(mounted) for _ in range(2)),
        *(half_closes(mounted) for _ in range(2)),
    ]
    tasks = [asyncio.ensure_future(one) for one in hostile]
    try:
        async with connect(url(mounted)) as client:
            for number in range(20):
                await client.send(f"{number}")
                assert await asyncio.wait_for(client.recv(), DEADLINE_S) == f"{number}"
                sent = await raw.send(mounted, "hello")
                assert sent["status"]["state"] == "TASK_STATE_COMPLETED"
        assert not [task for task in tasks if task.done()]
        # 29 peers that are behind, each with some 300 KB of buffers.
        assert mounted.resident_bytes() - before < 30 * MB
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert "Traceback" not in mounted.stderr


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory of a process")
async def test_a_thousand_idle_sockets_take_no_more_than_15_mb(tmp_path: Path) -> None:
    with with_mounts(tmp_path) as made:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(opened(made, "/ws/echo"))
            before = made.resident_bytes()
            idle = [await stack.enter_async_context(opened(made, "/ws/echo")) for _ in range(1000)]
            # All of them are served, and then silent.
            for _, writer in idle:
                writer.write(frame(b"hello"))
            for reader, _ in idle:
                assert await reader.readexactly(7) == b"\x81\x05hello"
            taken = made.resident_bytes() - before
    print(f"1,000 idle WebSockets: {taken / MB:.1f} MB")
    assert taken <= 15 * MB
