"""`StoreRefusals`: ends the runs and tasks whose progress the store refused.

Committed progress is not lost, and clients see nothing that is not stored.
"""

from contextlib import suppress

from msgspec import Struct

from trunkline.engine.run_states import RunEvent
from trunkline.engine.transitions import Step
from trunkline.model.errors import (
    LimitReached,
    RecordConflict,
    StaleSeq,
    StoreError,
    StoreUnusable,
    TaskNotFound,
    Unavailable,
    Unstorable,
)
from trunkline.model.values import HAS_WORK, TERMINAL, TaskState
from trunkline.ports.clock import Clock
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask, say
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.recorder import Recorder
from trunkline.runtime.registry import Registry
from trunkline.runtime.runs import Runs

# The wait before the store is asked again to accept the failure of a task.
STORE_RETRY_S = 2.0

# The exact cause is for the operator: the store's own messages name files and disks.
NOT_STORED = "The gateway could not store the task's progress. Its log has the details."


class StoreRefusals(Struct, frozen=True, kw_only=True, eq=False):
    journal: Journal
    registry: Registry
    recorder: Recorder
    new_tasks: NewTasks
    runs: Runs
    clock: Clock

    def limited(self, live: LiveTask, error: LimitReached) -> bool:
        """Make a new task that exceeds a limit into one that says so, unless the profile wants an
        error in its place."""
        run = live.admitted
        assert run is not None
        assert run.admission is not None
        if run.refusal is not None:
            return False
        run.refusal = run.admission.refusal(error)
        # The caller of a given task has it already.
        if run.agent.profile.overflow == "error" and run.given is None:
            return False
        self.journal.begin_again(live)
        live.participants = ()
        live.turns = 0
        self.new_tasks.create(run, None, run.refusal, again=live)
        # The task has ended already, so nothing else can come of its run.
        self.runs.drop_waiting(live)
        if live.run is not None:
            self.runs.happen(live.run, RunEvent.GIVE_UP)
        return True

    def refused(self, live: LiveTask, error: StoreError) -> None:
        """Give up the run of a task whose progress the store refused."""
        has_run = live.run is not None or live.state is not TaskState.SUBMITTED
        if live.exists and not has_run and isinstance(error, StoreUnusable):
            self.runs.drop_waiting(live, after_seq=live.committed_seq)
            if live.waiting:
                # Messages that are stored still wait for their turn.
                return
        if not live.exists or not isinstance(error, StoreUnusable):
            # No client knows the task yet, or its state in memory cannot be trusted.
            self.registry.drop(live)
        elif live.state in HAS_WORK and not live.is_stuck:
            # Before its run is released, so that the task stays in memory until it has failed.
            self.registry.mark_stuck(live)
            self.runs.tasks.spawn(self._fail_later(live), name=f"fail {live.task_id}")
        # Before the run leaves its lane, which would start the next one.
        self.runs.drop_waiting(live)
        if live.run is not None:
            self.runs.happen(live.run, RunEvent.GIVE_UP)
        self.registry.forget_if_idle(live)
        refused = StaleSeq | RecordConflict | LimitReached | Unstorable
        if live.exists and isinstance(error, refused):
            self.runs.tasks.spawn(self._reload(live), name=f"reload {live.task_id}")

    async def _reload(self, dropped: LiveTask) -> None:
        """Fail the task if it still belongs to this node, so that it is not left without a run."""
        try:
            live = await self.registry.load(dropped.scope, dropped.task_id)
        except (TaskNotFound, Unavailable):  # it was pruned meanwhile, or another node has it
            return
        if live.is_orphan and live.lease is dropped.lease:
            self.registry.mark_stuck(live)
            await self._fail_later(live)
        self.registry.forget_if_idle(live)

    async def _fail_later(self, live: LiveTask) -> None:
        """Fail the task with the reason as soon as the store accepts writes again."""
        try:
            while not live.is_dropped:
                await self.clock.sleep(STORE_RETRY_S)
                if live.state not in TERMINAL and not live.is_dropped:
                    self.recorder.move(live, Step.FAIL, say(live, f"store.{live.seq}", NOT_STORED))
                with suppress(Unavailable):
                    await self.journal.durable(live)
                    break
        finally:
            self.registry.unmark_stuck(live)
