"""One turn of an agent, from the queue to its end."""

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from trunkline.engine.late_output import LateOutput
from trunkline.engine.promotion import Staging
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.errors import TrunklineError
from trunkline.model.events import TurnOptions
from trunkline.model.outputs import Text
from trunkline.model.values import Message
from trunkline.ports.store import IdempotencyRecord
from trunkline.runtime.fanout import NoReply, Reply, Subscription
from trunkline.runtime.live_task import LiveTask

if TYPE_CHECKING:
    from trunkline.runtime.agents import Lane, PublishedAgent


class Run(Struct, kw_only=True, eq=False):
    """A turn with effects never runs twice. So when its lane grants it, the journal first says
    that it has begun, and it starts once that is committed. A run without a task, or of a pure
    agent, starts at once."""

    run_id: str
    # The task it has, or gets when it needs one.
    task_id: str
    agent: "PublishedAgent"
    lane: "Lane"
    context_id: str
    message: Message
    # As history has it, with references in place of large texts. None for a new task, and the
    # message itself for one that was stored.
    recorded: Message | None = None
    options: TurnOptions | None
    # None while the agent may still answer with a message alone.
    live: LiveTask | None
    # The key of the request, as long as there is no task to have it, and whether the store knows
    # that the request with it has begun.
    key: IdempotencyRecord | None = None
    is_key_stored: bool = False
    # It was under way before a restart, and is picked up.
    is_resumed: bool = False
    # The entry that accepted its message; 1 for the one that creates the task.
    accepted_seq: int = 1
    is_granted: bool = False
    # The journal says that it has begun, and perhaps the store does not know it yet.
    has_begun: bool = False
    is_released: bool = False
    # Nothing that the agent emits from now on counts.
    is_fenced: bool = False
    started: float | None = None
    task: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    fold: TurnFold | None = None
    # The first text of the turn, which is kept back as long as it may be the whole answer
    # and the journal does not go to the store: whole, an answer costs much less.
    first: Text | None = None
    # What the agent said after it was stopped, where it is kept.
    late: LateOutput | None = None
    # For runs without a task: what it holds back, how it ended, what makes it a task when
    # it takes long, what became of it, and who streams it.
    staging: Staging | None = None
    outcome: Message | TrunklineError | None = None
    timer: asyncio.Task[None] | None = None
    answer: asyncio.Future[Reply | NoReply | LiveTask] | None = None
    reader: Subscription | None = None

    @property
    def is_waiting(self) -> bool:
        return self.task is None and not self.is_released

    def reply(self, reply: Reply) -> None:
        """Answer without a task."""
        if self.reader is not None:
            self.reader.put(reply)
            self.reader.end()
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(reply)

    def refuse(self, error: TrunklineError) -> None:
        """There is neither a reply nor a task."""
        no_reply = NoReply(error)
        if self.reader is not None:
            self.reader.put(no_reply)
            self.reader.end()
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(no_reply)

    def become(self, live: LiveTask) -> None:
        """The run has a task now."""
        self.live = live
        if self.is_waiting:
            live.waiting.append(self)
        else:
            live.run = self
        if self.reader is not None:
            live.subscriptions.add(self.reader)
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(live)


def extra_of(run: Run) -> dict[str, str]:
    """What a log record says about the run."""
    task_id = run.task_id if run.live is not None else ""
    return {"agent": run.agent.handle, "run_id": run.run_id, "task_id": task_id}
