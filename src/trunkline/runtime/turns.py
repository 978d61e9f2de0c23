"""Running agents: start a turn when its time has come, and record what it emits."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.engine.late_output import LateOutput
from trunkline.engine.transitions import Step, after
from trunkline.model.errors import (
    StoreError,
    TaskNotFound,
    TrunklineError,
)
from trunkline.model.events import TurnOptions, TurnRetried
from trunkline.model.outputs import ENDS_TURN, Failed, Final, Output
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    Message,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.runtime.fanout import Reply
from trunkline.runtime.idempotency import DirectAnswers
from trunkline.runtime.journal import LARGE_APPEND_BYTES, Journal, not_stored
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.recorder import Recorder
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run, extra_of
from trunkline.runtime.sessions import Sessions
from trunkline.runtime.stopping import Stopping
from trunkline.runtime.store_refusals import StoreRefusals

_log = logging.getLogger("trunkline.turns")

# How far an agent may run ahead of the disk. Enough for full commit batches, little
# enough that one agent cannot fill the memory.
MAX_UNCOMMITTED = 256
MAX_UNCOMMITTED_BYTES = 1024 * 1024
MAX_LARGE_UNCOMMITTED = 1

AGENT_FAILED = "The agent failed while working on this task. The gateway's log has the details."
_NO_OPTIONS = TurnOptions()
_encode = msgspec.json.Encoder().encode


class Turns:
    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        promote: Callable[[Run], LiveTask],
        registry: Registry,
        sessions: Sessions,
        direct: DirectAnswers,
    ) -> None:
        self._sessions = sessions
        self._direct = direct
        self._journal = journal
        self._clock = clock
        self._promote = promote
        self._recorder = Recorder(
            journal=journal, clock=clock, promote=promote, drop_waiting=self._drop_waiting
        )
        self._registry = registry
        self._tasks = BackgroundTasks("turns")
        self.running: set[Run] = set()
        # Runs in the queue that have no task yet, so that nothing but a lane knows them.
        self._untold: set[Run] = set()
        self._is_draining = False
        # Runs without a task whose key goes to the store.
        self._storing_keys: set[Run] = set()
        # Runs that wait for the store to take writes again.
        self._held: list[Run] = []
        self.stopping = Stopping(
            recorder=self._recorder,
            tasks=self._tasks,
            clock=clock,
            reveal=self._reveal,
            release=self._release,
            notes=sessions.notes,
        )
        self.store_refusals = StoreRefusals(
            journal=journal,
            registry=registry,
            recorder=self._recorder,
            stopping=self.stopping,
            tasks=self._tasks,
            clock=clock,
            release=self._release,
            drop_waiting=self._drop_waiting,
        )

    def catch_up(self, live: LiveTask) -> None:
        """What is recorded of the task goes to the store now."""
        self._recorder.catch_up(live)

    def enter(self, run: Run) -> None:
        """Queue the run in its lane. Where the lane is free it begins at once, so that the
        commit which accepts the message also says that its turn has begun."""
        if run.live is not None:
            run.live.waiting.append(run)
        else:
            self._untold.add(run)
            after_ms = run.agent.profile.promote_after_ms
            if after_ms:
                run.timer = self._tasks.start(
                    self._promote_later(run, after_ms / 1000), name=f"promote {run.run_id}"
                )
        run.is_granted = run.agent.lanes.enter(run.lane, run)
        if run.is_granted:
            self._begin_if_granted(run)

    def _begin_if_granted(self, run: Run) -> None:
        """Begin the run if its lane is free. A turn with effects starts when the store has
        committed that it began: after a crash, what the store calls waiting has not run."""
        # What waits while the gateway stops stays as it is, and runs after the restart.
        if not run.is_granted or run.has_begun or run.task is not None:
            return
        if run.is_released or self._is_draining:
            return
        live = run.live
        if self._journal.is_refusing and (self._held or self.store_refusals.is_lasting):
            # Its beginning could not be stored either.
            if live is not None and (live.unflushed or live.in_flight):
                self._journal.once_durable(live, partial(self._stored, run))
            else:
                self._held.append(run)
            return
        if live is None and run.key is not None and not run.is_key_stored:
            self._begin_keyed(run)
            return
        if live is None or run.is_resumed or run.agent.backend.is_pure:
            # There is nothing to store; or the store knows that it began; or it does no harm,
            # and should the store refuse, it ends with its task.
            self._start(run)
            return
        run.has_begun = True
        self._recorder.begin(run)
        self._journal.once_durable(live, partial(self._begun, run))

    def _begin_keyed(self, run: Run) -> None:
        """Store that the request with the key has begun, which no task will say. A repeat after
        a crash then knows that the agent may have been at work."""
        if run.agent.backend.is_pure:
            run.is_key_stored = True
            self._begin_if_granted(run)
        elif run not in self._storing_keys:
            self._storing_keys.add(run)
            self._tasks.spawn(self._store_key(run), name=f"key of {run.run_id}")

    async def _store_key(self, run: Run) -> None:
        try:
            await self._direct.begin(run)
            run.is_key_stored = True
        except StoreError as error:
            _log.error("a key could not be stored", extra=extra_of(run), exc_info=error)
            if run.live is None:
                self._direct.leave(run)
                run.refuse(not_stored())
                self._release(run)
        finally:
            self._storing_keys.discard(run)
        # By now it may have a task, which says that it begins.
        self._begin_if_granted(run)

    def _stored(self, run: Run, error: TrunklineError | None) -> None:
        """The store has taken the run's message, and so takes writes again; or it has not."""
        if error is None:
            self._begin_if_granted(run)

    def _begun(self, run: Run, error: TrunklineError | None) -> None:
        """The store has committed that the run began, or refused it."""
        if not run.has_begun or run.is_released or self._is_draining:
            return
        if error is None:
            self._start(run)
        elif run.live is not None and run.accepted_seq <= run.live.committed_seq:
            # Its message is stored, and nothing of it has run: it still waits for its turn.
            self._wait_again(run)
            run.live.turns -= 1
            self._held.append(run)
        # Else its message is not stored either, and `store_refusals` lets go of it.

    def _start(self, run: Run) -> None:
        self._untold.discard(run)
        run.started = self._clock.monotonic()
        if run.live is not None:
            run.live.waiting.remove(run)
            run.live.run = run
        self.running.add(run)
        run.task = self._tasks.start(self._run(run), name=f"turn {run.run_id}")

    def _wait_again(self, run: Run) -> None:
        """The run has not started, and it is as if it had never begun."""
        run.has_begun = False
        run.fold = None

    async def _run(self, run: Run) -> None:
        outputs: AsyncIterator[Output] | None = None
        try:
            request = self._request(run)
            if request.history or request.artifacts or run.recorded is run.message:
                values = self._sessions.large_values
                request = await values.request(run.lane.scope, request)
                run.message = request.message
            outputs = run.agent.backend.start(request)
            await self._consume(run, outputs)
        except asyncio.CancelledError:
            # Cancelled by `stop`, which records the outcome itself, or with all the rest;
            # if by neither, the agent made the error up, and it is a failure like others.
            if not run.is_fenced:
                if run.task is None or run.task.cancelling():
                    raise
                _log.exception("agent failed", extra=extra_of(run))
                self._fail(run)
        except Exception as error:  # noqa: BLE001 - goes to the log, and the task fails
            if run.is_fenced:
                _log.info("agent failed after it was stopped", exc_info=error, extra=extra_of(run))
            else:
                _log.exception("agent failed", extra=extra_of(run))
                self._fail(run)
        finally:
            if run.late:
                self._tasks.spawn(self._keep_late(run), name=f"late {run.run_id}")
            # The next turn does not wait for an agent that is slow to clean up. A run that
            # is being stopped holds on to its task until that has ended.
            if run.stopping is None:
                self._release(run)
            close = getattr(outputs, "aclose", None)
            if close is not None:
                await close()

    def _fail(self, run: Run) -> None:
        if run.outcome is not None:
            # A reply that could not be given, and what it was made of.
            run.outcome = run.staging = None
        try:
            self._recorder.feed(run, Failed(AGENT_FAILED))
        except Exception:  # noqa: BLE001 - goes to the log
            # What it held back may be no JSON either. It is gone by now.
            _log.exception("agent failed", extra=extra_of(run))
            self._recorder.feed(run, Failed(AGENT_FAILED))

    async def _consume(self, run: Run, outputs: AsyncIterator[Output]) -> None:
        recorder = self._recorder
        if run.live is not None and run.fold is None:
            recorder.begin(run)
        async for output in outputs:
            if (
                (live := run.live) is not None
                and live.recorded_bytes > LARGE_APPEND_BYTES
                and isinstance(output, ENDS_TURN)
            ):
                # The turn ends, and all that it said is put together: one task at a time.
                await self._journal.large_turn(live)
            if run.is_fenced:
                if self._is_done_with(run, output):
                    return
            elif recorder.feed(run, output):
                break
            live = run.live
            if live is not None and (
                live.seq - live.committed_seq > MAX_UNCOMMITTED
                or live.recorded_bytes - live.committed_bytes > MAX_UNCOMMITTED_BYTES
                # Large texts are in memory until they are stored.
                or len(live.in_flight_values + live.values) > MAX_LARGE_UNCOMMITTED
            ):
                await self._journal.durable(live)
        else:
            if run.live is not None and run.live.recorded_bytes > LARGE_APPEND_BYTES:
                await self._journal.large_turn(run.live)
            if not run.is_fenced:
                recorder.feed(run, Final())
        if run.live is not None and run.live.recorded_bytes > LARGE_APPEND_BYTES:
            self._journal.take_large_turn(run.live)
        if run.outcome is not None:
            await self._reply(run, run.outcome)

    async def _reply(self, run: Run, message: Message | TrunklineError) -> None:
        """Answer without a task. The session remembers it before anybody reads it, and so does
        the key of the request."""
        try:
            if isinstance(message, TrunklineError):
                if run.key is not None:
                    await self._direct.refuse(run, message)
                run.refuse(message)
                return
            if run.key is None:
                await self._sessions.remember(run, message)
            else:
                # Both go to the store in one commit.
                await asyncio.gather(
                    self._sessions.remember(run, message), self._direct.answer(run, message)
                )
        except StoreError as error:
            _log.error("an answer could not be stored", extra=extra_of(run), exc_info=error)
            run.refuse(not_stored())
        else:
            run.reply(Reply(_encode(message)))
        finally:
            self._direct.leave(run)

    def _is_done_with(self, run: Run, output: Output) -> bool:
        """Whether nothing counts any more of what a stopped run says."""
        if self._recorder.hear(run, output):
            return isinstance(output, ENDS_TURN)
        if run.agent.profile.late_output == "drop" or run.stopping is None:
            return True
        run.late = run.late or LateOutput()
        return run.late.hear(output) or isinstance(output, ENDS_TURN)

    async def _promote_later(self, run: Run, seconds: float) -> None:
        """A run that takes long shows as a task, also while it waits in the queue."""
        await self._clock.sleep(seconds)
        if run.live is None and run.outcome is None and not run.is_released:
            self.become_task(run)

    def become_task(self, run: Run) -> LiveTask:
        """Whoever waits for the run gets a task, whether it has begun or not."""
        if run.live is None and run.is_waiting:
            self._untold.discard(run)
            self._promote(run)
        elif run.live is None and not self._reveal(run):
            self._tasks.spawn(
                self.stopping.stop_run(run, Step.FAIL, AGENT_FAILED), name=f"fail {run.run_id}"
            )
        assert run.live is not None
        return run.live

    def _reveal(self, run: Run) -> bool:
        """Make the run a task; False when some of what it said cannot be recorded."""
        try:
            self._recorder.reveal(run)
        except Exception:  # noqa: BLE001 - goes to the log
            # It may be no JSON. By now there is a task, which is all that matters here.
            _log.exception("agent failed", extra=extra_of(run))
            return False
        return True

    async def _keep_late(self, run: Run) -> None:
        assert run.stopping is not None
        assert run.live is not None
        # After the end, and the task may have left the memory since.
        await asyncio.shield(run.stopping)
        with suppress(TaskNotFound):
            live = await self._registry.load(run.lane.scope, run.live.task_id)
            self._recorder.keep_late(run, live)
            self._registry.forget_if_idle(live)

    def move(self, live: LiveTask, step: Step, message: Message | None = None) -> None:
        """Record a step of the task."""
        self._recorder.move(live, step, message)

    def retry(self, live: LiveTask) -> None:
        """Record that the turn under way, of which nobody knows any more, is run again."""
        now_ms = self._clock.now_ms()
        state = after(live.state, Step.CONTINUE)
        update = TaskStatusUpdateEvent(
            task_id=live.task_id,
            context_id=live.context_id,
            status=TaskStatus(state=state, timestamp=format_timestamp(now_ms)),
            metadata={"reason": "gateway_restarted", "previousState": live.state.value},
        )
        event = TurnRetried(status_update=update)
        self._journal.record(live, event, state=state, status_ms=now_ms)
        # The turn has the same number again, so that its artifacts have the same ids.
        live.turns -= 1

    def expire(self) -> None:
        """Fail the runs that are past their deadline, and begin those that were held."""
        self._begin_held()
        now = self._clock.monotonic()
        for run in list(self.running):
            deadline_s = run.agent.profile.task_deadline_s
            is_due = run.started is not None and now - run.started > deadline_s > 0
            if is_due and not run.is_fenced:
                reason = f"The agent did not finish within {deadline_s:g} s."
                self._tasks.spawn(
                    self.stopping.stop_run(run, Step.FAIL, reason), name=f"deadline {run.run_id}"
                )

    def _begin_held(self) -> None:
        """Begin the runs that wait for the store to take writes again."""
        if self._journal.is_refusing and self.store_refusals.is_lasting:
            return
        held, self._held = self._held, []
        # While it refuses, one tries it and the others stay where they are.
        count = 1 if self._journal.is_refusing else len(held)
        for run in held[:count]:
            self._begin_if_granted(run)
        self._held += held[count:]

    async def drain(self, *, grace_s: float, reason: str) -> None:
        """Let runs finish for a while, then end them with the reason, or let go of those that
        the next process picks up. No more start."""
        self._is_draining = True
        for live in self._registry.all():
            for run in live.waiting:
                if run.has_begun:
                    # It has not run: it can wait for the next process like those behind it.
                    self._wait_again(run)
                    self.retry(live)
        for run in list(self._untold):
            # It would be lost otherwise: only tasks outlive the process.
            self.become_task(run)
        timer = self._tasks.start(self._clock.sleep(grace_s), name="drain")
        while not timer.done():
            busy = {run.task for run in self.running if run.task is not None}
            if not busy:
                timer.cancel()
                break
            await asyncio.wait({timer, *busy}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*(self._leave(run, reason) for run in list(self.running)))
        await self._tasks.close()

    async def _leave(self, run: Run, reason: str) -> None:
        # One that has its answer already needs no task to be picked up by.
        goes_on = run.agent.resumes and run.outcome is None
        if goes_on and (run.live is not None or self._reveal(run)):
            await self.stopping.detach(run)
        else:
            await self.stopping.stop_run(run, Step.FAIL, reason)

    def _release(self, run: Run) -> None:
        """Give the lane to the next one. Harmless when done twice."""
        if run.is_released:
            return
        run.is_released = True
        if run.timer is not None:
            run.timer.cancel()
        self.running.discard(run)
        self._untold.discard(run)
        live = run.live
        if live is not None:
            if live.run is run:
                if run.first is not None:
                    self._recorder.catch_up(live)
                live.run = None
            elif run in live.waiting:
                live.waiting.remove(run)
            # Else it is looked at once more when that is stored.
            if not live.is_dirty:
                self._registry.forget_if_idle(live)
        for granted in run.agent.lanes.leave(run.lane, run):
            granted.is_granted = True
            self._begin_if_granted(granted)

    def _drop_waiting(self, live: LiveTask) -> None:
        """A task that ended runs none of the messages that still wait."""
        # The first one last: it may have the lane, which would go to the next of them.
        for run in reversed(live.waiting.copy()):
            self._release(run)

    def _request(self, run: Run) -> TurnRequest:
        options = run.options or _NO_OPTIONS
        live = run.live
        # A first turn, by far the most frequent, has nothing to look back on.
        before = live.ahead() if live is not None and live.turns > run.has_begun else None
        history = before.settled_history() if before is not None else ()
        if history and (run.is_resumed or run.has_begun):
            own = (run.message, run.recorded)
            history = tuple([each for each in history if each is not own[0] and each is not own[1]])
        return TurnRequest(
            run_id=run.run_id,
            agent=run.agent.handle,
            task_id=live.task_id if live is not None else "",
            context_id=run.context_id,
            message=run.message,
            history=history,
            artifacts=before.artifacts if before is not None else (),
            principal=run.lane.scope.principal,
            tenant=run.lane.scope.tenant,
            accepted_output_modes=options.accepted_output_modes,
            extensions=options.extensions,
            metadata=options.metadata,
            session=self._sessions.of(run),
            is_resumed=run.is_resumed,
        )
