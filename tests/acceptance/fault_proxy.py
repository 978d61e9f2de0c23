"""A proxy that does to answers what networks and broken middleboxes do."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

_HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "host", "keep-alive"}


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
        self._session: aiohttp.ClientSession | None = None

    def _hits(self, name: str) -> bool:
        wanted: float = getattr(self._faults, name)
        self._asked[name] += 1
        # Each happens once at least, whatever chance says.
        is_due = bool(wanted) and self._asked[name] == 20 and not self.done[name]
        hit = is_due or self._chance.random() < wanted
        self.done[name] += hit
        return hit

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        is_card = request.path.endswith(".json")
        if not is_card and not self._hides_ids and self._hits("refuse"):
            cut(request)
            return web.Response()
        assert self._session is not None
        async with self._session.request(
            request.method,
            self.upstream + request.path_qs,
            headers={k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP},
            data=await request.read() or None,
        ) as answer:
            headers = CIMultiDict(
                (k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP
            )
            if self._hides_ids:
                headers.pop("Trunkline-Features", None)
            if answer.content_type != "text/event-stream":
                body = await answer.read()
                if not is_card and not self._hides_ids and self._hits("lose"):
                    cut(request)
                return web.Response(status=answer.status, headers=headers, body=body)
            response = web.StreamResponse(status=answer.status, headers=headers)
            response.enable_chunked_encoding()
            await response.prepare(request)
            # The client may be gone as well.
            with suppress(ConnectionError):
                await self._pass_on(answer, request, response)
            return response

    async def _pass_on(
        self,
        answer: aiohttp.ClientResponse,
        request: web.BaseRequest,
        response: web.StreamResponse,
    ) -> None:
        spares_first = self._hides_ids
        async for frame in _frames(answer):
            if self._hides_ids:
                frame = b"\n".join(
                    line for line in frame.split(b"\n") if not line.startswith(b"id:")
                )
            if not frame.startswith(b":") and not spares_first:
                if self._hits("cut"):
                    cut(request)
                    return
                if self._hits("end"):
                    return
                if self._hits("tear"):
                    await response.write(frame[: self._chance.randrange(1, len(frame))])
                    await asyncio.sleep(0)
                    cut(request)
                    return
                if self._hits("drop"):
                    continue
                if self._hits("garble"):
                    frame = frame[: len(frame) // 2] + b"\xff{garbage" + frame[len(frame) // 2 :]
                elif self._hits("double"):
                    frame += b"\n\n" + frame
                if self._hits("delay"):
                    await asyncio.sleep(0.01)
            spares_first = spares_first and frame.startswith(b":")
            await response.write(frame + b"\n\n")


def cut(request: web.BaseRequest) -> None:
    """The connection breaks, unless the client has left already."""
    if request.transport is not None:
        request.transport.abort()


async def _frames(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    pending = b""
    async for chunk in answer.content.iter_any():
        # a2a-sdk ends its lines with CR and LF.
        *frames, pending = (pending + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for frame in frames:
            yield frame


@asynccontextmanager
async def fault_proxy(
    faults: Faults, *, seed: int = 1, hides_ids: bool = False
) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(faults, seed=seed, hides_ids=hides_ids)
    runner = web.ServerRunner(web.Server(proxy.handle))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        proxy._session = session
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            proxy.url = f"http://{host}:{port}"
            yield proxy
        finally:
            await runner.cleanup()
