"""`HttpClient`: requests over keep-alive connections, and their responses."""

import asyncio
import ssl

from trunkline.ports.wire_log import ClientTap, Exchange
from trunkline.remote.errors import PeerUnreachable, RemoteError
from trunkline.remote.http.connector import Connector, Network
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.pool import Pool
from trunkline.remote.http.recorded import RecordedResponse, begin_exchange
from trunkline.remote.http.request import Request
from trunkline.remote.http.response import Answer, Response, took_too_long
from trunkline.remote.target import Limits


class HttpClient:
    def __init__(
        self,
        guard: Guard,
        *,
        tls: ssl.SSLContext | None = None,
        network: Network | None = None,
        tap: ClientTap | None = None,
    ) -> None:
        """`tls` names the trusted certificates, if they are not those of the system. `tap` is that
        of the agent whose backend sends the requests."""
        self._tap = tap
        self._pool = Pool(Connector(guard, tls=tls, network=network))

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(self, request: Request, limits: Limits, *, max_bytes: int) -> Answer:
        """The whole answer. The caller limits the time it may take."""
        response = await self._send(request, limits, max_bytes)
        try:
            content = await response.whole()
        except PeerUnreachable:
            if not (request.is_safe and response.is_stale):
                raise
            response = await self._send(request, limits, max_bytes, is_new=True)
            content = await response.whole()
        return Answer(response.status, response.headers, content)

    async def open(self, request: Request, limits: Limits, *, within_s: float) -> Response:
        """A response to read in pieces: each within `idle_s`, and all of it within `within_s`."""
        ends_at = asyncio.get_running_loop().time() + within_s
        is_new = False
        while True:
            try:
                async with asyncio.timeout_at(ends_at):
                    response = await self._send(request, limits, None, is_new=is_new)
            except TimeoutError:
                raise took_too_long() from None
            response.limit(ends_at=ends_at, idle_s=limits.idle_s)
            try:
                await response.head()
            except BaseException as error:
                response.close()
                is_new = isinstance(error, PeerUnreachable) and response.is_stale
                if not (is_new and request.is_safe):
                    raise
            else:
                return response

    async def _send(
        self, request: Request, limits: Limits, max_bytes: int | None, *, is_new: bool = False
    ) -> Response:
        exchange: Exchange | None = None
        if self._tap is not None and self._tap.recorder is not None:
            exchange = begin_exchange(self._tap, request)
        try:
            connection = await self._pool.take(
                request.origin,
                connect_s=limits.connect_s,
                is_new=is_new,
                is_stream=max_bytes is None,
            )
        except BaseException as error:
            if exchange is not None:
                exchange.end(_why_unsent(error))
            raise
        loop, is_reused = asyncio.get_running_loop(), connection.was_used
        response: Response
        if exchange is None:
            response = Response(loop, max_bytes=max_bytes, is_reused=is_reused)
        else:
            response = RecordedResponse(loop, exchange, max_bytes=max_bytes, is_reused=is_reused)
        connection.send(request, response)
        return response


def _why_unsent(error: BaseException) -> str:
    if isinstance(error, RemoteError):
        return error.message
    return "The gateway gave up before the request was sent."
