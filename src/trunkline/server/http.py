"""`Request` and `Response`: HTTP messages, from our own connections or an ASGI server."""

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from trunkline.model.errors import InvalidRequest, PayloadTooLarge
from trunkline.protocol.limits import query_fields
from trunkline.server.memory_budget import SMALL_BYTES, MemoryBudget

if TYPE_CHECKING:
    from trunkline.server.websocket import Upgrade

Header: TypeAlias = tuple[bytes, bytes]

CONTENT_LENGTH = b"content-length"


class Disconnected(Exception):
    """The client left before its request was read."""


class Request(Struct, eq=False):
    """One HTTP request; the headers are looked up, the body is read when asked for."""

    method: str
    path: str
    # The path as it came, still percent-encoded, where that is known.
    raw_path: bytes | None
    query: bytes
    header_lines: list[Header]
    # The values of the headers by name.
    headers: dict[bytes, bytes]
    # The id of the principal, once it is known.
    caller: str = ""
    # The bytes of a large body that count as held, until its reader calls `release`, and the caller
    # by whom they count.
    held_bytes: int = 0
    holder: str = ""
    # Whether it came over loopback. Our own server listens elsewhere only for callers with keys.
    is_local: bool = True
    # How to make a WebSocket of the request, if it asks for one and its path takes one.
    upgrade: "Upgrade | None" = None
    # The id of its record in the wire log, while its agent is recorded.
    wire_id: str = ""

    @property
    def peer(self) -> str:
        """The address of the other side of the connection, maybe a proxy; empty if it has none."""
        return ""

    @abstractmethod
    async def piece(self) -> tuple[bytes, bool]:
        """The next piece of the body, and whether more may follow. Raises Disconnected."""

    @abstractmethod
    async def disconnected(self) -> None:
        """Wait until the client has left."""

    @abstractmethod
    async def ended(self) -> None:
        """Wait until the client has closed its side of the connection, or has left."""

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def header_list(self, *names: bytes) -> list[str]:
        """The comma-separated values of all headers with one of the names."""
        if not any(name in self.headers for name in names):
            return []
        values = (value for name, value in self.header_lines if name in names)
        items = b",".join(values).decode("latin-1").split(",")
        return [item.strip() for item in items if item.strip()]

    def query_value(self, name: str) -> str | None:
        if not self.query:
            return None
        wanted = name.lower()
        for key, value in query_fields(self.query):
            if key.lower() == wanted:
                return value
        return None

    @property
    def budget(self) -> MemoryBudget | None:
        """What counts the bytes of bodies; None behind an ASGI server, which limits memory
        itself."""
        return None

    def hold(self, size: int) -> None:
        """Count `size` bytes of the body as held. Raises TooManyRequests or Unavailable where
        there is no room."""
        budget = self.budget
        if budget is None or size <= SMALL_BYTES or size <= self.held_bytes:
            return
        # Hold the announced length, so that a body that was admitted once is admitted whole.
        announced = self.headers.get(CONTENT_LENGTH, b"")
        wanted = max(size, int(announced) if announced.isdigit() else 0)
        budget.admit(self.caller, wanted - self.held_bytes)
        budget.hold(self.caller, wanted - self.held_bytes)
        self.holder = self.caller
        self.held_bytes = wanted

    def release(self) -> None:
        """Release the bytes of the body, which is no longer needed."""
        if self.held_bytes:
            budget = self.budget
            assert budget is not None
            budget.release(self.holder, self.held_bytes)
            self.held_bytes = 0

    def whole_body(self, *, limit: int) -> bytes | None:
        """The body, if it has come and is within the limit; None means to await `body`."""
        return None

    async def body(self, *, limit: int) -> bytes:
        """The whole body. Raises PayloadTooLarge as soon as the body exceeds the limit or announces
        to."""
        announced = self.headers.get(CONTENT_LENGTH)
        if announced is not None and announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        body, has_more = await self.piece()
        if len(body) > limit:
            raise _too_large(limit)
        if not has_more:
            return body
        pieces = [body]
        size = len(body)
        while has_more:
            body, has_more = await self.piece()
            size += len(body)
            if size > limit:
                raise _too_large(limit)
            self.hold(size)
            pieces.append(body)
        return b"".join(pieces)


class Response(Struct, kw_only=True, eq=False):
    """An HTTP response: one `answer`, or `begin`, any number of `write`, and `end`.

    All of them do nothing for a client that has left.
    """

    # Whether the head was written; after that, no other answer is possible.
    has_begun: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether the client is known to have left."""
        return False

    def own_headers(self) -> Sequence[Header]:
        """The headers that it adds to every response by itself."""
        return ()

    @abstractmethod
    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        """The whole response. The pieces of the body are joined where they are written."""

    @abstractmethod
    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        """The head of the response. It may wait for the first piece of the body."""

    def admit(self, size: int) -> None:
        """Ask for room before much is written: raises TooManyRequests or Unavailable."""
        # Behind an ASGI server, that server limits memory.
        return

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Send a piece of the body; waits while the client is behind. Asks the memory budget for
        room."""

    @abstractmethod
    async def end(self) -> None: ...


# Answers one request.
Handler: TypeAlias = Callable[[Request, Response], Awaitable[None]]


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The request body is larger than {limit} bytes")


# RFC 3986, 3.2.2, without user information: a name or an address, and maybe a port. Names
# are of letters, digits, `-`, `.` and `_`; no name of the gateway has other characters.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]*))(?::[0-9]*)?")


def hostname_of(header: bytes) -> str:
    """The name or address in a `Host` header, without the port; "" if it is not one."""
    found = _HOST.fullmatch(header.decode("latin-1").strip(" \t").lower())
    return "" if found is None else found[1] or found[2] or ""


def sequence_of(text: str | None) -> int | None:
    """`Last-Event-ID`: the sequence of the last event that the client has."""
    if text is None or not text.strip():
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > 18:
        raise InvalidRequest(
            "Last-Event-ID must be the id of an event of this stream, which is a number"
        )
    return int(text)
