"""A request as it comes out of a socket."""

import asyncio

from trunkline.server.flow import Flow
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request

# A body that nobody reads is taken in up to here; the rest waits at the client.
MAX_UNREAD_BYTES = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Incoming(Request):
    __slots__ = (
        "_body",
        "_flow",
        "_is_over",
        "_waiter",
        "_waits_since",
        "awaits_continue",
        "is_complete",
        "is_http_1_0",
        "keep_alive",
    )

    def __init__(
        self,
        flow: Flow,
        method: str,
        path: str,
        raw_path: bytes,
        query: bytes,
        header_lines: list[Header],
        headers: dict[bytes, bytes] | None = None,
    ) -> None:
        super().__init__(method, path, raw_path, query, header_lines, headers)
        self._flow = flow
        self._body: bytes | bytearray = b""
        self.is_complete = False
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since: float | None = None
        self.keep_alive = True
        self.is_http_1_0 = False
        # The client sends its body once it is told that somebody wants it.
        self.awaits_continue = False

    def again(self, length: bytes) -> "Incoming":
        """Another request with the same head, but for the length of its body."""
        lines, headers = self.header_lines, self.headers
        if headers[CONTENT_LENGTH] != length:
            lines = [(name, length if name == CONTENT_LENGTH else value) for name, value in lines]
            headers = {**headers, CONTENT_LENGTH: length}
        path, raw_path = self.path, self.raw_path
        assert raw_path is not None
        return Incoming(self._flow, self.method, path, raw_path, self.query, lines, headers)

    @property
    def is_broken(self) -> bool:
        """Nothing more will come of it, and nobody waits for an answer."""
        return self._is_over or self._flow.is_lost

    def whole_body(self, *, limit: int) -> bytes | None:
        # Nearly all bodies are here, and in one piece, when somebody asks for them.
        body = self._body
        # `is_broken`, without the call of a property for every request.
        if not self.is_complete or self._is_over or self._flow.is_lost:
            return None
        if type(body) is not bytes or len(body) > limit:
            return None
        self._body = b""
        return body

    async def piece(self) -> tuple[bytes, bool]:
        if self.awaits_continue:
            self.awaits_continue = False
            self._flow.write(_CONTINUE)
        self._waits_since = self._flow.loop.time()
        while not (self._body or self.is_complete or self.is_broken):
            await self._change()
        self._waits_since = None
        if self.is_broken:
            raise Disconnected
        body, self._body = bytes(self._body), b""
        return body, not self.is_complete

    def is_overdue(self, moment: float) -> bool:
        """Whether the next piece of its body is waited for since then, or longer."""
        return self._waits_since is not None and self._waits_since <= moment

    async def disconnected(self) -> None:
        while not self.is_broken:
            await self._change()

    async def _change(self) -> None:
        """Wait for more of the body, for the end of it, or for the client to leave."""
        self._flow.resume_reading()
        self._waiter = self._flow.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def take(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._body:
            # Most bodies are one piece and stay what they are.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        else:
            self._body = data
        if len(self._body) > MAX_UNREAD_BYTES:
            self._flow.pause_reading()
        if self._waiter is not None:
            self.wake()

    def complete(self) -> None:
        self.is_complete = True
        self.awaits_continue = False
        if self._waiter is not None:
            self.wake()

    def finish(self) -> None:
        """It is answered, or can never be: what still comes of its body is not kept."""
        self._is_over = True
        self._body = b""
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
