"""A wire to OpenClaw that can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Wire:
    def __init__(self, port: int) -> None:
        self._upstream = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open = True
        self.port = 0
        self.connections = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """All connections break; new ones get through."""
        for writer in list(self._writers):
            writer.transport.abort()

    def unplug(self) -> None:
        """All connections break, and no new one gets through until it is plugged in."""
        self._is_open = False
        self.cut()

    def plug_in(self) -> None:
        self._is_open = True

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        self.connections += 1
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            self._writers |= {writer, far_writer}
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            self._writers -= {writer, far_writer}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.unplug()
        server.close()
        await server.wait_closed()
