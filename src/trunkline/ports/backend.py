"""Agents: how the runtime runs one turn of whatever stands behind a published agent.

The contract, proved for every backend by `trunkline.testing.check_backend`:

- `start` returns at once; the run happens while its outputs are iterated.
- The iterator ends after an output that ends the turn, or by itself, which means done.
- An exception out of the iterator fails the turn; its text stays in the log.
- After `cancel(run_id)` the iterator ends soon, if the agent can be stopped at all. The
  runtime does not wait for it for long, and drops whatever comes late.
- Several runs may be under way at once; they do not see each other.
- A run that ended with a question or a need of credentials may be held by the backend until
  `start` brings the answer for the same task. `cancel(run_id)` then says that none will come.
- Where `can_resume`, a run outlives its iterator: one that is closed without a `cancel` was let
  go because the gateway stops, and the run itself goes on. A later `start` with `is_resumed`
  and the same `run_id`, perhaps in another process, picks it up and reports what it has said
  as a whole (`TextReplaced`, artifacts without `append`), so that nothing is doubled.
"""

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from trunkline.model.outputs import Output
from trunkline.model.session import Delivered, MsgContext, ReplyPayload
from trunkline.model.values import Artifact, Message


class Notes(Protocol):
    """Texts that a backend keeps for itself. They survive a restart, and are forgotten when
    they are older than what the agent keeps (`retention_s`), counted from the last `keep`."""

    async def recall(self, name: str) -> str | None:
        """What was kept last under the name."""
        ...

    async def keep(self, name: str, text: str) -> None:
        """Committed when this returns; an empty text forgets. Raises StoreError."""
        ...


class Session(Notes, Protocol):
    """The conversation that a turn belongs to. Costs nothing until it is asked.

    Its notes are seen by the turns of one caller with one agent in one context.
    """

    @property
    def key(self) -> str:
        """Names the session where agents know it by a name, `agent:{agentId}:a2a:{contextId}`."""
        ...

    @property
    def bound_key(self) -> str:
        """The key that the record of the task names: of another program, or of an earlier
        configuration. Empty where there is no such record."""
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
    # The run is under way since before a restart. `history` and `artifacts` then hold what it
    # has said itself, too.
    is_resumed: bool = False


class Backend(Protocol):
    # True when an agent may answer with a message and no task. Its runs start before
    # anything is stored, and become a task with their first other output.
    may_reply_directly: bool
    # True when a turn changes nothing outside of itself. It may then start before its
    # message is stored: should the store refuse, it is as if it had never run. What it
    # says is shown when it is committed, like everything else.
    is_pure: bool
    # True when a run goes on without the gateway, and can be picked up after a restart.
    can_resume: bool

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]: ...

    async def cancel(self, run_id: str) -> None:
        """Ask the run to stop. Unknown and finished runs are fine."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Abandons(Protocol):
    """A backend that needs its notes to end a run of which this process has never heard."""

    async def abandon(self, run_id: str, notes: Notes) -> None:
        """Called in place of `cancel` for a run that waits for an answer which will not come,
        or that was under way before a restart and is not resumed."""
        ...


@runtime_checkable
class NamesSessions(Protocol):
    """A backend whose agents know the sessions by names of their own."""

    def session_key_of(self, *, agent: str, tenant: str, principal: str, context_id: str) -> str:
        """The name of the session, for `Session.key` and for the records of its tasks."""
        ...


@runtime_checkable
class Opens(Protocol):
    """A backend that has something to do from the start on."""

    async def open(self, agent: str, notes: Notes) -> None:
        """Called once, before the first turn; `agent` is the handle it is published under, and
        `notes` are those of the agent as a whole. It does not wait for anything outside, for
        the gateway waits for it."""
        ...


class Finding(Struct, frozen=True):
    """One result of a doctor: the check of a backend, or of another configured part."""

    level: Literal["ok", "warning", "error"]
    what: str
    remedy: str = ""
