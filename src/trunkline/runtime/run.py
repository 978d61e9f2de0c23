"""`Run`: one turn of an agent, from the queue until it leaves its lane."""

import asyncio
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from trunkline.engine.late_output import LateOutput
from trunkline.engine.promotion import Staging
from trunkline.engine.run_states import WAITING, RunState
from trunkline.engine.task_fold import Pending
from trunkline.engine.transitions import Step
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.calls import Refusal
from trunkline.model.errors import TrunklineError
from trunkline.model.events import TurnOptions
from trunkline.model.outputs import Text
from trunkline.model.principal import Principal
from trunkline.model.routed_calls import TaskRecord
from trunkline.model.values import Message
from trunkline.ports.gate import Admission, Attempt
from trunkline.runtime.fanout import NoReply, Reply, Subscription
from trunkline.runtime.given_tasks import FirstEntry
from trunkline.runtime.live_task import LOCAL, Lease, LiveTask

if TYPE_CHECKING:
    from trunkline.runtime.agents import Lane, PublishedAgent
    from trunkline.runtime.idempotency import RequestKey


class Run(Struct, kw_only=True, eq=False):
    """A turn with effects never runs twice. So when a run gets its lane, the journal first records
    that the turn has begun, and the turn starts once that is committed. A run without a task, or of
    a pure agent, starts at once. `engine/run_states.py` has the table of its states."""

    run_id: str
    # The id of the task of the run, or of the task that the run gets when it needs one.
    task_id: str
    agent: "PublishedAgent"
    lane: "Lane"
    context_id: str
    options: TurnOptions | None
    # On whose behalf it runs; None after a restart.
    principal: Principal | None = None
    # The id of its request in the wire log, if that was recorded; empty after a restart.
    wire_id: str = ""
    # The record to keep with the task that the run makes.
    joins: TaskRecord | None = None
    # How the message passed the gate, where there is one; None after a restart.
    attempt: Attempt | None = None
    admission: Admission | None = None
    # Why the store refused the changes of the admission, and so the message.
    refusal: Refusal | None = None
    # For the task that the run may make.
    lease: Lease = LOCAL
    # Whether the run was under way before a restart, and its backend resumes it.
    is_resumed: bool = False
    # The entry that accepted the message of the run: 1 if the message created the task.
    accepted_seq: int = 1
    # For a task that another gateway began: its first entry.
    given: FirstEntry | None = None
    # The message as history has it, with references in place of large texts: the same object as
    # `message` if that came from the store, and None for a new task.
    recorded: Message | None = None

    # Written by the methods below alone. `live` is None while the agent may still answer with
    # a message alone.
    message: Message
    live: LiveTask | None = None
    # For a run that may end without a task: the future of its outcome, and the reader that streams
    # it.
    answer: asyncio.Future[Reply | NoReply | LiveTask] | None = None
    reader: Subscription | None = None

    # Written by `Runs` alone. First the idempotency key of the request, which a run without a task
    # has to store itself.
    key: "RequestKey | None" = None
    is_key_stored: bool = False
    state: RunState = RunState.QUEUED
    started: float | None = None
    task: asyncio.Task[None] | None = None
    # Makes a task of the run when the run takes long.
    timer: asyncio.Task[None] | None = None
    # Refuses the run when it has waited as long as the profile allows.
    patience: asyncio.Task[None] | None = None
    # The step and the reason by which a stop ends the task, and the asyncio task that does it.
    ending: tuple[Step, str] | None = None
    stopping: asyncio.Task[None] | None = None

    # Written by `Recorder` alone.
    fold: TurnFold | None = None
    # The first text of the turn, held back until the journal is flushed: it may be the whole
    # answer, and an answer in one piece costs much less.
    first: Text | None = None
    # The output after a stop, where the profile keeps it.
    late: LateOutput | None = None
    # For a run without a task: the output held back, and the outcome.
    staging: Staging | None = None
    outcome: Message | TrunklineError | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    def expect_answer(
        self, answer: "asyncio.Future[Reply | NoReply | LiveTask]", reader: Subscription | None
    ) -> None:
        """Let the run answer without a task if it can."""
        self.answer = answer
        self.reader = reader

    def finish(self, outcome: Reply | NoReply) -> None:
        """Answer the request without a task."""
        if self.reader is not None:
            self.reader.finish(outcome)
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(outcome)

    def become(self, live: LiveTask, message: Message) -> None:
        """Become a run of the task; `message` has the ids of the task."""
        self.live = live
        self.message = message
        if self.reader is not None:
            live.subscribe(self.reader)
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(live)

    def restore(self, message: Message) -> None:
        """Replace a message from the store by the same one with its large texts."""
        self.message = message

    def forget_reader(self) -> None:
        """Forget the reader, which left before the run had a task."""
        self.reader = None


def run_of(
    agent: "PublishedAgent",
    pending: Pending,
    live: LiveTask,
    *,
    is_resumed: bool = False,
    recorded: Message | None = None,
) -> Run:
    """A run for a message of a task that exists. Without `recorded`, the message came from the
    store."""
    return Run(
        run_id=pending.run_id(live.task_id),
        task_id=live.task_id,
        agent=agent,
        lane=agent.lane(live.scope, live.context_id, live.task_id),
        context_id=live.context_id,
        message=pending.message,
        recorded=recorded or pending.message,
        options=pending.options,
        live=live,
        lease=live.lease or LOCAL,
        accepted_seq=pending.seq,
        is_resumed=is_resumed,
    )


def runs_left(tasks: Iterable[tuple["PublishedAgent", LiveTask]]) -> list[Run]:
    """The runs that a restart left: first the turns that their agents continue, then the
    messages that waited, in the order of their arrival. The oldest task comes first."""
    runs: list[tuple[bool, str, Run]] = []
    # When the last task of each lane began.
    latest: dict[Lane, str] = {}
    for agent, live in tasks:
        fold = live.ahead()
        if agent.resumes and fold.under_way is not None:
            run = run_of(agent, fold.under_way, live, is_resumed=True)
            runs.append((False, fold.under_way.since, run))
        for pending in fold.pending:
            run, since = run_of(agent, pending, live), pending.since
            if pending.seq == 1:
                # The clock of another gateway, which has begun the task, may differ from this one.
                since = latest[run.lane] = max(since, latest.get(run.lane, ""))
            runs.append((True, since, run))
    # By message, because an older task may have a younger message.
    runs.sort(key=itemgetter(0, 1))
    return [run for _, _, run in runs]


def extra_of(run: Run) -> dict[str, str]:
    """The fields of a log record about the run."""
    task_id = run.task_id if run.live is not None else ""
    return {
        "agent": run.agent.handle,
        "principal": run.lane.scope.principal,
        "run_id": run.run_id,
        "task_id": task_id,
    }
