"""A request as it comes out of a socket."""

import asyncio

from trunkline.model.errors import RequestTimedOut
from trunkline.server.flow_control import FlowControl
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request
from trunkline.server.memory_budget import MIN_RATE_BYTES, SMALL_BYTES, MemoryBudget

# A body that nobody reads is taken in up to here; the rest waits at the client.
MAX_UNREAD_BYTES = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Incoming(Request):
    __slots__ = (
        "_begun_at",
        "_body",
        "_budget",
        "_flow",
        "_holder",
        "_is_late",
        "_is_over",
        "_received_bytes",
        "_waiter",
        "awaits_continue",
        "is_complete",
        "is_http_1_0",
        "keep_alive",
    )

    def __init__(
        self,
        flow: FlowControl,
        method: str,
        path: str,
        raw_path: bytes,
        query: bytes,
        header_lines: list[Header],
        headers: dict[bytes, bytes] | None = None,
        *,
        budget: MemoryBudget,
    ) -> None:
        super().__init__(method, path, raw_path, query, header_lines, headers)
        self._flow = flow
        self._budget = budget
        self._holder = ""
        self._body: bytes | bytearray = b""
        self.is_complete = False
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        # When somebody first waited for the body, and how much of it came since.
        self._begun_at: float | None = None
        self._received_bytes = 0
        self._is_late = False
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
        return Incoming(
            self._flow,
            self.method,
            path,
            raw_path,
            self.query,
            lines,
            headers,
            budget=self._budget,
        )

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
        if self._begun_at is None:
            self._begun_at = self._flow.loop.time()
        while not (self._body or self.is_complete or self.is_broken or self._is_late):
            await self._change()
        if self.is_broken:
            raise Disconnected
        if self._is_late:
            # What is left of it may still come, and is not another request.
            self.keep_alive = False
            raise RequestTimedOut("The body of the request came too slowly; send it again")
        body, self._body = bytes(self._body), b""
        self._received_bytes += len(body)
        return body, not self.is_complete

    def expire_before(self, moment: float) -> None:
        """Wait no longer for a body that should be here by then, for its size so far."""
        if self._begun_at is None or self.is_complete:
            return
        if self._begun_at + self._received_bytes / MIN_RATE_BYTES <= moment:
            self._is_late = True
            self.wake()

    def hold(self, size: int) -> None:
        if size <= SMALL_BYTES or size <= self.held_bytes:
            return
        # All that is announced, so that a body that was let in once is let in whole.
        wanted = max(size, int(self.headers.get(CONTENT_LENGTH, 0)))
        self._budget.admit(self.caller, wanted - self.held_bytes)
        self._budget.hold(self.caller, wanted - self.held_bytes)
        self._holder = self.caller
        self.held_bytes = wanted

    def release(self) -> None:
        if self.held_bytes:
            self._budget.release(self._holder, self.held_bytes)
            self.held_bytes = 0

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
        if self.held_bytes:
            self.release()
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
