"""`RawHost`: a host in bytes, which keeps to the protocol of the relay only where a test wants it
to."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.relay_hosts import HOST_TOKEN

BINARY, TEXT, CLOSE, PING = 2, 1, 8, 9
LIMITS = {"max_frame_bytes": 262144, "max_streams": 256, "stream_bytes": 65536}
_MASK = b"\x01\x02\x03\x04" * 65536
UPGRADE = (
    "GET /agent HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: a2a.relay.v2\r\nAuthorization: Bearer {token}\r\n\r\n"
)


def message(data: bytes, opcode: int = BINARY) -> bytes:
    """A frame of a WebSocket, as a client sends it."""
    size = len(data)
    short = size if size < 126 else 126 if size < 65536 else 127
    long = b"" if size < 126 else size.to_bytes(2 if size < 65536 else 8)
    pad = _MASK[:size] if size <= len(_MASK) else _MASK * (size // len(_MASK) + 1)
    masked = (int.from_bytes(data) ^ int.from_bytes(pad[:size])).to_bytes(size)
    return bytes([0x80 | opcode, 0x80 | short]) + long + _MASK[:4] + masked


def frame(kind: str, body: bytes | None = None, **members: Any) -> bytes:
    head = json.dumps({"frame": kind, **members}).encode()
    return head if body is None else head + b"\n" + body


class RawHost:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._sent = 0

    def write(self, *messages: bytes) -> None:
        """Send these messages, and do not wait."""
        self.writer.write(b"".join(map(message, messages)))

    def next(self, kind: str, body: bytes | None = None, **members: Any) -> bytes:
        """The next numbered frame."""
        self._sent += 1
        return frame(kind, body, n=self._sent, **members)

    def send(self, kind: str, body: bytes | None = None, **members: Any) -> None:
        """Send the next numbered frame."""
        self.write(self.next(kind, body, **members))

    async def status(self) -> int:
        """That of the answer to the handshake."""
        async with asyncio.timeout(DEADLINE_S):
            return int((await self._reader.readuntil(b"\r\n\r\n")).split()[1])

    async def hello(self, **members: Any) -> dict[str, Any]:
        """Greet the relay. Returns its welcome."""
        self.write(frame("hello", limits=LIMITS, **members))
        return await self.expect("welcome")

    async def attach(self, *agents: str) -> dict[str, Any]:
        welcome = await self.hello()
        self.send("agents", agents=[f"acme/{agent}" for agent in agents])
        await self.expect("leases")
        return welcome

    async def expect(self, kind: str) -> dict[str, Any]:
        """The next frame of this kind, with its body as `body`. The agents have no cards."""
        while True:
            opcode, data = await self._message()
            assert opcode == BINARY, (kind, opcode, data)
            head, _, body = data.partition(b"\n")
            told: dict[str, Any] = json.loads(head)
            if told.get("target", "").endswith("agent-card.json"):
                # The relay reads the card of each agent, and maybe again later.
                self.send("cancel", stream=told["stream"], reason="refused")
            elif told["frame"] == kind:
                return told | {"body": body}

    async def closed(self) -> tuple[int, str]:
        """Code and reason of the close frame, once the relay sends it."""
        while True:
            opcode, data = await self._message()
            if opcode == CLOSE:
                return int.from_bytes(data[:2]), data[2:].decode()

    async def _message(self) -> tuple[int, bytes]:
        async with asyncio.timeout(DEADLINE_S):
            first, size = await self._reader.readexactly(2)
            if size > 125:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
            return first & 0x0F, await self._reader.readexactly(size)

    async def read_all(self) -> None:
        """Read whatever comes, as fast as it comes."""
        while await self._reader.read(1 << 20):
            pass

    def pause(self) -> None:
        """Read nothing any more."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def raw_host(port: int, *, token: str = HOST_TOKEN) -> AsyncIterator[RawHost]:
    """A host behind its handshake, which has said nothing yet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    host = RawHost(reader, writer)
    try:
        writer.write(UPGRADE.format(token=token).encode())
        status = await host.status()
        assert status == 101, status
        yield host
    finally:
        host.close()
