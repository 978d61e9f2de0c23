"""`Response`: an HTTP response as it arrives, with its limits; `Answer`: one that is complete."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, RemoteError

SSE: Final = "text/event-stream"
# The buffer of an unread body. Beyond it the connection stops reading, so the peer waits.
MAX_UNREAD_BYTES: Final = 256 * 1024
# The event that the reader of a response waits for.
_Event: TypeAlias = Literal["head", "body", "end"]


def headers_of(lines: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case; several values of a name are joined by commas (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


class Answer(Struct, frozen=True):
    """The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return media_type(self.headers)


def refusal_of(status: int, headers: Mapping[str, str]) -> BadPeerAnswer | None:
    """The error for an answer that the client does not read: a redirect or compressed bytes."""
    if 300 <= status < 400 and status != 304:
        # The operator who configured the target did not choose the new address. The error does
        # not show it: a peer may put our own secrets there. Most redirect to https.
        is_tls = headers.get("location", "").lower().startswith("https://")
        hint = ", which begins with https://" if is_tls else ""
        return BadPeerAnswer(
            f"the agent redirects (status {status}); use the url it redirects to{hint}",
            reason="REDIRECT",
        )
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        return BadPeerAnswer(
            f'the answer is compressed with "{encoding[:32]}", which was not asked for',
            reason="WRONG_TYPE",
        )
    return None


def too_large(max_bytes: int) -> BadPeerAnswer:
    return BadPeerAnswer(f"the answer is larger than {max_bytes} bytes", reason="TOO_LARGE")


def took_too_long() -> PeerTimeout:
    return PeerTimeout("the agent took too long", reason="CALL_TIMEOUT")


class Line(Protocol):
    """The connection that a response comes from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class Response:
    """Filled by a connection, read by one caller, who closes it."""

    # Whether it wants to know the headers as they came.
    is_recorded = False

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, max_bytes: int | None, is_reused: bool
    ) -> None:
        """With `max_bytes` the body is taken in whole, and a larger one is an error."""
        self._loop = loop
        self._max_bytes = max_bytes
        # Whether the connection carried requests before.
        self.is_reused = is_reused
        self._line: Line | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._until: _Event = "head"
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.heard_at = 0.0
        # Whether any byte came, even if there is no status yet.
        self.has_begun = False
        self.is_over = False
        self.error: RemoteError | None = None

    def come_from(self, line: Line) -> None:
        self._line = line
        self.heard_at = self._loop.time()

    def note_head(self, status: int, lines: Sequence[tuple[bytes, bytes]]) -> None:
        """The head as it came, for a response that is recorded."""

    @property
    def is_stale(self) -> bool:
        """The peer had closed the connection before the request, as far as can be told."""
        return self.is_reused and not self.has_begun

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        refusal: RemoteError | None = refusal_of(status, headers)
        if refusal is None and self._max_bytes is not None:
            length = headers.get("content-length", "")
            if length and int(length) > self._max_bytes:
                refusal = too_large(self._max_bytes)
        if refusal is not None:
            self.fail(refusal)
            return
        self.status, self.headers = status, headers
        if self._until == "head":
            self._wake()

    def take(self, data: bytes) -> None:
        if self.is_over:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._max_bytes is not None:
            if self._size > self._max_bytes:
                self.fail(too_large(self._max_bytes))
        elif self._size > MAX_UNREAD_BYTES and self._line is not None:
            self._line.pause()
        if self._until == "body":
            self._wake()

    def complete(self) -> None:
        self.is_over = True
        self._line = None
        self._wake()

    def fail(self, error: RemoteError) -> None:
        """End it, unless it has ended. The reader still gets the bytes that came before."""
        if self.is_over:
            return
        self.error = error
        self._abort()
        self._wake()

    def close(self) -> None:
        """Stop reading. Before the end of the body this also closes the connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._pieces.clear()
        self._abort()

    def _abort(self) -> None:
        self.is_over = True
        line, self._line = self._line, None
        if line is not None:
            line.abort()

    async def head(self) -> None:
        """Wait for status and headers. Raises RemoteError."""
        while not (self.status or self.is_over):
            await self._change("head")
        if self.error is not None and not self.status:
            raise self.error

    async def chunk(self) -> bytes:
        """The next bytes; b"" at the end. Raises PeerUnreachable if the body was cut off."""
        while not (self._pieces or self.is_over):
            await self._change("body")
        data = self._joined()
        self._pieces.clear()
        if self._size > MAX_UNREAD_BYTES and self._line is not None:
            # The peer was silent because it had to wait for this reader.
            self.heard_at = self._loop.time()
            self._line.resume()
        self._size = 0
        if not data and self.error is not None:
            raise self.error
        return data

    async def body(self, max_bytes: int) -> bytes:
        """The rest of the body, or BadPeerAnswer when it is larger."""
        chunks, size = [], 0
        while chunk := await self.chunk():
            size += len(chunk)
            if size > max_bytes:
                raise too_large(max_bytes)
            chunks.append(chunk)
        return b"".join(chunks)

    async def whole(self) -> bytes:
        """The body, once it is complete; a cancelled caller closes it. Raises RemoteError."""
        self._until = "end"
        while not self.is_over:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except BaseException:
                self.close()
                raise
        if self.error is not None:
            raise self.error
        return self._joined()

    def _joined(self) -> bytes:
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _change(self, until: _Event) -> None:
        self._until = until
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def limit(self, *, ends_at: float, idle_s: float) -> None:
        """Fail at `ends_at`, or after a silence of `idle_s`.

        One timer looks from time to time: setting it anew for every piece of a stream would
        cost more than the piece.
        """
        self._ends_at = ends_at
        self._idle_s = idle_s
        self._timer = self._loop.call_at(min(ends_at, self._loop.time() + idle_s), self._look)

    def end_within(self, seconds: float) -> None:
        """Wait no longer than this for the end; the reader has all that it needs."""
        ends_at = self._loop.time() + seconds
        if self._timer is not None and ends_at < self._ends_at:
            self._ends_at = ends_at
            self._timer.cancel()
            self._look()

    def _look(self) -> None:
        now = self._loop.time()
        if self.is_over:
            return
        if now >= self._ends_at:
            self.fail(took_too_long())
            return
        # The peer is not silent while this reader has bytes to read.
        silent_since = now if self._size else self.heard_at
        if now >= silent_since + self._idle_s:
            self.fail(PeerTimeout("the agent is silent for too long", reason="IDLE_TIMEOUT"))
            return
        self._timer = self._loop.call_at(
            min(self._ends_at, silent_since + self._idle_s), self._look
        )
