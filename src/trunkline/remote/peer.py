"""What a caller needs of a remote agent, and where that agent is."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.calls import SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

CARD_PATH: Final = "/.well-known/agent-card.json"
TRANSPORTS: Final = ("JSONRPC", "HTTP+JSON")

StreamItem: TypeAlias = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class Target(Struct, frozen=True, kw_only=True):
    """Where an agent is and how it wants to be called."""

    url: str
    card_path: str = CARD_PATH
    # In order of preference.
    transports: tuple[str, ...] = TRANSPORTS
    alias: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    default: bool = False
    headers: Mapping[str, str] = {}


class Peer(Protocol):
    """One remote agent. Values are those of A2A 1.0, whatever the agent itself speaks.

    Every method raises RemoteError, and nothing else, when the agent is at fault.
    """

    async def card(self, *, fresh: bool = False) -> AgentCard: ...

    async def send(self, request: SendMessageRequest) -> Task | Message: ...

    def stream(self, request: SendMessageRequest) -> AsyncIterator[StreamItem]: ...

    def subscribe(self, task_id: str) -> AsyncIterator[StreamItem]: ...

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task: ...

    async def cancel(self, task_id: str) -> Task: ...


class Peers(Protocol):
    """All remote agents: one pool of connections and one cached card for each."""

    def at(
        self, target: Target, *, headers: Mapping[str, str] = ..., timeout_s: float = ...
    ) -> Peer:
        """`headers` go with every request, after those of the target itself."""
        ...

    async def close(self) -> None: ...
