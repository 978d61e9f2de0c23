"""Puts another A2A agent behind the `Backend` port."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from weakref import WeakValueDictionary

from trunkline.backends.a2a import notes as kept_notes
from trunkline.backends.a2a.cards import UpstreamCard
from trunkline.backends.a2a.run import Run
from trunkline.backends.a2a.settings import A2aBackend as A2aSettings
from trunkline.backends.a2a.upstream import (
    MakeUpstream,
    Reach,
    Upstream,
    limits_of,
    upstream_target,
)
from trunkline.backends.flood import limited
from trunkline.backends.kind import Resources
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import Output
from trunkline.ports.backend import Notes, TurnRequest
from trunkline.ports.clock import Clock
from trunkline.remote import Agents
from trunkline.remote.errors import RemoteError

_log = logging.getLogger("trunkline.backends.a2a")


class A2aBackend:
    may_reply_directly = False
    is_pure = False
    can_resume = True

    def __init__(
        self,
        make_upstream: MakeUpstream,
        *,
        url: str,
        clock: Clock,
        reach: Reach | None = None,
        close_upstream: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._make_upstream = make_upstream
        self._upstream = make_upstream({}, None)
        self._clock = clock
        self._reach = reach or Reach()
        self._close_upstream = close_upstream
        self._tasks = BackgroundTasks("a2a")
        # Weak, because an iterator that nobody ever looks at has no end that would tell us.
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self.card = UpstreamCard(url=url, clock=clock)

    async def open(self, agent: str, notes: Notes) -> None:
        await self.card.recall(notes)
        self._tasks.spawn(self.card.keep_fresh(self._upstream, notes), name="upstream card")

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        run = Run(
            turn,
            self._make_upstream,
            card=self.card.latest,
            reach=self._reach,
            clock=self._clock,
            tasks=self._tasks,
        )
        self._runs[turn.run_id] = run

        async def stop() -> None:
            await self.cancel(turn.run_id)

        return limited(run.outputs(), max_bytes=self._reach.max_output_bytes, stop=stop)

    async def cancel(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        run.stop()
        task_id = run.task_id
        if not task_id and run.is_sent:
            # The message is on its way, or was refused.
            task = await run.find()
            task_id = task.id if task is not None else ""
        if task_id:
            await self._cancel(task_id, run_id)

    async def abandon(self, run_id: str, notes: Notes) -> None:
        if (run := self._runs.get(run_id)) is not None:
            run.stop()
        kept = kept_notes.read(await notes.recall(kept_notes.name_of(run_id)))
        if kept is not None and kept.task:
            await self._cancel(kept.task, run_id)

    async def _cancel(self, task_id: str, run_id: str) -> None:
        try:
            await self._upstream.cancel(task_id)
        except RemoteError as error:
            _log.warning(
                "the agent behind the gateway did not cancel",
                extra={
                    "run_id": run_id,
                    "upstream_task": task_id,
                    "reason": error.reason,
                    "error": error.message,
                },
            )

    async def close(self) -> None:
        for run in tuple(self._runs.values()):
            run.stop()
        await self._tasks.close()
        if self._close_upstream is not None:
            await self._close_upstream()


def make(settings: A2aSettings, resources: Resources) -> A2aBackend:
    target = upstream_target(settings, allow_private=resources.allow_private)
    agents = Agents(clock=resources.clock, limits=limits_of(settings))
    usual = agents.at(target)

    def upstream(headers: dict[str, str], timeout_s: float | None) -> Upstream:
        if not headers and timeout_s is None:
            return usual
        return agents.at(target, headers=headers, timeout_s=timeout_s)

    return A2aBackend(
        upstream,
        url=settings.url,
        clock=resources.clock,
        reach=Reach(
            on_unreachable=settings.on_unreachable,
            retry_s=settings.retry_s,
            turn_s=resources.profile.task_deadline_s,
            max_output_bytes=settings.max_output_bytes,
            version=settings.a2a_version,
        ),
        close_upstream=agents.close,
    )
