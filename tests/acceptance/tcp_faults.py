"""`TcpFaults`: a proxy that does to connections what networks do, whatever they carry."""

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

_CHUNK_BYTES = 16 * 1024


class Fault(Struct, frozen=True, kw_only=True):
    """What happens to one connection. `up` is the direction of its client."""

    name: str
    # The connection is over once this many bytes have passed in either direction.
    ends_after_bytes: int = 1 << 60
    # How the ends learn of it: by a close, or by a reset.
    is_reset: bool = False
    # Nothing passes any more, and nobody is told: in these directions, after this many bytes.
    silent: tuple[str, ...] = ()
    # So long after that, the connection is reset.
    forgets_s: float = 0.0
    # Each chunk waits; chunks have this size.
    delay_s: float = 0.0
    chunk_bytes: int = _CHUNK_BYTES
    # What the client has sent goes on to the server for this long after the client has lost the
    # connection, and has come back with another one.
    late_s: float = 0.0


NONE = Fault(name="none")


def _kinds(chance: random.Random) -> list[Fault]:
    def size() -> int:
        return int(10 ** chance.uniform(3, 5.5))

    def silent(name: str, *directions: str) -> Fault:
        """Until somebody loses patience, or the network forgets the connection."""
        forgets_s = chance.uniform(0.1, 3)
        return Fault(name=name, ends_after_bytes=size(), silent=directions, forgets_s=forgets_s)

    return [
        Fault(name="cut", ends_after_bytes=size()),
        Fault(name="reset", ends_after_bytes=size(), is_reset=True),
        silent("half-open up", "up"),
        silent("half-open down", "down"),
        silent("silent", "up", "down"),
        Fault(name="delay", ends_after_bytes=size(), delay_s=chance.uniform(0.001, 0.05)),
        Fault(name="trickle", ends_after_bytes=size() // 4, delay_s=0.002, chunk_bytes=200),
        Fault(name="reorder", ends_after_bytes=size(), late_s=chance.uniform(0.05, 0.4)),
    ]


class TcpFaults:
    def __init__(self, upstream_port: int, *, seed: int) -> None:
        self.port = 0
        self.upstream_port = upstream_port
        # Whether the next connections have faults.
        self.is_faulty = True
        self.done: Counter[str] = Counter()
        self._chance = random.Random(seed)
        # Each kind comes once before one of them comes again.
        self._next: list[Fault] = []
        self._serving: set[asyncio.Task[None]] = set()

    def _fault(self) -> Fault:
        if not self.is_faulty:
            return NONE
        if not self._next:
            self._next = _kinds(self._chance)
            self._chance.shuffle(self._next)
        return self._next.pop()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        fault = self._fault()
        self.done[fault.name] += 1
        try:
            server = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        except OSError:
            writer.transport.abort()
            return
        # A server of asyncio reports a cancelled connection as an error.
        with suppress(asyncio.CancelledError):
            await _Passage(fault, (reader, writer), server).run()

    async def cut(self) -> None:
        """Lose all connections at once."""
        await self.close()

    async def close(self) -> None:
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Passage:
    """One connection, through the fault that it has."""

    def __init__(self, fault: Fault, client: _End, server: _End) -> None:
        self._fault = fault
        self._client, self._server = client, server
        self._passed = 0
        self._is_over = asyncio.Event()
        self._forgets: asyncio.TimerHandle | None = None
        # What the client has sent, and the server has not got yet.
        self._late: list[bytes] = []

    async def run(self) -> None:
        fault = self._fault
        (from_client, to_client), (from_server, to_server) = self._client, self._server
        pumps = [
            asyncio.ensure_future(self._pump("up", from_client, to_server)),
            asyncio.ensure_future(self._pump("down", from_server, to_client)),
        ]
        try:
            await self._is_over.wait()
            if fault.late_s:
                to_client.transport.abort()
                await asyncio.sleep(fault.late_s)
                to_server.writelines(self._late)
                await to_server.drain()
        except ConnectionError:
            pass
        finally:
            if self._forgets is not None:
                self._forgets.cancel()
            for pump in pumps:
                pump.cancel()
            for writer in (to_client, to_server):
                _end(writer, is_reset=fault.is_reset)

    async def _pump(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        fault = self._fault
        try:
            while data := await reader.read(fault.chunk_bytes):
                if fault.delay_s:
                    await asyncio.sleep(fault.delay_s)
                is_due = self._passed >= fault.ends_after_bytes
                self._passed += len(data)
                if is_due and direction in fault.silent:
                    if self._forgets is None:
                        loop = asyncio.get_running_loop()
                        self._forgets = loop.call_later(fault.forgets_s, self._is_over.set)
                    continue
                if is_due and fault.late_s and direction == "up":
                    self._late.append(data)
                    self._is_over.set()
                    continue
                if self._passed > fault.ends_after_bytes and not (fault.silent or fault.late_s):
                    # Anywhere within a message.
                    data = data[: max(0, len(data) - self._passed + fault.ends_after_bytes)]
                    writer.write(data)
                    self._is_over.set()
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        self._is_over.set()


def _end(writer: asyncio.StreamWriter, *, is_reset: bool) -> None:
    if is_reset:
        sock = writer.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


@asynccontextmanager
async def tcp_faults(upstream_port: int, *, seed: int) -> AsyncIterator[TcpFaults]:
    proxy = TcpFaults(upstream_port, seed=seed)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
