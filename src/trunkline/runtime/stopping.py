"""Ending runs before they end by themselves. Late output is fenced off."""

import asyncio
import logging
from collections.abc import Callable

from trunkline.background import BackgroundTasks
from trunkline.engine.transitions import Step
from trunkline.model.values import TERMINAL
from trunkline.ports.backend import Abandons, Notes
from trunkline.ports.clock import Clock
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.recorder import Recorder, say
from trunkline.runtime.run import Run, extra_of

_log = logging.getLogger("trunkline.turns")


class Stopping:
    def __init__(
        self,
        *,
        recorder: Recorder,
        tasks: BackgroundTasks,
        clock: Clock,
        reveal: Callable[[Run], bool],
        release: Callable[[Run], None],
        notes: Callable[[PublishedAgent, LiveTask], Notes],
    ) -> None:
        """`reveal` makes a task of a run that has none, `release` gives its lane away; `notes`
        are those of the conversation that a task belongs to."""
        self._notes = notes
        self._recorder = recorder
        self._tasks = tasks
        self._clock = clock
        self._reveal = reveal
        self._release = release

    async def stop(self, agent: PublishedAgent, live: LiveTask, step: Step, reason: str) -> None:
        """End the task by `step`, whatever it is doing. Late output is fenced off."""
        if live.run is not None:
            await self.stop_run(live.run, step, reason)
        elif live.state not in TERMINAL:
            fold = live.ahead()
            # One that has begun and not started has answered nothing yet.
            has_begun = bool(live.waiting) and live.waiting[0].has_begun
            asked_by = fold.answered if has_begun else fold.asked_by
            self._recorder.move(
                live, step, say(live, f"stop.{live.seq}", reason) if reason else None
            )
            if asked_by:
                self.abandon(agent, live, asked_by)

    def abandon(self, agent: PublishedAgent, live: LiveTask, run_id: str) -> None:
        """Tell the backend that nobody waits for a run that is not under way here."""
        backend = agent.backend
        if isinstance(backend, Abandons):
            told = backend.abandon(run_id, self._notes(agent, live))
        else:
            told = backend.cancel(run_id)
        self._tasks.spawn(told, name=f"abandon {run_id}")

    async def detach(self, run: Run) -> None:
        """Let go of a run that goes on without us. Its task stays as it is."""
        if run.is_released or run.stopping is not None or run.outcome is not None:
            await self.stop_run(run, Step.FAIL, "")
            return
        assert run.task is not None
        run.is_fenced = True
        run.task.cancel()
        grace = self._tasks.start(
            self._clock.sleep(run.agent.profile.cancel_grace_s), name=f"grace {run.run_id}"
        )
        await asyncio.wait({grace, run.task}, return_when=asyncio.FIRST_COMPLETED)
        grace.cancel()

    async def stop_run(self, run: Run, step: Step, reason: str) -> None:
        if run.is_released:
            return
        if run.outcome is not None:
            # It has its answer, which is all that was left to do.
            assert run.task is not None
            await asyncio.wait({run.task})
            return
        if run.stopping is None:
            if run.live is None:
                self._reveal(run)
            assert run.live is not None
            run.is_fenced = True
            # On its own: whoever asked may leave, and the task must end all the same.
            run.stopping = self._tasks.start(
                self._end_run(run, run.live, step, reason), name=f"stop {run.run_id}"
            )
        await asyncio.shield(run.stopping)

    async def _end_run(self, run: Run, live: LiveTask, step: Step, reason: str) -> None:
        try:
            await self._end_task(run, live, step, reason)
        finally:
            self._release(run)

    async def _end_task(self, run: Run, live: LiveTask, step: Step, reason: str) -> None:
        if not await self.abort(run):
            grace_s = run.agent.profile.cancel_grace_s
            late = "dropped" if run.agent.profile.late_output == "drop" else "kept"
            stuck = f"The agent did not stop within {grace_s:g} s; its late output is {late}."
            reason = f"{reason} {stuck}".strip()
            _log.warning("agent ignores cancellation", extra=extra_of(run))
        if live.state not in TERMINAL and not live.is_dropped:
            self._recorder.end(run, live, step, reason)

    async def abort(self, run: Run) -> bool:
        """Ask the backend and the run to end; True when the run did within the grace."""
        assert run.task is not None
        asking = self._tasks.start(
            run.agent.backend.cancel(run.run_id), name=f"cancel {run.run_id}"
        )
        run.task.cancel()
        grace = self._tasks.start(
            self._clock.sleep(run.agent.profile.cancel_grace_s), name=f"grace {run.run_id}"
        )
        try:
            # The backend may have to tell somebody far away; it is not cut short.
            both = {run.task, asking}
            while not grace.done() and (pending := {task for task in both if not task.done()}):
                await asyncio.wait({grace, *pending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            grace.cancel()
            asking.cancel()
        return run.task.done()
