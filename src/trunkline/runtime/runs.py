"""`Runs`: takes every run through the states of `engine/run_states.py`, with their effects.

Nothing else changes the state of a run, or the run and the queue of a task.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from trunkline.background import BackgroundTasks
from trunkline.engine.gateway_texts import AGENT_FAILED
from trunkline.engine.queue_limits import BUSY_ELSEWHERE
from trunkline.engine.run_states import TABLE, Effect, RunEvent, RunState
from trunkline.engine.transitions import Step
from trunkline.model.errors import StoreError, TrunklineError
from trunkline.model.outputs import Output
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.backend import Abandons
from trunkline.ports.clock import Clock
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.direct_answers import DirectAnswers
from trunkline.runtime.fanout import NoReply
from trunkline.runtime.idempotency import IdempotencyKeys
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.live_task import LiveTask, say
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.recorder import Recorder
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run, extra_of
from trunkline.runtime.slots import Slots
from trunkline.runtime.turn_gate import TurnGate
from trunkline.runtime.turns import Turns

if TYPE_CHECKING:
    from trunkline.runtime.spreading import Spreading

_log = logging.getLogger("trunkline.turns")

# The agent works or has answered, and its output counts.
_COUNTS = frozenset({RunState.RUNNING, RunState.ANSWERED})
_STOPPABLE = frozenset({RunState.RUNNING, RunState.DETACHED})


class Runs(Struct, kw_only=True, eq=False):
    journal: Journal
    clock: Clock
    registry: Registry
    keys: IdempotencyKeys
    direct: DirectAnswers
    new_tasks: NewTasks
    recorder: Recorder
    turns: Turns
    tasks: BackgroundTasks
    gate: TurnGate | None = None
    # The limits that hold over all nodes, and the runs that other nodes may take over, where
    # several share the store.
    slots: Slots | None = None
    spreading: "Spreading | None" = None
    running: set[Run] = set()
    # Runs in the queue without a task, which only their lanes know.
    without_task: set[Run] = set()
    # Whether the gateway shuts down, and no more runs start. Written by `Drain` alone.
    is_draining: bool = False
    # Runs that wait for the store to accept writes again.
    _held: list[Run] = []
    _effects: dict[Effect, Callable[[Run], None]] = {}

    def __post_init__(self) -> None:
        recorder = self.recorder
        self._effects = {
            Effect.WAIT_FOR_STORE: self._wait_for_store,
            Effect.STORE_KEY: self._store_key,
            Effect.RECORD_BEGINNING: self._record_beginning,
            Effect.UNDO_BEGINNING: recorder.undo_beginning,
            Effect.RECORD_RETRY: self._record_retry,
            Effect.START_AGENT: self._start_agent,
            Effect.RECORD_FAILURE: recorder.fail,
            Effect.END_TASK: self._end_task,
            Effect.ABORT_AGENT: self._abort_agent,
            Effect.CANCEL_TURN: self._cancel_turn,
            Effect.REFUSE_REQUEST: self._refuse_request,
            Effect.LEAVE_LANE: self._leave_lane,
        }

    def happen(self, run: Run, event: RunEvent) -> None:
        """Change the state of the run by the table. A pair that is missing raises GatewayBug."""
        run.state, effects = TABLE[run.state, event]
        for effect in effects:
            self._effects[effect](run)

    def enter(self, run: Run) -> None:
        """Queue the run in its lane. Where the lane is free it begins at once, so that the
        commit which accepts the message also says that its turn has begun."""
        live = run.live
        if live is None:
            self.without_task.add(run)
            after_ms = run.agent.profile.promote_after_ms
            if after_ms:
                run.timer = self.tasks.start(
                    self._promote_later(run, after_ms / 1000), name=f"promote {run.run_id}"
                )
        elif not live.waiting or live.waiting[-1] is not run:
            live.waiting.append(run)
        lanes = run.agent.lanes
        if lanes.enter(run.lane, run):
            self.begin(run)
            return
        if run.agent.profile.busy == "wait":
            run.patience = self.tasks.start(self._refuse_later(run), name=f"wait {run.run_id}")
        if self.slots is not None and lanes.slots is not None:
            self.slots.want(run.agent)
        if self.spreading is not None and lanes.max_running:
            self.spreading.waits(run)

    def begin(self, run: Run) -> None:
        """Begin a run that has its lane. A turn with effects starts when the store has committed
        that it began: after a crash, a message that waits according to the store has not run."""
        # Runs that wait while the gateway shuts down stay in the queue until after the restart;
        # those of a withdrawn agent wait until it is published again.
        if (
            run.state is RunState.RELEASED
            or self.is_draining
            or run.agent.is_closed
            or (run.lease.lane and not self._may_begin(run))
        ):
            return
        if self.journal.is_refusing and (self._held or self.registry.stuck):
            # The store would refuse the beginning of this run as well.
            event = RunEvent.HOLD
        elif run.agent.backend.is_pure or run.is_resumed:
            # A pure agent has no effects, so it may run before its beginning is stored. The store
            # already knows the beginning of a resumed run.
            event = RunEvent.START
        elif run.live is not None:
            event = RunEvent.BEGIN
        elif run.key is not None and not run.is_key_stored:
            event = RunEvent.STORE_KEY
        else:
            event = RunEvent.START
        self.happen(run, event)

    def _may_begin(self, run: Run) -> bool:
        """Whether the lane of the run still belongs to this node, where several share the store."""
        ownership = self.registry.ownership
        return not run.lease.is_lost and (ownership is None or ownership.may_begin())

    def _wait_for_store(self, run: Run) -> None:
        live = run.live
        if live is not None and (live.unflushed or live.in_flight):
            # The store is about to accept or to refuse the message of the run.
            self.journal.once_durable(live, partial(self._stored, run))
        else:
            self._held.append(run)

    def _stored(self, run: Run, error: TrunklineError | None) -> None:
        if error is None:
            self.begin(run)

    def _store_key(self, run: Run) -> None:
        """Store that the request with the key has begun, because it has no task that says so. After
        a crash, a repeat then finds that the agent may have worked on the request."""
        self.tasks.spawn(self._begin_keyed(run), name=f"key of {run.run_id}")

    async def _begin_keyed(self, run: Run) -> None:
        key = run.key
        assert key is not None
        # From now on the key may be stored.
        run.key = structs.replace(key, expected=None)
        try:
            await self.direct.begin(run, key)
            run.is_key_stored = True
        except StoreError as error:
            _log.error("a key could not be stored", extra=extra_of(run), exc_info=error)
            if run.live is None and run.state is RunState.STORING_KEY:
                self.happen(run, RunEvent.KEY_REFUSED)
                return
        # The run may have a task by now, whose journal records the beginning.
        self.begin(run)

    def _refuse_request(self, run: Run) -> None:
        self.keys.leave(run)
        run.finish(NoReply(not_stored()))

    def _record_beginning(self, run: Run) -> None:
        self.recorder.begin(run)
        assert run.live is not None
        self.journal.once_durable(run.live, partial(self._begun, run))

    def _begun(self, run: Run, error: TrunklineError | None) -> None:
        """The store has committed that the run began, or refused it."""
        live = run.live
        if self.is_draining or live is None or (run.lease.lane and not self._may_begin(run)):
            return
        if error is None:
            self.happen(run, RunEvent.BEGUN)
        elif run.accepted_seq <= live.committed_seq:
            self.happen(run, RunEvent.UNSTORED)
        # Otherwise the message itself is not stored, and `StoreRefusals` releases the run.

    def _record_retry(self, run: Run) -> None:
        assert run.live is not None
        self.recorder.record_retry(run.live, run)

    def _start_agent(self, run: Run) -> None:
        live = run.live
        run.started = self.clock.monotonic()
        if run.patience is not None:
            run.patience.cancel()
        if live is None:
            self.without_task.discard(run)
        else:
            live.waiting.remove(run)
            live.run = run
        self.running.add(run)
        run.task = self.tasks.start(self._run(run), name=f"turn {run.run_id}")

    async def _run(self, run: Run) -> None:
        outputs: AsyncIterator[Output] | None = None
        try:
            request = self.turns.request(run)
            if request.history or request.artifacts or run.recorded is run.message:
                request = await self.turns.restored(run, request)
            outputs = run.agent.backend.start(request)
            await self.turns.consume(run, outputs)
            if run.outcome is not None:
                self.happen(run, RunEvent.ANSWER)
                await self.turns.reply(run, run.outcome)
        except asyncio.CancelledError:
            # A stop cancels the run and records the outcome itself, and a shutdown cancels all
            # runs. Otherwise the agent itself raised CancelledError, which is a failure like any
            # other.
            if run.state in _COUNTS:
                if run.task is None or run.task.cancelling():
                    raise
                _log.exception("agent failed", extra=extra_of(run))
                self.happen(run, RunEvent.FAIL)
        except Exception as error:  # noqa: BLE001 - goes to the log, and the task fails
            if run.state in _COUNTS:
                _log.exception("agent failed", extra=extra_of(run))
                self.happen(run, RunEvent.FAIL)
            else:
                _log.info("agent failed after it was stopped", exc_info=error, extra=extra_of(run))
        finally:
            if run.late:
                self.tasks.spawn(self.turns.keep_late(run), name=f"late {run.run_id}")
            # Before the agent cleans up, which may be slow, so that the next turn does not wait for
            # it.
            self.happen(run, RunEvent.END)
            close = getattr(outputs, "aclose", None)
            if close is not None:
                await close()

    def _leave_lane(self, run: Run) -> None:
        """Give the lane to the next run."""
        for timer in (run.timer, run.patience):
            if timer is not None:
                timer.cancel()
        self.running.discard(run)
        live = run.live
        if live is None:
            self.without_task.discard(run)
        else:
            if live.run is run:
                if run.first is not None and not live.is_dropped:
                    self.recorder.catch_up(run)
                live.run = None
                if live.waiting and live.state in TERMINAL:
                    self.drop_waiting(live)
            elif run in live.waiting:
                live.waiting.remove(run)
            # A dirty task is checked again when it is stored.
            if not live.is_dirty:
                self.registry.forget_if_idle(live)
        # Before the next run, which may need what this one held.
        if self.gate is not None:
            self._settle(self.gate, run)
        lanes = run.agent.lanes
        for granted in lanes.leave(run.lane, run):
            self.begin(granted)
        if self.slots is not None and (lanes.max_running or lanes.slots is not None):
            self._tell_nodes(run.agent)

    def _settle(self, gate: TurnGate, run: Run) -> None:
        """Settle the run at the gate, but not before the store has committed its task: the store
        may still find a limit reached."""
        live = run.live
        is_new = live is not None and live.admitted is run and not live.exists
        if live is not None and is_new and (live.unflushed or live.in_flight):
            self.journal.once_durable(live, lambda _: gate.settle(run))
        else:
            gate.settle(run)

    def _tell_nodes(self, agent: PublishedAgent) -> None:
        """Let other nodes know that a turn of an agent with a limit has ended."""
        if self.slots is not None and agent.lanes.slots is not None:
            self.slots.ended(agent)
        if self.spreading is not None and agent.lanes.max_running:
            self.spreading.offer(agent)

    def give_up(self, lanes: Collection[Lane]) -> None:
        """Give up the runs of these lanes that have no task, because other nodes have the lanes."""
        without_task = [run for run in (*self.without_task, *self.running) if run.live is None]
        for run in without_task:
            lane = run.agent.owned_lane(run.lane)
            if lane in lanes and run.state is not RunState.ANSWERED:
                self.keys.leave(run)
                run.finish(NoReply(not_stored()))
                self.happen(run, RunEvent.RELEASE if run.is_waiting else RunEvent.GIVE_UP)

    def drop_waiting(self, live: LiveTask, *, after_seq: int = 0) -> None:
        """Release the waiting runs of messages after entry `after_seq`, because the task has ended
        or the store refused those messages."""
        # In reverse, because the first run may have the lane, which would go to the next of them.
        for run in reversed(live.waiting.copy()):
            if run.accepted_seq > after_seq:
                self.happen(run, RunEvent.RELEASE)

    async def _promote_later(self, run: Run, seconds: float) -> None:
        """Show a run that takes long as a task, also while it waits in the queue."""
        await self.clock.sleep(seconds)
        if run.live is None and (run.is_waiting or run.state is RunState.RUNNING):
            self.become_task(run)

    async def _refuse_later(self, run: Run) -> None:
        """Refuse a new task whose turn does not begin in time."""
        await self.clock.sleep(run.agent.profile.busy_wait_s)
        if run.state is not RunState.QUEUED:
            return
        live = self.become_task(run) if run.live is None else run.live
        # A task that has begun keeps its place: its caller would lose what it has so far.
        if live.turns or live.state is not TaskState.SUBMITTED or live.waiting[0] is not run:
            return
        self.recorder.refuse(run, live, BUSY_ELSEWHERE)
        # Not by the asyncio task that this ends.
        run.patience = None
        self.drop_waiting(live)

    def become_task(self, run: Run) -> LiveTask:
        """Make a task of the run, whether it has started or not."""
        if run.live is None and run.is_waiting:
            self.without_task.discard(run)
            return self.new_tasks.promote(run)
        if run.live is None and not self.recorder.reveal(run):
            self.tasks.spawn(self.stop_run(run, Step.FAIL, AGENT_FAILED), name=f"fail {run.run_id}")
        assert run.live is not None
        return run.live

    async def stop(self, agent: PublishedAgent, live: LiveTask, step: Step, reason: str) -> None:
        """End the task by `step`, whether an agent works on it or not."""
        if live.run is not None:
            await self.stop_run(live.run, step, reason)
        elif live.state not in TERMINAL:
            fold = live.ahead()
            # A run that has begun but not started has not answered its question yet.
            has_begun = bool(live.waiting) and live.waiting[0].state is RunState.BEGINNING
            asked_by = fold.answered if has_begun else fold.asked_by
            self.recorder.move(
                live, step, say(live, f"stop.{live.seq}", reason) if reason else None
            )
            self.drop_waiting(live)
            if asked_by:
                self.abandon(agent, live, asked_by)

    def abandon(self, agent: PublishedAgent, live: LiveTask, run_id: str) -> None:
        """Tell the backend that a run which is not under way here is no longer wanted."""
        backend = agent.backend
        if isinstance(backend, Abandons):
            told = backend.abandon(run_id, self.turns.sessions.notes(agent, live))
        else:
            told = backend.cancel(run_id)
        self.tasks.spawn(told, name=f"abandon {run_id}")

    async def stop_run(self, run: Run, step: Step, reason: str) -> None:
        """Stop the agent and end the task of the run by `step`. Returns when both are done."""
        if run.state in _STOPPABLE:
            if run.live is None:
                self.recorder.reveal(run)
            run.ending = step, reason
        self.happen(run, RunEvent.STOP)
        if run.state is RunState.ANSWERED:
            assert run.task is not None
            await asyncio.wait({run.task})
        elif run.state is RunState.STOPPING:
            assert run.stopping is not None
            await asyncio.shield(run.stopping)

    def _end_task(self, run: Run) -> None:
        # In a separate asyncio task, because the caller may leave, and the task must still end.
        run.stopping = self.tasks.start(self._end(run), name=f"stop {run.run_id}")

    async def _end(self, run: Run) -> None:
        live = run.live
        assert live is not None
        assert run.ending is not None
        step, reason = run.ending
        try:
            if not await self._abort(run):
                profile = run.agent.profile
                late = "dropped" if profile.late_output == "drop" else "kept"
                stuck = profile.texts.ignores_stop.format(
                    seconds=f"{profile.cancel_grace_s:g}", late=late
                )
                reason = f"{reason} {stuck}".strip()
                _log.warning("agent ignores cancellation", extra=extra_of(run))
            if live.state not in TERMINAL and not live.is_dropped:
                self.recorder.end(run, live, step, reason)
                self.drop_waiting(live)
        finally:
            self.happen(run, RunEvent.STOPPED)

    def _abort_agent(self, run: Run) -> None:
        # The agent may go on for a moment, and counts as long as it does.
        run.agent.lanes.linger()
        self.tasks.spawn(self._abort_given_up(run), name=f"abort {run.run_id}")

    async def _abort_given_up(self, run: Run) -> None:
        try:
            await self._abort(run)
        finally:
            for granted in run.agent.lanes.end_lingering():
                self.begin(granted)
            self._tell_nodes(run.agent)

    async def _abort(self, run: Run) -> bool:
        """Ask the backend and the run to end; True when the run ended within the grace period."""
        assert run.task is not None
        asking = self.tasks.start(run.agent.backend.cancel(run.run_id), name=f"cancel {run.run_id}")
        run.task.cancel()
        grace = self.grace(run)
        try:
            # The backend may have to call a remote service, so it gets the whole grace as well.
            both = {run.task, asking}
            while not grace.done() and (pending := {task for task in both if not task.done()}):
                await asyncio.wait({grace, *pending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            grace.cancel()
            asking.cancel()
        return run.task.done()

    def grace(self, run: Run) -> "asyncio.Task[None]":
        """A timer for the time in which a run that is told to stop must end."""
        grace_s = run.agent.profile.cancel_grace_s
        return self.tasks.start(self.clock.sleep(grace_s), name=f"grace {run.run_id}")

    def _cancel_turn(self, run: Run) -> None:
        assert run.task is not None
        run.task.cancel()

    def expire(self) -> None:
        """Fail the runs that are past their deadline, and begin those that were held."""
        self._begin_held()
        now = self.clock.monotonic()
        for run in list(self.running):
            deadline_s = run.agent.profile.task_deadline_s
            is_due = run.started is not None and now - run.started > deadline_s > 0
            if is_due and run.state is RunState.RUNNING:
                reason = run.agent.profile.texts.deadline.format(seconds=f"{deadline_s:g}")
                self.tasks.spawn(
                    self.stop_run(run, Step.FAIL, reason), name=f"deadline {run.run_id}"
                )

    def _begin_held(self) -> None:
        """Begin the runs that wait for the store to accept writes again."""
        is_refusing = self.journal.is_refusing
        if is_refusing and self.registry.stuck:
            return
        held, self._held = self._held, []
        # While the store refuses writes, one run tries again and the others keep waiting.
        count = 1 if is_refusing else len(held)
        for run in held[:count]:
            self.begin(run)
        self._held += held[count:]
