"""`PythonBackend`: a Python agent behind the `Backend` port."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Mapping
from weakref import WeakValueDictionary

from trunkline.backends.kind import Resources
from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.python import settings as python_settings
from trunkline.backends.python.async_functions import AsyncFunctionRun
from trunkline.backends.python.decorator import Agent
from trunkline.backends.python.plain_functions import PlainFunctionRun
from trunkline.backends.python.turn import Cancellation, Turn
from trunkline.backends.turn_task import done_within
from trunkline.model.errors import GatewayBug
from trunkline.model.outputs import Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import TurnTool

# After a cancel, the backend waits this long for the agent's `finally` blocks.
DEFAULT_GRACE_S = 5.0


class PythonBackend:
    def __init__(
        self,
        agent: Agent,
        *,
        clock: Clock,
        grace_s: float = DEFAULT_GRACE_S,
        tools: Mapping[str, TurnTool] | None = None,
    ) -> None:
        """`tools` are those with which the agent calls others."""
        self._tools = tools or {}
        self.agent = agent
        self.may_reply_directly = agent.direct
        self.is_pure = agent.pure
        self.can_resume = False
        self._in_thread = not _is_async(agent.fn)
        self._clock = clock
        self._grace_s = grace_s
        # Weak, because a run whose reader never begins to iterate never ends.
        self._threads: WeakValueDictionary[str, PlainFunctionRun] = WeakValueDictionary()
        self._live_threads: set[PlainFunctionRun] = set()
        # Runs from their start to the end of their outputs; a plain dict is faster than a weak one.
        self._inline: dict[str, AsyncFunctionRun] = {}

    @functools.cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        cancellation = Cancellation()
        agent_turn = Turn(
            turn, direct=self.agent.direct, cancellation=cancellation, tools=self._tools
        )
        go_on = functools.partial(
            AsyncFunctionRun,
            run_id=turn.run_id,
            cancellation=cancellation,
            live=self._inline,
            loop=self._loop,
        )
        if not self._in_thread:
            return go_on(self.agent.fn, agent_turn).outputs()
        run = self._threads[turn.run_id] = PlainFunctionRun(
            agent=self.agent,
            turn=agent_turn,
            name=f"agent {self.agent.slug} {turn.run_id}",
            cancellation=cancellation,
            clock=self._clock,
            grace_s=self._grace_s,
            live=self._live_threads,
            go_on=go_on,
            loop=self._loop,
            channel=OutputChannel(loop=self._loop),
            stopped=self._loop.create_future(),
        )
        return run.outputs()

    async def cancel(self, run_id: str) -> None:
        run = self._inline.get(run_id) or self._threads.get(run_id)
        if run is not None:
            run.cancel()

    async def close(self) -> None:
        runs: list[PlainFunctionRun | AsyncFunctionRun] = [
            *self._live_threads,
            *self._inline.values(),
        ]
        for run in runs:
            run.cancel()
        # A run between two outputs ends only when its reader goes on or leaves.
        pending = [run.stopped for run in runs if run.is_busy]
        if pending:
            await done_within(asyncio.gather(*pending), self._grace_s, self._clock)


def _is_async(fn: object) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return any(
        inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        for target in (fn, getattr(fn, "__call__", None))  # noqa: B004
    )


def make(settings: python_settings.PythonBackend, resources: Resources) -> PythonBackend:
    if not isinstance(resources.code, Agent):
        raise GatewayBug(f"{settings.target} was not loaded")
    return PythonBackend(
        resources.code,
        clock=resources.clock,
        grace_s=resources.profile.cancel_grace_s,
        tools=resources.tools,
    )
