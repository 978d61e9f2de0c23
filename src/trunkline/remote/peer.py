"""What a caller needs of a remote agent."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from trunkline.model.calls import SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Task
from trunkline.protocol.client_responses import StreamItem
from trunkline.remote.target import CARD_PATH, TRANSPORTS, Target

__all__ = ["CARD_PATH", "TRANSPORTS", "Peer", "Peers", "StreamItem", "Target"]


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
