"""`Shared`: state and limits that the connections of one listener share."""

import asyncio
import sys
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.server.http import Handler
from trunkline.server.memory_budget import MemoryBudget

# Time for a client to read its response when memory is short or the server stops.
SHORT_GRACE_S = 10.0


class OpenConnection(Protocol):
    """A connection of HTTP/1.1, or a WebSocket."""

    def close_if_idle(self, now: float, *, unread_s: float) -> None:
        """Called every second."""

    def abort(self) -> None: ...
    def shutdown(self) -> None:
        """End the connection soon, because the server stops."""


class Shared(Struct, eq=False):
    handler: Handler
    max_header_bytes: int
    budget: MemoryBudget
    body_timeout_s: float
    keep_alive_s: float = 75.0
    max_connections: int = sys.maxsize
    # Whether a WebSocket may be opened at the path. A request to any other path is served over
    # HTTP/1.1, even if it asks for a WebSocket (RFC 9110, 7.8).
    takes_websocket: Callable[[str], bool] = lambda path: False
    # The line of the Date header, which the listener renews.
    date: bytes = b""
    connections: set[OpenConnection] = field(default_factory=set)
    background: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("connections"))
    # Tasks of connections whose client has left, or that a stop has to wait for.
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def close_idle(self, now: float) -> None:
        """Close idle connections. One look at all of them is cheaper than a timer for each
        request."""
        unread_s = SHORT_GRACE_S if self.budget.is_scarce else self.keep_alive_s
        for connection in [*self.connections]:
            connection.close_if_idle(now, unread_s=unread_s)

    def abort_all(self) -> None:
        """Drop the responses that clients have not read by now."""
        for connection in [*self.connections]:
            connection.abort()
