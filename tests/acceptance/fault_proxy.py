"""A proxy that does to answers what networks and broken middleboxes do."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.remote.http.peer import answer, client, peer

from trunkline.remote import Limits, RemoteError
from trunkline.remote.http import SSE, HttpClient, Response, build_request

_HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "host", "keep-alive"}
_LIMITS = Limits(call_s=3600, idle_s=3600)


@dataclass(frozen=True)
class Faults:
    """How likely each is: per request, and per event of a stream."""

    refuse: float = 0.0  # the connection is closed, and nobody has seen the request
    lose: float = 0.0  # the request arrives, and the answer does not
    cut: float = 0.0  # the stream ends here, without its end
    end: float = 0.0  # the stream ends here as if it were complete
    tear: float = 0.0  # the stream ends within an event
    double: float = 0.0
    drop: float = 0.0
    garble: float = 0.0
    delay: float = 0.0


class FaultProxy:
    """Listens before the upstream exists, so that the upstream can name it in its cards."""

    def __init__(self, faults: Faults, *, seed: int, hides_ids: bool = False) -> None:
        self.url = ""
        self.upstream = ""
        self.done: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._faults = faults
        self._chance = random.Random(seed)
        # As for an agent that gives no ids and honours no keys.
        self._hides_ids = hides_ids
        self._http: HttpClient | None = None

    def _hits(self, name: str) -> bool:
        wanted: float = getattr(self._faults, name)
        self._asked[name] += 1
        # Each happens once at least, whatever chance says.
        is_due = bool(wanted) and self._asked[name] == 20 and not self.done[name]
        hit = is_due or self._chance.random() < wanted
        self.done[name] += hit
        return hit

    async def handle(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        is_faulty = not path.endswith(".json") and not self._hides_ids
        if is_faulty and self._hits("refuse"):
            writer.transport.abort()
            return
        assert self._http is not None
        made = build_request(method, self.upstream + path, _passed_on(headers), body or None)
        try:
            response = await self._http.open(made, _LIMITS, within_s=3600)
        except RemoteError:
            writer.transport.abort()
            return
        try:
            await self._respond(response, writer, is_faulty=is_faulty)
        except (RemoteError, ConnectionError):
            # The client may be gone as well.
            writer.transport.abort()
        finally:
            response.close()

    async def _respond(
        self, response: Response, writer: asyncio.StreamWriter, *, is_faulty: bool
    ) -> None:
        headers = _passed_on(response.headers)
        if self._hides_ids:
            headers.pop("trunkline-features", None)
        lines = [f"{name}: {value}".encode() for name, value in headers.items()]
        status = b"%d Status" % response.status
        if response.media_type != SSE:
            body = await response.body(1 << 30)
            if is_faulty and self._hits("lose"):
                writer.transport.abort()
            else:
                writer.write(answer(body, *lines, status=status))
            return
        head = [b"HTTP/1.1 " + status, *lines, b"Transfer-Encoding: chunked"]
        writer.write(b"\r\n".join(head) + b"\r\n\r\n")
        if await self._pass_on(response, writer):
            await _write_chunk(writer, b"")

    async def _pass_on(self, response: Response, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection is to be used further."""
        spares_first = self._hides_ids
        async for frame in _frames(response):
            if self._hides_ids:
                frame = b"\n".join(
                    line for line in frame.split(b"\n") if not line.startswith(b"id:")
                )
            if not frame.startswith(b":") and not spares_first:
                if self._hits("cut"):
                    writer.transport.abort()
                    return False
                if self._hits("end"):
                    return True
                if self._hits("tear"):
                    await _write_chunk(writer, frame[: self._chance.randrange(1, len(frame))])
                    await asyncio.sleep(0)
                    writer.transport.abort()
                    return False
                if self._hits("drop"):
                    continue
                if self._hits("garble"):
                    frame = frame[: len(frame) // 2] + b"\xff{garbage" + frame[len(frame) // 2 :]
                elif self._hits("double"):
                    frame += b"\n\n" + frame
                if self._hits("delay"):
                    await asyncio.sleep(0.01)
            spares_first = spares_first and frame.startswith(b":")
            await _write_chunk(writer, frame + b"\n\n")
        return True


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


async def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


async def _frames(response: Response) -> AsyncIterator[bytes]:
    pending = b""
    while chunk := await response.chunk():
        # a2a-sdk ends its lines with CR and LF.
        *frames, pending = (pending + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for frame in frames:
            yield frame


@asynccontextmanager
async def fault_proxy(
    faults: Faults, *, seed: int = 1, hides_ids: bool = False
) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(faults, seed=seed, hides_ids=hides_ids)
    async with client() as proxy._http, peer(proxy.handle) as listening:
        proxy.url = listening.url.removesuffix("/rpc")
        yield proxy
