"""`TransactionPooler`: a pooler as PgBouncer is in transaction mode, in a thread of its own.

Every transaction goes over another connection than the one before, so whatever needs a session of
its own fails. Startup parameters that a pooler cannot keep are refused, as PgBouncer does.
"""

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

_SSL, _GSS = 80877103, 80877104
_READY = b"Z\0\0\0\5I"


class TransactionPooler:
    def __init__(self, socket: Path, database: str, *, size: int) -> None:
        self._socket = socket
        self._database = database
        self._size = size
        self.port = 0
        self.transactions = 0
        # What a server tells each client at the start.
        self._greeting = b""
        # Of all connections that there were.
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, is_up: threading.Event) -> None:
        """Until `stop` is called, in another thread."""
        is_over = asyncio.Event()
        self.stop = partial(asyncio.get_running_loop().call_soon_threadsafe, is_over.set)
        self._idle: asyncio.Queue[Backend] = asyncio.Queue()
        for _ in range(self._size):
            await self._add_backend()
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        is_up.set()
        await is_over.wait()
        server.close()
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _add_backend(self) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        self._writers.append(writer)
        names = [b"user", b"postgres", b"database", self._database.encode()]
        startup = struct.pack(">i", 196608) + b"\0".join(names) + b"\0\0"
        writer.write(struct.pack(">i", len(startup) + 4) + startup)
        greeting = b""
        while (message := await read_message(reader))[:1] != b"Z":
            greeting += message
        self._greeting = greeting
        self._idle.put_nowait(Backend(reader, writer))

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if await self._greeted(reader, writer):
                while await self._transaction(reader, writer):
                    self.transactions += 1
        writer.close()

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            size, code = struct.unpack(">ii", await reader.readexactly(8))
            rest = await reader.readexactly(size - 8)
            if code not in (_SSL, _GSS):
                break
            writer.write(b"N")
        if b"\0options\0" in b"\0" + rest:
            fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            writer.write(b"E" + struct.pack(">i", len(fields) + 4) + fields)
            return False
        writer.write(self._greeting + _READY)
        return True

    async def _transaction(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass on everything up to the end of a transaction; false when the client leaves."""
        message = await read_message(reader)
        if message[:1] == b"X":
            return False
        backend = await self._idle.get()
        try:
            while True:
                backend.writer.write(message)
                if message[:1] in (b"Q", b"S") and await backend.answered(writer) == b"I":
                    break
                message = await read_message(reader)
        except BaseException:
            # In the middle of a transaction: it ends with its connection.
            backend.writer.close()
            await self._add_backend()
            raise
        self._idle.put_nowait(backend)
        return True


class Backend:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answered(self, client: asyncio.StreamWriter) -> bytes:
        """Pass on the answer. Returns the state of the transaction after it."""
        while True:
            message = await read_message(self.reader)
            client.write(message)
            if message[:1] == b"Z":
                await client.drain()
                return message[5:]


async def read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack(">i", head[1:])[0] - 4)


@contextmanager
def transaction_pooler(
    folder: Path, database: str, *, size: int = 4
) -> Iterator[TransactionPooler]:
    """In front of the server whose socket is in the folder."""
    pooler = TransactionPooler(folder / ".s.PGSQL.5432", database, size=size)
    is_up = threading.Event()
    # What clients still do ends with the loop.
    thread = threading.Thread(target=lambda: asyncio.run(pooler.serve(is_up)))
    thread.start()
    try:
        assert is_up.wait(30)
        yield pooler
    finally:
        pooler.stop()
        thread.join()
