"""What a session tells its owner, by `take_events`."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.frames import Header, Reason

# Of both sides.


class Piece(Struct, frozen=True):
    """A piece of the body that the peer sends. The owner calls `consume` when it was read."""

    stream: int
    data: bytes
    is_last: bool


class Writable(Struct, frozen=True):
    """A stream for which `room` was 0 may try again."""

    stream: int


class Cancelled(Struct, frozen=True, kw_only=True):
    """The stream has ended before it was complete."""

    stream: int
    reason: Reason
    text: str
    # Whether the host has certainly not begun with it.
    is_unsent: bool = False


class Draining(Struct, frozen=True):
    """The peer is about to stop."""

    within_s: float
    retry_after_s: float = 0.0


# Of the relay.


class AgentsOffered(Struct, frozen=True):
    """The host has these agents, and no others. The owner answers by `lease`."""

    agents: tuple[str, ...]


class TokenOffered(Struct, frozen=True):
    """The owner checks the token, and calls `renew` or `end`."""

    token: str


class Accepted(Struct, frozen=True):
    """The host has begun with the request."""

    stream: int


class Answered(Struct, frozen=True):
    """The response has begun; pieces of its body follow."""

    stream: int
    status: int
    headers: Sequence[Header]


# Of the host.


class Welcomed(Struct, frozen=True):
    """The relay has taken the connection. Where the session was not resumed, all streams of the
    one before have ended."""

    is_resumed: bool


class Leased(Struct, frozen=True):
    """The agents that can be called now, each with the epoch of its lease."""

    epochs: Mapping[str, int]


class TokenWanted(Struct, frozen=True):
    """The token is about to end. The owner calls `reauthenticate` with a new one."""


class Opened(Struct, frozen=True, kw_only=True):
    """A request; pieces of its body follow."""

    stream: int
    agent: str
    # That of the lease by which the peer has found the agent.
    epoch: int
    caller: Caller
    method: str
    target: str
    headers: Sequence[Header]
    # The id of the task that the mailbox delivers; empty for any other request.
    task: str = ""


_SharedEvent: TypeAlias = Piece | Writable | Cancelled | Draining
RelayEvent: TypeAlias = _SharedEvent | AgentsOffered | TokenOffered | Accepted | Answered
HostEvent: TypeAlias = _SharedEvent | Welcomed | Leased | TokenWanted | Opened
