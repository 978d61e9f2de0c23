"""`Gate`: decides whether a message may start a turn, and learns how each turn ended.

Every message that asks for a turn passes the one gate of the gateway exactly once, whichever way it
came in. Messages of one lane pass it in the order of their arrival.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from trunkline.model.calls import Refusal
from trunkline.model.errors import LimitReached
from trunkline.model.principal import Principal
from trunkline.model.values import Message, TaskState
from trunkline.ports.records import Add, Change, Group


class Attempt(Struct, frozen=True, kw_only=True):
    """A message that asks for a turn. It fits the rules of the protocol and of the agent, unless it
    was denied before they were asked."""

    id: str
    at_ms: int
    principal: Principal
    tenant: str
    # The handle of the agent.
    agent: str
    # Those of a new task, or of the task that the message continues.
    task_id: str
    context_id: str
    is_follow_up: bool
    message: Message
    # Those of the request, where they are known, such as `SendMessage` and `jsonrpc`.
    operation: str = ""
    binding: str = ""
    # The handle of the agent that asks, for a call of one agent of the gateway to another.
    asked_by: str = ""


# The changes for what a turn has used, by the metadata of its end.
Settles: TypeAlias = Callable[[Mapping[str, Any]], tuple[Change, ...]]


class Admission(Struct, frozen=True):
    """The message may start a turn."""

    # Changes of records, for example the use of a budget. The commit that creates the task carries
    # them, so a message with changes always makes a task. A message that continues a task has
    # them committed right before it: its commit may hold output of the turn under way, which no
    # budget may stop.
    also: tuple[Group, ...] = ()
    # The answer where a count in a required group would exceed its limit: others were faster.
    if_limited: Refusal = Refusal(
        "limit_reached", "A limit of the agent is reached; try again later"
    )
    # The same by the key of the record, in place of `if_limited`.
    why_limited: Callable[[Hashable], Refusal] | None = None
    # The counts that give back what `also` took. The commit that ends the task before its first
    # turn has begun carries them.
    returns: tuple[Add, ...] = ()
    # The changes for what a turn has used, by the metadata of its end. The commit of the end
    # carries them; they are optional.
    settles: Settles | None = None

    def refusal(self, error: LimitReached) -> Refusal:
        """The answer where the store found a limit reached."""
        return self.if_limited if self.why_limited is None else self.why_limited(error.key)


class Usage(Struct, frozen=True):
    # The state in which the turn leaves its task; of a turn without a task, whether it succeeded.
    # WORKING means that the turn continues after a restart of the gateway.
    state: TaskState
    # None for a turn that did not start.
    ran_ms: int | None
    # Why the store refused the changes of the admission, which others were faster to make.
    refusal: Refusal | None = None


class Gate(Protocol):
    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        """Decide about the turn. The caller waits, and so do later messages of the same lane: the
        gate must not send one itself. After 30 seconds the message is refused.

        A refused message becomes a task that is rejected, or an error, as the profile says. A
        TrunklineError goes to the client as it is. For another error the client is told to try
        again later.
        """
        ...

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        """Called once for each attempt: admitted, or refused by grants, a queue or this gate.

        It must not wait. An error is logged and changes nothing.
        """
        ...

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        """Called once for each attempt that was admitted: the turn has ended, or did not begin.

        A turn that a restart interrupted is not settled: memory is gone, and the records that were
        committed with its task tell that it was admitted. It must not wait. An error is logged and
        changes nothing.
        """
        ...


@runtime_checkable
class DecidesAtOnce(Protocol):
    """A gate that can decide about most turns from memory."""

    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        """The same as `admit`, without waiting; None where only `admit` can tell."""
        ...
