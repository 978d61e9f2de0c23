"""`LongPollSocket`: a connection to a relay that is made of HTTP requests, for networks that let no
WebSocket pass."""

import asyncio
import re
from collections import deque
from typing import Final
from urllib.parse import urlsplit

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, TRY_AGAIN_LATER, WebSocketClosed
from trunkline.protocol.relay.close_codes import OUT_OF_ORDER, Close
from trunkline.protocol.relay.frames import SUBPROTOCOL, Reauth, Violation, decode
from trunkline.protocol.relay.polling import (
    CONNECTIONS_PATH,
    CONTENT_TYPE,
    MAX_BATCH_BYTES,
    Incoming,
    Offer,
    Opened,
    Outgoing,
    Received,
    close_of,
)
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.relay_http import Http
from trunkline.remote.errors import PeerTimeout, RemoteError
from trunkline.remote.http import Answer

# A request that fails is sent again after these times. The session would go on over another
# connection, but that costs a greeting and the bucket of reconnects.
_RETRIES_S: Final = (0.2, 0.5, 1.0, 2.0)
# Time for a request that is answered at once.
_REQUEST_S: Final = 15.0
# A writer waits while the relay has not confirmed this much.
_MAX_HELD_BYTES: Final = MAX_BATCH_BYTES
# Time to deliver what was written before a close.
_CLOSE_S: Final = 2.0
# A poll is answered when there is something, or after a while; others come from a cache.
_SOON_S: Final = 1.0
# A proxy answers so, or the relay behind it is not there.
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_decode_opened: Final = msgspec.json.Decoder(Opened).decode
_decode_received: Final = msgspec.json.Decoder(Received).decode
_NO_RELAY: Final = "the answer is not of a relay"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
# The beginnings of frames, which a connection looks at, and otherwise hands on.
_REAUTH: Final = b'{"frame":"reauth",'
_REAUTHED: Final = b'{"frame":"reauthed",'


class LongPollSocket:
    subprotocol: Final = SUBPROTOCOL

    def __init__(
        self,
        http: Http,
        url: str,
        token: str,
        opened: Opened,
        *,
        clock: Clock,
        tasks: BackgroundTasks,
    ) -> None:
        """`url` is that of the connection. `start` comes before all else."""
        self.closed: WebSocketClosed | None = None
        self.token = token
        # The next requests have it, once the session has renewed it.
        self._offered = ""
        self._http = http
        self._url = url
        self._poll_s = opened.poll_s
        self._clock = clock
        self._tasks = tasks
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._arrived: deque[bytes] = deque()
        self._changes: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._poller = self._tasks.start(self._keep_polling(), name="poll a relay")
        self._poster = self._tasks.start(self._keep_posting(), name="post to a relay")

    async def receive(self) -> bytes:
        while not self._arrived:
            if self.closed is not None:
                raise self.closed
            await self._change()
        message = self._arrived.popleft()
        self._wake()
        if message.startswith(_REAUTHED) and self._offered:
            self.token = self._offered
        return message

    async def send(self, message: str | bytes) -> None:
        while self.closed is None and self._outgoing.bytes >= _MAX_HELD_BYTES:
            await self._change()
        if self.closed is not None:
            raise self.closed
        assert isinstance(message, bytes)
        if message.startswith(_REAUTH):
            self._offered = _token_of(message)
        self._outgoing.add(message)
        self._wake()

    async def close(self, code: int, reason: str) -> None:
        """Deliver what was sent, and then the code."""
        if self.closed is None:
            self.closed = WebSocketClosed(code, reason)
            self._wake()
            await asyncio.shield(self._tasks.start(self._tell(code, reason), name="leave a relay"))

    def drop(self, closed: WebSocketClosed) -> None:
        """Close this end, and tell the relay nothing."""
        if self.closed is None:
            self.closed = closed
            self._wake()
            self._tasks.spawn(self._end(), name="drop a connection to a relay")

    async def _tell(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                while self._outgoing.last > self._outgoing.confirmed and not self._poster.done():
                    await self._change()
                await self._once("DELETE", self._url, msgspec.json.encode(Close(code, reason)))
        except (TimeoutError, RemoteError):
            # The relay notices by itself that it hears nothing.
            return
        finally:
            await self._end()

    async def _end(self) -> None:
        self._poster.cancel()
        self._poller.cancel()
        await self._http.close()

    async def _keep_polling(self) -> None:
        try:
            while True:
                while self._arrived:
                    await self._change()
                asked_at = self._clock.monotonic()
                after = self._incoming.received
                answer = await self._request(
                    "GET",
                    f"{self._url}/frames?after={after}",
                    None,
                    within_s=self._poll_s + _REQUEST_S,
                )
                if answer.media_type != CONTENT_TYPE:
                    # A page of the network, for someone who has to sign in there.
                    raise WebSocketClosed(ABNORMAL, _NO_RELAY)
                new = self._incoming.take(after + 1, answer.body)
                self._arrived.extend(new or ())
                self._wake()
                if not new and self._clock.monotonic() - asked_at < _SOON_S:
                    await self._clock.sleep(_SOON_S)
        except Violation as violation:
            await self.close(violation.close.code, violation.close.reason)
        except WebSocketClosed as closed:
            self.drop(closed)

    async def _keep_posting(self) -> None:
        outgoing = self._outgoing
        try:
            while True:
                while outgoing.last == outgoing.confirmed:
                    await self._change()
                batch, _ = outgoing.batch()
                answer = await self._request(
                    "POST",
                    f"{self._url}/frames?first={outgoing.confirmed + 1}",
                    batch,
                    within_s=_REQUEST_S,
                )
                if not outgoing.confirm(_received(answer)):
                    raise WebSocketClosed(OUT_OF_ORDER, "the relay confirms what was not sent")
                self._wake()
        except WebSocketClosed as closed:
            if closed.code != ABNORMAL:
                # The relay has closed the connection; a poll gets what it sent before that.
                await asyncio.wait((self._poller,), timeout=_CLOSE_S)
            self.drop(closed)

    async def _request(
        self, method: str, url: str, body: bytes | None, *, within_s: float
    ) -> Answer:
        """The answer of the relay; the request is repeated where it got lost. Raises
        WebSocketClosed."""
        closed = WebSocketClosed(ABNORMAL, "")
        for wait_s in (*_RETRIES_S, 0.0):
            retry_after_s = 0.0
            try:
                answer = await self._once(method, url, body, within_s=within_s)
            except RemoteError as error:
                closed = WebSocketClosed(ABNORMAL, error.message)
            else:
                if answer.status == 200:
                    return answer
                close = close_of(answer.body)
                if close is not None and close.code != TRY_AGAIN_LATER:
                    raise WebSocketClosed(close.code, close.reason)
                closed = WebSocketClosed(ABNORMAL, f"status {answer.status}")
                if answer.status not in _PASSING:
                    break
                retry_after_s = _retry_after_s(answer)
            if wait_s:
                await self._clock.sleep(max(wait_s, min(retry_after_s, _RETRIES_S[-1])))
        raise closed

    async def _once(
        self, method: str, url: str, body: bytes | None, *, within_s: float = _REQUEST_S
    ) -> Answer:
        return await _ask(self._http, method, url, self.token, body, within_s=within_s)

    async def _change(self) -> None:
        if self._changes is None or self._changes.done():
            self._changes = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changes)

    def _wake(self) -> None:
        if self._changes is not None and not self._changes.done():
            self._changes.set_result(None)


async def dial_long_poll(
    url: str, token: str, *, http: Http, clock: Clock, tasks: BackgroundTasks
) -> LongPollSocket:
    """A connection to the relay whose WebSocket is at `url`. Raises DialFailed."""
    path = http_url(url)
    offer = msgspec.json.encode(Offer((SUBPROTOCOL,)))
    try:
        answer = await _ask(http, "POST", path, token, offer, within_s=_REQUEST_S)
        opened = _opened(answer)
    except RemoteError as error:
        await http.close()
        raise DialFailed(error.message) from None
    except BaseException:
        await http.close()
        raise
    socket = LongPollSocket(
        http, f"{path}/{opened.connection}", token, opened, clock=clock, tasks=tasks
    )
    socket.start()
    return socket


async def _ask(
    http: Http, method: str, url: str, token: str, body: bytes | None, *, within_s: float
) -> Answer:
    """Raises RemoteError."""
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = CONTENT_TYPE
    try:
        async with asyncio.timeout(within_s):
            return await http.request(method, url, headers, body)
    except TimeoutError:
        raise PeerTimeout("the relay does not answer", reason="CALL_TIMEOUT") from None


def _opened(answer: Answer) -> Opened:
    """Raises DialFailed."""
    if answer.status != 201:
        close = close_of(answer.body) or Close(ABNORMAL, f"no long poll (status {answer.status})")
        raise DialFailed(close.reason, code=close.code, retry_after_s=_retry_after_s(answer))
    try:
        opened = _decode_opened(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DialFailed("what answers there is no relay") from None
    if opened.protocol != SUBPROTOCOL or not _ID.fullmatch(opened.connection):
        raise DialFailed(f"what answers there does not speak {SUBPROTOCOL}")
    return opened


def _token_of(message: bytes) -> str:
    frame, _ = decode(message, max_bytes=len(message))
    assert isinstance(frame, Reauth)
    return frame.token


def _received(answer: Answer) -> int:
    """Raises WebSocketClosed."""
    try:
        return _decode_received(answer.body).received
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebSocketClosed(ABNORMAL, _NO_RELAY) from None


def _retry_after_s(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def http_url(url: str) -> str:
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{CONNECTIONS_PATH}"
