"""Puts a Python agent behind the `Backend` port."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from trunkline.backends.python.cancellation import Cancellation
from trunkline.backends.python.decorator import Agent
from trunkline.backends.python.run import Run
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock

# After a cancel: time for `finally` blocks, before the agent is left to itself.
DEFAULT_GRACE_S = 5.0


class PythonBackend:
    def __init__(self, agent: Agent, *, clock: Clock, grace_s: float = DEFAULT_GRACE_S) -> None:
        self.agent = agent
        self.may_reply_directly = agent.direct
        self._in_thread = not _is_async(agent.fn)
        self._clock = clock
        self._grace_s = grace_s
        # Weak, because an iterator that nobody ever looks at has no end that would tell us.
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self._live: set[Run] = set()

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        cancellation = Cancellation()
        run = Run(
            self.agent.fn,
            Turn(turn, direct=self.agent.direct, cancellation=cancellation),
            name=f"agent {self.agent.slug} {turn.run_id}",
            cancellation=cancellation,
            in_thread=self._in_thread,
            clock=self._clock,
            grace_s=self._grace_s,
            live=self._live,
            limit=self.agent.max_threads if self._in_thread else 0,
        )
        self._runs[turn.run_id] = run
        return run.outputs()

    async def cancel(self, run_id: str) -> None:
        if (run := self._runs.get(run_id)) is not None:
            run.cancel()

    async def close(self) -> None:
        live = tuple(self._live)
        for run in live:
            run.cancel()
        await asyncio.gather(*(run.stopped() for run in live))


def _is_async(fn: object) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return any(
        inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        for target in (fn, getattr(fn, "__call__", None))  # noqa: B004
    )
