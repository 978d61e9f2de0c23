"""Tasks whose progress the store did not take: nothing of them is lost, or shown too early."""

from collections.abc import Callable
from contextlib import suppress

from trunkline.background import BackgroundTasks
from trunkline.engine.transitions import Step
from trunkline.model.errors import (
    KeyTaken,
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
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.recorder import Recorder, say
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run
from trunkline.runtime.stopping import Stopping

# How long to wait before a task whose progress was refused is offered to the store again.
STORE_RETRY_S = 2.0

# Why exactly is for the operator: the store's own words name files and disks.
NOT_STORED = "The gateway could not store the task's progress. Its log has the details."


class StoreRefusals:
    def __init__(
        self,
        *,
        journal: Journal,
        registry: Registry,
        recorder: Recorder,
        stopping: Stopping,
        tasks: BackgroundTasks,
        clock: Clock,
        release: Callable[[Run], None],
        drop_waiting: Callable[[LiveTask], None],
    ) -> None:
        self._journal = journal
        self._registry = registry
        self._recorder = recorder
        self._stopping = stopping
        self._tasks = tasks
        self._clock = clock
        self._release = release
        self._drop_waiting = drop_waiting
        # Tasks whose end waits for the store to take it.
        self._stuck: set[LiveTask] = set()

    @property
    def is_lasting(self) -> bool:
        """Whether a turn that starts now could not store what it does either."""
        return bool(self._stuck) and self._journal.is_refusing

    def refused(self, live: LiveTask, error: StoreError) -> None:
        """The store did not take what the task's run recorded: the run is pointless now."""
        has_run = live.run is not None or live.state is not TaskState.SUBMITTED
        if live.exists and not has_run and isinstance(error, StoreUnusable):
            self._release_unstored(live)
            if live.waiting:
                # What is stored still waits for its turn.
                return
        if not live.exists or not isinstance(error, StoreUnusable):
            # Nobody was told of it, or what is in memory is not to be relied on.
            self._registry.drop(live)
        elif live.state in HAS_WORK and not live.is_stuck:
            # Before anything is let go of: until it has failed, it stays in memory.
            live.is_stuck = True
            self._stuck.add(live)
            self._tasks.spawn(self._fail_later(live), name=f"fail {live.task_id}")
        # First of all, or its lane would start the next one when the run is let go.
        self._drop_waiting(live)
        run = live.run
        if run is not None:
            if run.stopping is None:
                run.is_fenced = True
                self._tasks.spawn(self._give_up(run), name=f"abort {run.run_id}")
            self._release(run)
        self._registry.forget_if_idle(live)
        if live.exists and isinstance(error, StaleSeq | KeyTaken | Unstorable):
            self._tasks.spawn(self._reload(live), name=f"reload {live.task_id}")

    def _release_unstored(self, live: LiveTask) -> None:
        """Let go of the runs whose message is not in the store."""
        for run in reversed(live.waiting.copy()):
            if run.accepted_seq > live.committed_seq:
                self._release(run)

    async def _give_up(self, run: Run) -> None:
        await self._stopping.abort(run)

    async def _reload(self, dropped: LiveTask) -> None:
        """If the task is still this node's to run, it must not be left without a run."""
        try:
            live = await self._registry.load(dropped.scope, dropped.task_id)
        except TaskNotFound:  # pruned meanwhile
            return
        is_idle = live.run is None and not live.waiting and not live.is_stuck
        if is_idle and live.state in HAS_WORK and live.epoch == dropped.epoch:
            live.is_stuck = True
            self._stuck.add(live)
            await self._fail_later(live)
        self._registry.forget_if_idle(live)

    async def _fail_later(self, live: LiveTask) -> None:
        """The store may recover: then the task ends with the reason, not in limbo."""
        try:
            while not live.is_dropped:
                await self._clock.sleep(STORE_RETRY_S)
                if live.state not in TERMINAL and not live.is_dropped:
                    self._recorder.move(live, Step.FAIL, say(live, f"store.{live.seq}", NOT_STORED))
                with suppress(Unavailable):
                    await self._journal.durable(live)
                    break
        finally:
            self._stuck.discard(live)
            live.is_stuck = False
            self._registry.forget_if_idle(live)
