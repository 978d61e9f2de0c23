"""What one turn keeps of the task over there, before anything of it is shown."""

from msgspec.structs import replace

from trunkline.backends.a2a import notes
from trunkline.backends.a2a.notes import Ask, Follow, Kept, LookAt
from trunkline.model.values import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.ports.backend import TurnRequest


class Keeping:
    def __init__(self, turn: TurnRequest, context_id: str) -> None:
        """`context_id` is that of the upstream, where nothing else is known."""
        self._turn = turn
        self._name = notes.name_of(turn.run_id)
        self._context_id = context_id
        self._kept = Kept(turn.run_id)
        # Whether the task there is known and kept.
        self.is_known = False

    @property
    def task_id(self) -> str:
        """The upstream's task; empty until it is known."""
        return self._kept.task

    @property
    def context_id(self) -> str:
        return self._kept.context or self._context_id

    async def first(self) -> notes.Next:
        """How the turn begins."""
        turn = self._turn
        # A first turn, by far the most frequent, has nothing to look back on.
        if turn.session is None or not (turn.is_resumed or turn.history):
            return Ask()
        return notes.next_of(notes.read(await turn.session.recall(self._name)), turn.run_id)

    async def named_context(self) -> str:
        """The name that the upstream itself has given to the conversation, if it has."""
        session = self._turn.session
        return (await session.recall("context") or "") if session is not None else ""

    def remember(self, there: Follow | LookAt) -> None:
        """It was kept by an earlier process, or just now."""
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
        """The message is not on its way any more."""
        if self._turn.session is not None and not self._kept.answers:
            await self._turn.session.keep(self._name, "")

    async def waits(self) -> None:
        """The upstream waits for an answer."""
        await self._keep(replace(self._kept, waits=True, answers=False))

    async def know(self, item: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        """Which task it is."""
        self.is_known = True
        task_id = item.id if isinstance(item, Task) else item.task_id
        asked_for, context_id = self.context_id, item.context_id
        await self._keep(replace(self._kept, task=task_id, context=context_id))
        if context_id not in ("", asked_for) and self._turn.session is not None:
            # The upstream names its contexts itself, and wants to be told that name.
            await self._turn.session.keep("context", context_id)

    async def _keep(self, kept: Kept) -> None:
        if kept == self._kept and kept.task:
            return
        self._kept = kept
        if self._turn.session is not None:
            await self._turn.session.keep(self._name, notes.written(kept))
