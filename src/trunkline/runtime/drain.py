"""`Drain`: ends the runs of a gateway that stops, or of an agent that is withdrawn or replaced.

Nothing is lost. A turn may finish for a while; after that it ends with a reason, or the agent
continues without the gateway and is resumed later. Messages that wait stay in the store.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from trunkline.engine.run_states import RunEvent, RunState
from trunkline.engine.transitions import Step
from trunkline.model.errors import TrunklineError
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs

# How long the turns of a withdrawn agent may clean up before its backend is closed.
CLEAN_UP_S = 1.0


class Drain(Struct, frozen=True, eq=False):
    runs: Runs

    async def all(self, *, grace_s: float, reason: str) -> None:
        """Let runs finish for a while, then end them with the reason, or detach from those that
        the next process resumes. No more start."""
        runs = self.runs
        runs.is_draining = True
        await self._end(lambda _: True, grace_s=grace_s, reason=reason)
        await runs.tasks.close()

    async def withdrawn(
        self, handle: str, *, grace_s: float, reason: str, stream_reason: str
    ) -> None:
        """The same for the runs of one agent, which is closed. What waits leaves the memory, and
        continues from the store when the agent is published again."""
        cleaning_up = await self._end(
            lambda run: run.agent.handle == handle, grace_s=grace_s, reason=reason
        )
        own = [live for live in self.runs.registry.all() if live.scope.agent == handle]
        for live in own:
            with suppress(TrunklineError):
                await self.runs.journal.durable(live)
            # The sender of a queued task gets it as it is: the task runs later.
            self.runs.journal.answer_waiters(live)
            for reader in live.subscriptions:
                reader.stop(stream_reason, live.committed_seq)
            # In reverse, because the first run has the lane, which would go to the next of them.
            for run in reversed(live.waiting.copy()):
                self.runs.happen(run, RunEvent.RELEASE)
            self.runs.registry.forget_if_idle(live)
        if cleaning_up:
            await asyncio.wait(cleaning_up, timeout=CLEAN_UP_S)

    async def replaced(self, agent: PublishedAgent) -> None:
        """Wait until the last run of an agent that was replaced has ended."""
        while busy := self._busy(lambda run: run.agent is agent):
            await asyncio.wait(busy)

    def hand_over(self, agent: PublishedAgent, successor: PublishedAgent) -> None:
        """Let the successor run what waits. Runs that have started stay with their agent. Both
        share the lanes, so that no context has two turns at once."""
        agent.is_closed, agent.successor = True, successor
        waiting = [run for live in self.runs.registry.all() for run in live.waiting]
        for run in (*waiting, *self.runs.without_task):
            if run.agent is agent:
                run.agent = successor
        limits, successor.lanes = successor.lanes, agent.lanes
        slots = None if limits.slots is None else agent.lanes.slots or 0
        for granted in successor.lanes.resize(
            max_waiting=limits.max_waiting,
            max_running=limits.max_running,
            slots=slots,
            driver_of=limits.driver_of,
        ):
            self.runs.begin(granted)

    async def _end(
        self, concerns: Callable[[Run], bool], *, grace_s: float, reason: str
    ) -> "set[asyncio.Task[None]]":
        """End the runs; returns the asyncio tasks of those that still clean up."""
        runs = self.runs
        for live in runs.registry.all():
            for run in live.waiting:
                if run.state is RunState.BEGINNING and concerns(run):
                    # The turn has not started, so it waits like the runs behind it.
                    runs.happen(run, RunEvent.DRAIN)
        for run in list(runs.without_task):
            if concerns(run):
                # Without a task the request would be lost: only tasks outlive the agent.
                runs.become_task(run)
        timer = runs.tasks.start(runs.clock.sleep(grace_s), name="drain")
        seen: set[asyncio.Task[None]] = set()
        while not timer.done():
            busy = self._busy(concerns)
            seen |= busy
            if not busy:
                timer.cancel()
                break
            await asyncio.wait({timer, *busy}, return_when=asyncio.FIRST_COMPLETED)
        late = [run for run in runs.running if concerns(run)]
        await asyncio.gather(*(self._shut_down(run, reason) for run in late))
        return {task for task in seen if not task.done()}

    def _busy(self, concerns: Callable[[Run], bool]) -> "set[asyncio.Task[None]]":
        return {
            task
            for run in self.runs.running
            if concerns(run)
            for task in (run.task, run.stopping)
            if task is not None and not task.done()
        }

    async def _shut_down(self, run: Run, reason: str) -> None:
        runs = self.runs
        # A run that has its answer has nothing to resume, and needs no task.
        is_resumable = run.agent.resumes and run.state is not RunState.ANSWERED
        if not is_resumable or (run.live is None and not runs.recorder.reveal(run)):
            await runs.stop_run(run, Step.FAIL, reason)
            return
        runs.happen(run, RunEvent.DETACH)
        if run.state is not RunState.DETACHED:
            await runs.stop_run(run, Step.FAIL, "")
            return
        assert run.task is not None
        grace = runs.grace(run)
        await asyncio.wait({grace, run.task}, return_when=asyncio.FIRST_COMPLETED)
        grace.cancel()
