"""What the backend needs of the agent behind it."""

from collections.abc import AsyncGenerator, Callable
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.calls import ListTasksRequest, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Task
from trunkline.protocol.client_responses import StreamItem, TaskPage


class Upstream(Protocol):
    """`trunkline.remote.RemoteAgent` is one. Every method raises RemoteError, nothing else."""

    async def card(self, *, fresh: bool = False) -> AgentCard: ...

    async def send(self, request: SendMessageRequest) -> Task | Message: ...

    def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]: ...

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]: ...

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task: ...

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage: ...

    async def cancel(self, task_id: str) -> Task: ...


# The upstream as it is called with such headers, and within so many seconds (None: as usual).
MakeUpstream: TypeAlias = Callable[[dict[str, str], float | None], Upstream]


class Reach(Struct, frozen=True, kw_only=True):
    """What to do about an upstream that cannot be reached, and what a turn may take."""

    on_unreachable: Literal["fail", "retry"] = "fail"
    retry_s: float = 60.0
    turn_s: float = 1800.0
    max_output_bytes: int = 16 * 1024 * 1024
    # The version that the settings insist on, if they do.
    version: str = ""
