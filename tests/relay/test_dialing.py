"""What a host is told of a relay that gives it no WebSocket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from trunkline.relay.hosts.dialing import DialFailed, dial


@asynccontextmanager
async def answering(head: str) -> AsyncIterator[str]:
    """The URL of a server that answers every request so."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/agent"


@pytest.mark.parametrize(
    ("head", "message", "retry_after_s"),
    [
        ("503 S\r\nRetry-After: 1", "the relay is stopping or full (503)", 1),
        ("429 S\r\nRetry-After: 7", "the relay takes no more attempts for now (429)", 7),
        # A proxy, which knows nothing of the relay.
        ("503 S", "no WebSocket is opened there (status 503)", 0),
    ],
)
async def test_a_relay_that_says_when_to_come_back(
    head: str, message: str, retry_after_s: float
) -> None:
    async with answering(head) as url:
        with pytest.raises(DialFailed) as failed:
            await dial(url, "token")
    assert (failed.value.message, failed.value.retry_after_s) == (message, retry_after_s)
    assert failed.value.may_pass is (retry_after_s == 0)
