"""`Backend`: how the runtime runs one turn of the program behind a published agent.

The contract, proved for every backend by `trunkline.testing.check_backend`:

- `start` returns at once; the run happens while its outputs are iterated.
- The iterator ends after an output that ends the turn, or by itself, which means done.
- An exception out of the iterator fails the turn; its text stays in the log.
- After `cancel(run_id)` the iterator ends soon, if the agent can be stopped at all. The
  runtime waits for a short time only, and drops later outputs.
- Several runs may be under way at once; they do not see each other.
- A run that ended with a question or a need of credentials may be held by the backend until
  `start` brings the answer for the same task. `cancel(run_id)` then says that none will come.
- Where `can_resume`, a run outlives its iterator: the runtime closes the iterator without a
  `cancel` when the gateway stops, and the run continues. A later `start` with `is_resumed` and
  the same `run_id`, perhaps in another process, resumes it and reports its output so far as a
  whole (`TextReplaced`, artifacts without `append`), so that no output is doubled.
"""

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from trunkline.model.outputs import Output
from trunkline.model.session import Delivered, MsgContext, ReplyPayload
from trunkline.model.values import Artifact, Message
from trunkline.ports.session_entries import SessionRef


class Notes(Protocol):
    """Texts that a backend keeps for itself. They survive a restart. The gateway forgets a text
    `retention_s` of the agent after its last `keep`."""

    async def recall(self, name: str) -> str | None:
        """The text that the backend kept last under the name."""
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
        """The name of the session for agents that name sessions:
        `agent:{agentId}:a2a:{contextId}`."""
        ...

    @property
    def ref(self) -> SessionRef:
        """The session as the gateway knows it."""
        ...

    @property
    def bound_key(self) -> str:
        """The key that the record of the task names: of another program, or of an earlier
        configuration. Empty where there is no such record."""
        ...

    def context(self) -> MsgContext:
        """The message in the form that the host of a channel takes."""
        ...

    async def transcript(self, *, limit: int = 100) -> tuple[Message, ...]:
        """The last `limit` messages of the session before this task, oldest first.

        The messages of one task stay together, in the order in which the tasks last
        changed. Those of the task itself are in `TurnRequest.history`.
        """
        ...

    async def follow_up(self, payload: ReplyPayload) -> Delivered:
        """Add a reply to the task, in this turn or long after it."""
        ...


class TurnRequest(Struct, frozen=True, kw_only=True):
    """All that a backend may know about the turn that it runs."""

    run_id: str
    agent: str
    # Empty while the run has no task yet (an agent that may answer directly).
    task_id: str
    context_id: str
    message: Message
    # The task's earlier messages, oldest first, without `message` itself.
    history: tuple[Message, ...] = ()
    # The artifacts of earlier turns of the task.
    artifacts: tuple[Artifact, ...] = ()
    principal: str
    tenant: str = ""
    accepted_output_modes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    # Metadata of the request; the message has its own. Never to be trusted.
    metadata: dict[str, Any] | None = None
    # None only where there is no gateway, as in a test of an agent alone.
    session: Session | None = None
    # The run began before a restart. `history` and `artifacts` then hold its own output as
    # well.
    is_resumed: bool = False


class Backend(Protocol):
    # True when an agent may answer with a message and no task. Its runs start before
    # anything is stored, and become a task with their first other output.
    may_reply_directly: bool
    # True when a turn changes nothing outside of itself. The runtime may then start it before
    # the store has its message: if the store refuses the message, the turn leaves no trace.
    # Callers see its output once the store has committed it, as always.
    is_pure: bool
    # True when a run continues without the gateway, and can be resumed after a restart.
    can_resume: bool

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]: ...

    async def cancel(self, run_id: str) -> None:
        """Ask the run to stop. Unknown and finished runs are fine."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Abandons(Protocol):
    """A backend that needs its notes to end a run of an earlier process."""

    async def abandon(self, run_id: str, notes: Notes) -> None:
        """Called in place of `cancel` for a run that waits for an answer which will not come,
        or that was under way before a restart and is not resumed."""
        ...


@runtime_checkable
class NamesSessions(Protocol):
    """A backend whose agents have their own names for sessions."""

    def session_key_of(self, *, agent: str, tenant: str, principal: str, context_id: str) -> str:
        """The name of the session, for `Session.key` and for the records of its tasks."""
        ...


@runtime_checkable
class Opens(Protocol):
    """A backend that begins work before its first turn."""

    async def open(self, agent: str, notes: Notes) -> None:
        """Called once, before the first turn. `agent` is the handle of the published agent, and
        `notes` are those of the agent as a whole. The gateway waits for the call, so it must
        not wait for anything outside."""
        ...


@runtime_checkable
class HasPresence(Protocol):
    """A backend whose agent may be away, for example because it is another process."""

    async def presence(self) -> bool:
        """Whether a turn that began now would reach the agent. It must not start anything, and is
        asked every few seconds at most."""
        ...


class Finding(Struct, frozen=True):
    """One result of a doctor: the check of a backend, or of another configured part."""

    level: Literal["ok", "warning", "error"]
    what: str
    remedy: str = ""
