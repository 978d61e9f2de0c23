"""`BlockingSends`: how long a blocking send waits, and the answer that it gets after that."""

import asyncio
from typing import Any

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.engine.run_states import RunState
from trunkline.engine.transitions import Step
from trunkline.model.values import HAS_WORK
from trunkline.ports.clock import Clock
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.forwarding import Forwarding
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs


class BlockingSends(Struct, frozen=True, kw_only=True, eq=False):
    """The wait of a send to an agent whose profile limits it."""

    journal: Journal
    runs: Runs
    clock: Clock
    # Where several nodes share the store.
    forwarding: Forwarding | None = None
    _timers: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("replies"))

    async def wait(
        self,
        agent: PublishedAgent,
        live: LiveTask | None,
        run: Run | None,
        *,
        is_queued: bool = False,
    ) -> Reply | NoReply | LiveTask:
        """The agent's message, or the task to answer with.

        The request has a task (`live`), or a run that may still end without one. `is_queued` says
        that the task waits in the queue of another node.
        """
        profile = agent.profile
        if profile.queued_send == "return" and live is not None and (is_queued or _is_queued(live)):
            await self.journal.durable(live)
            return live
        timer: asyncio.Task[None] | None = None
        if profile.reply_wait_s:
            timer = self._timers.start(self.clock.sleep(profile.reply_wait_s), name="reply wait")
        try:
            return await self._outcome(agent, live, run, timer)
        finally:
            if timer is not None:
                timer.cancel()

    async def _outcome(
        self,
        agent: PublishedAgent,
        live: LiveTask | None,
        run: Run | None,
        timer: "asyncio.Task[None] | None",
    ) -> Reply | NoReply | LiveTask:
        if run is not None:
            assert run.answer is not None
            # A run with an outcome is only storing its answer, which is worth waiting for.
            if not await _comes_before(run.answer, timer) and run.outcome is None:
                return await self._give_up(agent, self.runs.become_task(run))
            outcome = await run.answer
            if isinstance(outcome, Reply | NoReply):
                return outcome
            live = outcome
        assert live is not None
        settled = self.journal.settled(live)
        if await _comes_before(settled, timer):
            settled.result()
            return live
        settled.cancel()
        return await self._give_up(agent, live)

    async def _give_up(self, agent: PublishedAgent, live: LiveTask) -> LiveTask:
        profile = agent.profile
        if profile.on_reply_wait == "fail" and live.state in HAS_WORK:
            reason = profile.texts.no_reply.format(seconds=f"{profile.reply_wait_s:g}")
            if live.lease is None:
                assert self.forwarding is not None
                await self.forwarding.time_out(live, reason)
            else:
                await self.runs.stop(agent, live, Step.FAIL, reason)
        await self.journal.durable(live)
        return live


def _is_queued(live: LiveTask) -> bool:
    return bool(live.waiting) and live.waiting[-1].state is RunState.QUEUED


async def _comes_before(future: "asyncio.Future[Any]", timer: "asyncio.Task[None] | None") -> bool:
    both = {future} if timer is None else {future, timer}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    return future.done()
