"""`ListsCalls` and `ListsSessions`: the calls and sessions that a caller may look at.

Everyone sees their own, and operators those of all callers. What a caller may not see is as unknown
as what does not exist.
"""

from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from trunkline.model.principal import Principal
from trunkline.model.values import Message

CallStatus: TypeAlias = Literal[
    "pending", "completed", "error", "input_required", "timeout", "discarded"
]


class CallView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call of one agent to another."""

    id: str
    agent: str
    session: str
    principal: str
    tenant: str
    callee: str
    skill: str
    tool: str
    status: CallStatus
    task_id: str
    caller_task_id: str
    created_at: str
    timeout_ms: int
    # None while it is pending.
    ended_at: str | None
    parent: str
    depth: int


class CallDetails(CallView, frozen=True, kw_only=True, rename="camel"):
    # What was delivered, as JSON; None while it is pending, and for a call that was discarded.
    result: Any = None


class CallFilter(Struct, frozen=True, kw_only=True):
    # Each of these narrows the list, unless it is empty.
    agent: str = ""
    callee: str = ""
    status: CallStatus | None = None
    principal: str = ""
    tenant: str = ""
    # Continue after the call with this id.
    after: str = ""
    limit: int = 50


class ListsCalls(Protocol):
    async def page(self, wanted: CallFilter, *, by: Principal) -> tuple[list[CallView], str]:
        """Calls under way, and those that ended so recently that their outcome is kept, the last
        one first; and the `after` of the next page, which is empty on the last one. Raises
        StoreError."""
        ...

    async def of_task(self, task_id: str, *, by: Principal) -> list[CallView]:
        """The calls that the task answers and those that its turns have made, as far as their
        records are kept; at most 400. Raises StoreError."""
        ...

    async def find(self, id: str, *, by: Principal) -> CallDetails:
        """Raises RouteNotFound and StoreError."""
        ...


class SessionView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The conversation of a caller with an agent."""

    key: str
    agent: str
    principal: str
    tenant: str
    # Empty where all contexts of the caller are one conversation.
    context_id: str
    # Among the latest of the agent.
    tasks: int
    entries: int
    changed_at: str


class SessionName(Struct, frozen=True, kw_only=True):
    """A session by its key. The others are needed where several sessions have the same one."""

    key: str
    agent: str = ""
    principal: str = ""
    tenant: str = ""


class SessionFilter(Struct, frozen=True, kw_only=True):
    # Each of these narrows the list, unless it is empty.
    agent: str = ""
    principal: str = ""
    # Sessions of callers without a tenant have an empty one.
    tenant: str = ""
    # Continue after the session that the earlier page named here.
    after: str = ""
    limit: int = 50


class ListsSessions(Protocol):
    async def page(self, wanted: SessionFilter, *, by: Principal) -> tuple[list[SessionView], str]:
        """Sessions that were not ended, the one that changed last first; and the `after` of the
        next page, which is empty on the last one. Raises InvalidParams and StoreError."""
        ...

    async def transcript(
        self, name: SessionName, *, limit: int, by: Principal
    ) -> tuple[Message, ...]:
        """The last messages, the oldest first. Raises RouteNotFound, Conflict and StoreError."""
        ...

    async def end(self, name: SessionName, *, by: Principal) -> int:
        """End the session. Returns the number of calls that were discarded. Raises RouteNotFound,
        PermissionDenied, Conflict and StoreError."""
        ...
