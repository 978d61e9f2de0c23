"""`TOOLS`: the tools by which agents ask each other, one entry for each.

Every way to a tool is made of its entry: `turn.call` of Python agents, the functions of models,
HTTP, MCP and the command line.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from trunkline.engine.agent_calls import CallRefused, CallTool
from trunkline.model.errors import StoreError, Unavailable
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.tools import ToolDefinition, ToolResult
from trunkline.protocol import skill_calls
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls
from trunkline.routing.plan_runs import OnSteps
from trunkline.routing.plans import Plans
from trunkline.routing.polls import Polls
from trunkline.routing.tool_definitions import (
    AGENT_CALL,
    AGENT_POLL,
    BATCH,
    BATCH_DEFINITION,
    CALL_DEFINITION,
    DEBATE,
    DEBATE_DEFINITION,
    POLL_DEFINITION,
)

_log = logging.getLogger("trunkline.routing")

# The exact cause is for the operator: the messages of a store name files.
NOT_NOW: Final = "the gateway cannot do that at the moment; try again later"
# Gets the progress of a tool; each update holds all of it so far.
OnUpdate: TypeAlias = Callable[[Any], None]


def unseen(_: Any) -> None:
    """For progress that is not watched."""


class Toolbox(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of routing that carry out tools."""

    calls: Calls
    polls: Polls
    plans: Plans


class RoutedTool(Struct, frozen=True):
    definition: ToolDefinition
    run: Callable[[Toolbox, CallingTurn, Any, OnUpdate], Awaitable[dict[str, Any]]]


class Action(Struct, frozen=True):
    """Carries out a tool in the name of a turn. Raises CallRefused."""

    toolbox: Toolbox
    tool: RoutedTool

    async def __call__(
        self, turn: CallingTurn, arguments: Any, on_update: OnUpdate = unseen
    ) -> dict[str, Any]:
        return await self.tool.run(self.toolbox, turn, arguments, on_update)


async def _call(toolbox: Toolbox, turn: CallingTurn, arguments: Any, _: OnUpdate) -> dict[str, Any]:
    return await toolbox.calls.call(turn, arguments, source_tool=AGENT_CALL)


async def _poll(toolbox: Toolbox, turn: CallingTurn, arguments: Any, _: OnUpdate) -> dict[str, Any]:
    return await toolbox.polls.poll(turn, arguments)


async def _batch(
    toolbox: Toolbox, turn: CallingTurn, arguments: Any, on_update: OnUpdate
) -> dict[str, Any]:
    return await toolbox.plans.batch(turn, arguments, on_steps=_steps(on_update))


async def _debate(
    toolbox: Toolbox, turn: CallingTurn, arguments: Any, on_update: OnUpdate
) -> dict[str, Any]:
    return await toolbox.plans.debate(turn, arguments, on_steps=_steps(on_update))


def _steps(on_update: OnUpdate) -> OnSteps:
    return lambda steps: on_update({"steps": steps})


# A new tool has an entry here, and its name in `CallTool`.
TOOLS: Final[Mapping[CallTool, RoutedTool]] = {
    AGENT_CALL: RoutedTool(CALL_DEFINITION, _call),
    AGENT_POLL: RoutedTool(POLL_DEFINITION, _poll),
    BATCH: RoutedTool(BATCH_DEFINITION, _batch),
    DEBATE: RoutedTool(DEBATE_DEFINITION, _debate),
}


def actions(toolbox: Toolbox) -> dict[str, tuple[ToolDefinition, Action]]:
    """All tools, by name."""
    return {name: (tool.definition, Action(toolbox, tool)) for name, tool in TOOLS.items()}


async def carried_out(
    action: Action, turn: CallingTurn, arguments: Any, on_update: OnUpdate = unseen
) -> ToolResult:
    try:
        return ToolResult(await action(turn, arguments, on_update))
    except CallRefused as refused:
        return ToolResult(skill_calls.refusal(refused.code, refused.text), is_error=True)
    except (StoreError, Unavailable) as error:
        # An agent can react to it; an exception would end its turn.
        _log.warning("a tool could not be used", extra={"reason": error.message})
        text = error.message if isinstance(error, Unavailable) else NOT_NOW
        return ToolResult(skill_calls.refusal("call_failed", text), is_error=True)


class RoutingTool:
    """A tool of routing for the turns of agents. It implements `ports.tools.TurnTool`."""

    def __init__(self, definition: ToolDefinition, action: Action) -> None:
        self.definition = definition
        self._action = action

    async def call(
        self, arguments: Any, *, turn: TurnRequest, on_update: Callable[[Any], None]
    ) -> ToolResult:
        calling = CallingTurn.of(turn, CALL_PATH.get())
        if calling is None:
            return ToolResult({"status": "error", "error": "there is no gateway"}, is_error=True)
        return await carried_out(self._action, calling, arguments, on_update)

    async def close(self) -> None:
        """Nothing is open."""
