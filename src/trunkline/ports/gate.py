"""`Gate`: decides whether a message may start a turn, and learns how each turn ended.

Every message that asks for a turn passes the one gate of the gateway exactly once, whichever way it
came in. Messages of one lane pass it in the order of their arrival.
"""

from typing import Protocol

from msgspec import Struct

from trunkline.model.calls import Refusal
from trunkline.model.principal import Principal
from trunkline.model.values import Message, TaskState
from trunkline.ports.records import Group


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


class Usage(Struct, frozen=True):
    # The state in which the turn leaves its task; of a turn without a task, whether it succeeded.
    # WORKING means that the turn continues after a restart of the gateway.
    state: TaskState
    # None for a turn that did not start.
    ran_ms: int | None


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
