"""Connections as the listener makes them, on the loopback interface, and a client in bytes."""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from trunkline.server.connection import Connection
from trunkline.server.http import Handler
from trunkline.server.memory_budget import MemoryBudget
from trunkline.server.shared import Shared

HEAD_LIMIT = 4096
BODY_TIMEOUT_S = 30.0
DEADLINE_S = 20.0


class Peer:
    """A client that writes and reads bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def send_all(self, data: bytes) -> None:
        """Returns when the server has taken nearly all of it."""
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), DEADLINE_S)

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self._reader.readuntil(end), DEADLINE_S)

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """One with a length, or chunked."""
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.until(b"\r\n"), 16):
                body += await self.exactly(size)
                assert await self.exactly(2) == b"\r\n"
            assert await self.exactly(2) == b"\r\n"
            return status, headers, body
        return status, headers, await self.exactly(int(headers["content-length"]))

    async def head(self) -> tuple[int, dict[str, str]]:
        line, *lines = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        assert line.startswith("HTTP/1.1 ")
        return int(line.split()[1]), dict(line.split(": ", 1) for line in lines)

    @property
    def has_answer(self) -> bool:
        """Whether something came that was not read."""
        return bool(cast(Any, self._reader)._buffer)

    async def status(self) -> int:
        """Of an answer that is then left unread: its first line is in what came by itself."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.has_answer:
                await passes()
        return int(bytes(cast(Any, self._reader)._buffer[:12]).split()[1])

    def read_on(self) -> None:
        """Take what comes, for one that was made not to read."""
        if not self._writer.transport.is_closing():
            cast(asyncio.Transport, self._writer.transport).resume_reading()

    async def read_some(self, size: int) -> None:
        """So much, and no more."""
        transport = cast(asyncio.Transport, self._writer.transport)
        transport.resume_reading()
        await self.exactly(size)
        if not transport.is_closing():
            transport.pause_reading()

    async def exactly(self, size: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(size), DEADLINE_S)

    async def rest(self) -> bytes:
        """All up to the end of the connection."""
        return await asyncio.wait_for(self._reader.read(), DEADLINE_S)

    def end(self) -> None:
        """Send no more, and go on reading."""
        self._writer.write_eof()

    def close(self) -> None:
        """Leave as programs do: to the server it is an end of what is sent, at first."""
        self._writer.close()

    def abort(self) -> None:
        """Leave at once, with a reset."""
        own = self._writer.get_extra_info("socket")
        if own is not None and own.fileno() >= 0:
            with socket.socket(fileno=os.dup(own.fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class Server:
    def __init__(
        self,
        handler: Handler,
        *,
        max_held_bytes: int = 256 * 1024 * 1024,
        max_connections: int = sys.maxsize,
    ) -> None:
        self.budget = MemoryBudget(max_held_bytes)
        self.shared = Shared(
            handler,
            max_header_bytes=HEAD_LIMIT,
            keep_alive_s=75.0,
            budget=self.budget,
            body_timeout_s=BODY_TIMEOUT_S,
            max_connections=max_connections,
        )
        self.port = 0
        self._peers: list[Peer] = []

    async def peer(self, *, reads: bool = True) -> Peer:
        """One that does not read takes in no more than a little, until told to."""
        limit = 2**16 if reads else 1024
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port, limit=limit))
        self._peers.append(peer)
        return peer

    async def start(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self.shared), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def only_connection(self) -> Connection:
        (connection,) = self.shared.connections
        assert isinstance(connection, Connection)
        return connection

    def forget(self) -> None:
        """Close the clients so far."""
        self.leave()
        self._peers.clear()

    def leave(self) -> None:
        for peer in self._peers:
            peer.abort()

    async def everybody_left(self) -> None:
        """Also the requests."""
        async with asyncio.timeout(DEADLINE_S):
            while self.shared.connections or self.shared.tasks:
                await passes()


@asynccontextmanager
async def serving(handler: Handler, **limits: int) -> AsyncIterator[Server]:
    made = Server(handler, **limits)
    listening = await made.start()
    try:
        yield made
    finally:
        made.leave()
        await made.everybody_left()
        listening.close()
        await listening.wait_closed()


async def passes(count: int = 1) -> None:
    """Let the event loop look at its sockets so many times."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        done = loop.create_future()
        loop.call_later(0.001, done.set_result, None)
        await done
