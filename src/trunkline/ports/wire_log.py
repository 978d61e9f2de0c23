"""`WireRecord`: one HTTP exchange or WebSocket as its bytes passed the gateway, and the ports by
which the server and the outbound client have it recorded.

An agent is recorded only while an operator asks for it. Until then its endpoints have no `Tap` and
its connections no `Recorder`, and a request costs no more than a look at that.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from trunkline.ports.clock import Clock

Side: TypeAlias = Literal["server", "client"]
Binding: TypeAlias = Literal["jsonrpc", "rest", "websocket", "http"]
Direction: TypeAlias = Literal["in", "out"]
# As they came or went, in their order.
HeaderLines: TypeAlias = Sequence[tuple[bytes, bytes]]


class WireSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """One exchange in a list. Texts that are not known are empty."""

    id: str
    side: Side
    agent: str
    at: str
    ms: float | None
    operation: str
    binding: Binding
    version: str
    http_method: str
    url: str
    peer: str
    status: int | None
    request_bytes: int
    response_bytes: int
    events: int
    task_id: str
    context_id: str
    principal: str
    parent: str
    error: str
    # What the gateway did to the answer because an operator asked for a fault.
    fault: str


class WireBody(Struct, frozen=True, kw_only=True):
    """A body as text, or in base64 if it is not UTF-8. `size` is that of the whole body."""

    size: int
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class WireFrame(Struct, frozen=True, kw_only=True, rename="camel"):
    """A server-sent event, or a message of a WebSocket."""

    ms: float
    direction: Direction
    data: str
    size: int
    event_id: str = ""
    event: str = ""
    # Of a message that a turn sent over a WebSocket, which several turns share.
    task_id: str = ""
    parent: str = ""
    # Whether it is there only because of a fault.
    is_injected: bool = False


class WireRecord(WireSummary, frozen=True, kw_only=True, rename="camel"):
    """One exchange with all that was kept of it."""

    # Pairs of a name and a value.
    request_headers: list[list[str]]
    request_body: WireBody
    # Whether a body or a frame was longer than what is kept of it.
    truncated: bool
    response_headers: list[list[str]]
    response_body: WireBody
    frames: list[WireFrame]
    # The frames that were left out, and the number of those in `frames` that came before them.
    frames_left_out: int
    frames_before_gap: int


class Start(Struct, frozen=True, kw_only=True):
    """What is known of an exchange when it begins."""

    side: Side
    agent: str
    binding: Binding
    http_method: str
    url: str
    peer: str
    headers: HeaderLines
    task_id: str = ""
    context_id: str = ""
    parent: str = ""


class Exchange(Protocol):
    """An exchange that is being recorded. None of its methods raises or waits."""

    @property
    def id(self) -> str: ...

    def name(self, *, operation: str, version: str, principal: str) -> None:
        """Say what the request turned out to be."""

    def take_request(self, data: bytes) -> None:
        """Add a piece of the body of the request."""

    def begin_response(self, status: int, headers: HeaderLines) -> None: ...

    def take_response(self, data: bytes, *, is_injected: bool = False) -> None:
        """Add a piece of the body of the response, or of a stream of events."""

    def take_message(
        self, data: str | bytes, direction: Direction, *, task_id: str = "", parent: str = ""
    ) -> None:
        """Add a message of a WebSocket."""

    def note_fault(self, text: str) -> None: ...

    def end(self, error: str = "") -> None:
        """Nothing follows. Only the first call counts."""


class Recorder(Protocol):
    """The wire log, as the parts at the edge see it."""

    def begin(self, start: Start) -> Exchange | None:
        """None where it cannot be recorded. Never raises."""


class Fault(Struct, frozen=True, kw_only=True):
    """A fault that operators inject into the answers of an agent."""

    # Before an answer, and before each write of a stream.
    delay_ms: int = 0
    # Close the connection after this many events of a stream; None never does.
    cut_after_events: int | None = None
    # Send every Nth event twice; 0 never does.
    duplicate_every: int = 0


class Injection(Struct, eq=False):
    """A fault as long as it is in force; streams under way look at it before each write."""

    until_ms: int
    fault: Fault | None


class Tap(Struct, frozen=True, kw_only=True, eq=False):
    """What an endpoint has while its exchanges are recorded or get faults."""

    agent: str
    clock: Clock
    # None while it has a fault alone.
    recorder: Recorder | None = None
    injection: Injection | None = None


class ClientTap(Struct, kw_only=True, eq=False, weakref=True):
    """What the connections of one agent's backend look at before each request."""

    agent: str
    # None while nothing is recorded.
    recorder: Recorder | None = None
