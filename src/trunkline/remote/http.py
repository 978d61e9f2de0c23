"""Requests and their answers within limits: the only module that knows aiohttp."""

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp
from msgspec import Struct
from yarl import URL

from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.target import Limits
from trunkline.version import VERSION

_CONNECTIONS: Final = 100
_USER_AGENT: Final = f"trunkline/{VERSION}"
SSE: Final = "text/event-stream"


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return media_type(self.headers)


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


class Opened:
    """An answer whose body is still to come. Whoever opened it closes it.

    `deadline` is a time of the loop; without one, somebody else watches the time.
    """

    def __init__(self, response: aiohttp.ClientResponse, deadline: float | None) -> None:
        self._response = response
        self._deadline = deadline
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    async def chunk(self) -> bytes:
        """The next bytes; none at the end. Raises PeerUnreachable for an end that is a cut."""
        try:
            if self._deadline is None:
                return await self._response.content.readany()
            async with asyncio.timeout_at(self._deadline):
                return await self._response.content.readany()
        except _FAILURES as error:
            # The cause may hold the request with its headers.
            raise _translated(error) from None

    async def body(self, max_bytes: int) -> bytes:
        """All of it, or BadPeerAnswer when it is larger."""
        length = self._response.content_length
        if length is not None and length > max_bytes:
            raise _too_large(max_bytes)
        chunks, size = [], 0
        while chunk := await self.chunk():
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(max_bytes)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def end_within(self, seconds: float) -> None:
        """All that matters was read; the end itself is not worth a longer wait."""
        ends_at = asyncio.get_running_loop().time() + seconds
        self._deadline = ends_at if self._deadline is None else min(self._deadline, ends_at)

    def close(self) -> None:
        """Before the end of the body this closes the connection, too."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _too_large(max_bytes: int) -> BadPeerAnswer:
    return BadPeerAnswer(f"the answer is larger than {max_bytes} bytes", reason="TOO_LARGE")


class Http:
    """The keep-alive connections to one peer."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise PeerUnreachable("the connection to the agent was closed by us", reason="CLOSED")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                # What is small on the wire could be anything once unpacked, so it is not asked
                # for, and not unpacked.
                auto_decompress=False,
                headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    async def close(self) -> None:
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

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
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_s)
        opened = await self._request(method, url, headers, body, timeout, None)
        try:
            return Answer(opened.status, opened.headers, await opened.body(max_bytes))
        finally:
            opened.close()

    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        limits: Limits,
        within_s: float,
    ) -> Opened:
        """An answer to read in pieces: each within `idle_s`, and all of it within `within_s`."""
        deadline = asyncio.get_running_loop().time() + within_s
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect_s, sock_read=limits.idle_s
        )
        try:
            async with asyncio.timeout_at(deadline):
                return await self._request(method, url, headers, body, timeout, deadline)
        except TimeoutError as error:
            raise _translated(error) from None

    async def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        times: aiohttp.ClientTimeout,
        deadline: float | None,
    ) -> Opened:
        try:
            response = await self._open_session().request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                timeout=times,
            )
        except _FAILURES as error:
            raise _translated(error) from None
        try:
            _check_head(response)
        except RemoteError:
            response.close()
            raise
        return Opened(response, deadline)


def _check_head(response: aiohttp.ClientResponse) -> None:
    if 300 <= response.status < 400 and response.status != 304:
        # The place it points to was not chosen by whoever chose the target.
        raise BadPeerAnswer(
            f"the agent redirects (status {response.status}); use the url it redirects to",
            reason="REDIRECT",
        )
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        raise BadPeerAnswer(
            f'the answer is compressed with "{encoding[:32]}", which was not asked for',
            reason="WRONG_TYPE",
        )


_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)


def _translated(error: Exception) -> RemoteError:
    """Failures of the network as errors of ours."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return PeerTimeout(
                "connecting to the agent took too long", reason="CONNECT_TIMEOUT", is_unsent=True
            )
        case aiohttp.SocketTimeoutError():
            return PeerTimeout("the agent is silent for too long", reason="IDLE_TIMEOUT")
        case TimeoutError():
            return PeerTimeout("the agent took too long", reason="CALL_TIMEOUT")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return PeerUnreachable(
                "the certificate of the agent is not accepted, or TLS failed",
                reason="TLS_FAILED",
                is_unsent=True,
            )
        case aiohttp.ClientConnectorError():
            why = error.os_error.strerror or "it does not answer"
            return PeerUnreachable(f"cannot connect to the agent: {why}", is_unsent=True)
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | OSError():
            return PeerUnreachable("the connection broke off", reason="CONNECTION_LOST")
        case aiohttp.ClientResponseError():
            return BadPeerAnswer("the agent does not answer in HTTP", reason="NOT_HTTP")
        case _:
            return BadPeerAnswer("the url of the interface is not valid", reason="BAD_CARD")
