"""Agents: how the runtime runs one turn of whatever stands behind a published agent.

The contract, proved for every backend by `trunkline.testing.check_backend`:

- `start` returns at once; the run happens while its outputs are iterated.
- The iterator ends after an output that ends the turn, or by itself, which means done.
- An exception out of the iterator fails the turn; its text stays in the log.
- After `cancel(run_id)` the iterator ends soon, if the agent can be stopped at all. The
  runtime does not wait for it for long, and drops whatever comes late.
- Several runs may be under way at once; they do not see each other.
"""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from msgspec import Struct

from trunkline.model.follow_ups import Delivered, ReplyPayload
from trunkline.model.outputs import Output
from trunkline.model.session import MsgContext
from trunkline.model.values import Artifact, Message


class Session(Protocol):
    """The conversation that a turn belongs to. Costs nothing until it is asked."""

    @property
    def key(self) -> str:
        """Names the session where agents know it by a name, `agent:{agentId}:a2a:{contextId}`."""
        ...

    def context(self) -> MsgContext:
        """The message as the host of a channel takes it."""
        ...

    async def transcript(self, *, limit: int = 100) -> tuple[Message, ...]:
        """What was said in the session before this task, oldest first, the last `limit`.

        The messages of one task stay together, in the order in which tasks were last
        heard of. Those of the task itself are in `TurnRequest.history`.
        """
        ...

    async def follow_up(self, payload: ReplyPayload) -> Delivered:
        """Say something on the task, in this turn or long after it."""
        ...


class TurnRequest(Struct, frozen=True, kw_only=True):
    """Everything a backend may know about the turn it runs."""

    run_id: str
    agent: str
    # Empty while the run has no task yet (an agent that may answer directly).
    task_id: str
    context_id: str
    message: Message
    # The task's earlier messages, oldest first, without `message` itself.
    history: tuple[Message, ...] = ()
    # What earlier turns of the task produced.
    artifacts: tuple[Artifact, ...] = ()
    principal: str
    tenant: str = ""
    accepted_output_modes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    # Metadata of the request; the message has its own. Never to be trusted.
    metadata: dict[str, Any] | None = None
    # None only where there is no gateway, as in a test of an agent alone.
    session: Session | None = None


class Backend(Protocol):
    # True when an agent may answer with a message and no task. Its runs start before
    # anything is stored, and become a task with their first other output.
    may_reply_directly: bool
    # True when a turn changes nothing outside of itself. It may then start before its
    # message is stored: should the store refuse, it is as if it had never run. What it
    # says is shown when it is committed, like everything else.
    is_pure: bool

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]: ...

    async def cancel(self, run_id: str) -> None:
        """Ask the run to stop. Unknown and finished runs are fine."""
        ...

    async def close(self) -> None: ...
