"""The tools of the gateway, as models use them."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from trunkline.app.tools import OPEN, definitions
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.background import BackgroundTasks
from trunkline.ports.backend import TurnRequest
from trunkline.ports.tools import Run, ToolDefinition, ToolResult, TurnTool
from trunkline.settings import AgentSettings, Settings

# Seconds for a canceled call to end, because it may have to send a cancel request.
_CALL_OFF_S: Final = 15.0


def model_tools(agent: AgentSettings, settings: Settings) -> dict[str, TurnTool]:
    """The tools that the agent uses, by name. A tool connects at its first call."""
    if agent.isolated or not uses_tools(agent):
        return {}
    assert isinstance(agent.backend, OpenAIBackend)
    return {
        definition.name: OpenedWhenCalled(definition, settings)
        for definition in definitions(settings)
        if definition.name in agent.backend.tools
    }


def uses_tools(agent: AgentSettings) -> bool:
    return isinstance(agent.backend, OpenAIBackend) and bool(agent.backend.tools)


class OpenedWhenCalled:
    """A tool that is opened at its first call. Each agent has its own, because the backend of an
    agent that is withdrawn closes its tools and ends their calls."""

    def __init__(self, definition: ToolDefinition, settings: Settings) -> None:
        self.definition = definition
        self._settings = settings
        self._calls = BackgroundTasks(self.definition.name)
        self._resources = AsyncExitStack()
        self._run: Run | None = None
        self._opening = asyncio.Lock()

    async def call(
        self, arguments: Any, *, turn: TurnRequest, on_update: Callable[[Any], None]
    ) -> ToolResult:
        run = await self._opened()
        called_off = asyncio.Event()
        call = self._calls.start(
            run(arguments, on_update=on_update, signal=called_off),
            name=f"{self.definition.name} {turn.run_id}",
        )
        try:
            envelope = await asyncio.shield(call)
        except asyncio.CancelledError:
            # The tool may have a remote task to cancel.
            called_off.set()
            _, late = await asyncio.wait({call}, timeout=_CALL_OFF_S)
            for task in late:
                task.cancel()
            raise
        return ToolResult(envelope, is_error=envelope.get("ok") is not True)

    async def close(self) -> None:
        async with self._opening:
            self._run = None
            await self._calls.close()
            await self._resources.aclose()

    async def _opened(self) -> Run:
        async with self._opening:
            if self._run is None:
                opening = OPEN[self.definition.name](self._settings)
                self._run = await self._resources.enter_async_context(opening)
            return self._run
