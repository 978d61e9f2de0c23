"""`TurnNotes`: the upstream task of a turn, kept so that a restart finds it again."""

from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.values import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.ports.backend import TurnRequest


class Kept(Struct, frozen=True, omit_defaults=True):
    """The note of one task: its last run that called the upstream, and the upstream's task."""

    # Written before the run sends its message: without a task, the message may have arrived.
    run: str
    task: str = ""
    context: str = ""
    # The upstream waits for an answer.
    waits: bool = False
    # The run answers a question that the upstream asked in an earlier run.
    answers: bool = False


class Ask(Struct, frozen=True):
    """Send the message: to a task that waits for an answer (`task`), or as a new task that
    refers to the one before (`after`)."""

    task: str = ""
    context: str = ""
    after: str = ""


class Follow(Struct, frozen=True):
    """The upstream has the message; follow its task."""

    task: str
    context: str


class LookFor(Struct, frozen=True):
    """The message may have arrived; look for it among the upstream's tasks."""

    context: str = ""


class LookAt(Struct, frozen=True):
    """The answer may have arrived; read the upstream's task to find out."""

    task: str
    context: str


Next: TypeAlias = Ask | Follow | LookFor | LookAt

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


def task_of(run_id: str) -> str:
    """The task of a run, also before the task exists."""
    return run_id.partition(".")[0]


def name_of(run_id: str) -> str:
    return f"task {task_of(run_id)}"


def written(kept: Kept) -> str:
    return _encode(kept).decode()


def read(text: str | None) -> Kept | None:
    if not text:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return None


def next_of(kept: Kept | None, run_id: str) -> Next:
    """The first step of a turn, by the note of its task."""
    if kept is None:
        return Ask()
    if kept.run != run_id:
        # An earlier turn of the task wrote the note: it asked a question, or it has ended.
        if kept.waits:
            return Ask(task=kept.task, context=kept.context)
        return Ask(context=kept.context, after=kept.task)
    if not kept.task:
        return LookFor(kept.context)
    if kept.answers:
        return LookAt(kept.task, kept.context)
    return Follow(kept.task, kept.context)


class TurnNotes:
    def __init__(self, turn: TurnRequest, context_id: str) -> None:
        """`context_id` is the upstream's context until the upstream names another."""
        self._turn = turn
        self._name = name_of(turn.run_id)
        self._context_id = context_id
        self._kept = Kept(turn.run_id)
        # Whether the note names the upstream's task.
        self.is_known = False

    @property
    def task_id(self) -> str:
        """The upstream's task; empty until it is known."""
        return self._kept.task

    @property
    def context_id(self) -> str:
        return self._kept.context or self._context_id

    async def first(self) -> Next:
        """The first step of the turn."""
        turn = self._turn
        # A first turn, by far the most frequent, has no note, so it needs no read.
        if turn.session is None or not (turn.is_resumed or turn.history):
            return Ask()
        return next_of(read(await turn.session.recall(self._name)), turn.run_id)

    async def named_context(self) -> str:
        """The context id that the upstream gave to the conversation; empty if it gave none."""
        session = self._turn.session
        return (await session.recall("context") or "") if session is not None else ""

    def remember(self, there: Follow | LookAt) -> None:
        """Take the upstream's task from the note, which an earlier process or this one wrote."""
        self._kept = replace(self._kept, task=there.task, context=there.context)
        self.is_known = True

    def look_in(self, context_id: str) -> None:
        """An earlier process sent the message there."""
        self._kept = replace(self._kept, context=context_id)

    async def sends(self, ask: Ask) -> None:
        """The message is about to be sent."""
        await self._keep(
            replace(self._kept, task=ask.task, context=ask.context, answers=bool(ask.task))
        )

    async def take_back(self) -> None:
        """Delete the note, because the message was not delivered."""
        if self._turn.session is not None and not self._kept.answers:
            await self._turn.session.keep(self._name, "")

    async def waits(self) -> None:
        """The upstream waits for an answer."""
        await self._keep(replace(self._kept, waits=True, answers=False))

    async def know(self, item: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        """Keep the upstream's task, which its first event names."""
        self.is_known = True
        task_id = item.id if isinstance(item, Task) else item.task_id
        asked_for, context_id = self.context_id, item.context_id
        await self._keep(replace(self._kept, task=task_id, context=context_id))
        if context_id not in ("", asked_for) and self._turn.session is not None:
            # The upstream chose its own context id, and expects it in later messages.
            await self._turn.session.keep("context", context_id)

    async def _keep(self, kept: Kept) -> None:
        if kept == self._kept and kept.task:
            return
        self._kept = kept
        if self._turn.session is not None:
            await self._turn.session.keep(self._name, written(kept))
