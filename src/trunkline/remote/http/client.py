"""Requests, and what comes back."""

import asyncio
import ssl
from collections.abc import Mapping

from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.http.connector import Connector, Network
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.pool import Pool
from trunkline.remote.http.request import Request, build_request
from trunkline.remote.http.response import (
    Answer,
    Exchange,
    Patience,
    media_type,
    too_large,
    took_too_long,
)
from trunkline.remote.target import Limits


class StreamedResponse:
    """An answer whose body is still to come. Whoever opened it closes it."""

    def __init__(self, exchange: Exchange, patience: Patience) -> None:
        self._exchange = exchange
        self._patience = patience
        self.status = exchange.status
        self.headers = exchange.headers

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    async def chunk(self) -> bytes:
        """The next bytes; none at the end. Raises PeerUnreachable for an end that is a cut."""
        return await self._exchange.piece()

    async def body(self, max_bytes: int) -> bytes:
        """All of it, or BadPeerAnswer when it is larger."""
        chunks, size = [], 0
        while chunk := await self.chunk():
            size += len(chunk)
            if size > max_bytes:
                raise too_large(max_bytes)
            chunks.append(chunk)
        return b"".join(chunks)

    def end_within(self, seconds: float) -> None:
        """All that matters was read; the end itself is not worth a longer wait."""
        self._patience.end_within(seconds)

    def close(self) -> None:
        """Before the end of the body this closes the connection, too."""
        self._patience.stop()
        self._exchange.leave()


class HttpClient:
    """The keep-alive connections to one peer."""

    def __init__(
        self, guard: Guard, *, tls: ssl.SSLContext | None = None, network: Network | None = None
    ) -> None:
        """`tls` names the trusted certificates, if they are not those of the system."""
        self._pool = Pool(Connector(guard, tls=tls, network=network))

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        limits: Limits,
        max_bytes: int,
    ) -> Answer:
        """The whole answer. How long it may take is up to the caller."""
        request = build_request(method, url, headers, body)
        exchange = await self._send(request, limits, max_bytes)
        try:
            content = await exchange.whole()
        except PeerUnreachable:
            if not (request.is_safe and exchange.is_stale):
                raise
            exchange = await self._send(request, limits, max_bytes, is_new=True)
            content = await exchange.whole()
        return Answer(exchange.status, exchange.headers, content)

    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        limits: Limits,
        within_s: float,
    ) -> StreamedResponse:
        """An answer to read in pieces: each within `idle_s`, and all of it within `within_s`."""
        ends_at = asyncio.get_running_loop().time() + within_s
        return await self._open(build_request(method, url, headers, body), limits, ends_at)

    async def _open(
        self, request: Request, limits: Limits, ends_at: float, *, is_new: bool = False
    ) -> StreamedResponse:
        try:
            async with asyncio.timeout_at(ends_at):
                exchange = await self._send(request, limits, None, is_new=is_new)
        except TimeoutError:
            raise took_too_long() from None
        patience = Patience(exchange, ends_at=ends_at, idle_s=limits.idle_s)
        try:
            await exchange.head()
        except BaseException as error:
            patience.stop()
            exchange.leave()
            if isinstance(error, PeerUnreachable) and request.is_safe and exchange.is_stale:
                return await self._open(request, limits, ends_at, is_new=True)
            raise
        return StreamedResponse(exchange, patience)

    async def _send(
        self, request: Request, limits: Limits, max_bytes: int | None, *, is_new: bool = False
    ) -> Exchange:
        connection = await self._pool.take(
            request.origin,
            connect_s=limits.connect_s,
            is_new=is_new,
            is_stream=max_bytes is None,
        )
        exchange = Exchange(
            asyncio.get_running_loop(), max_bytes=max_bytes, is_reused=connection.was_used
        )
        connection.send(request, exchange)
        return exchange
