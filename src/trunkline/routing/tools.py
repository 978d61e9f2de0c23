"""`TOOLS`: the tools by which agents ask each other, one entry for each.

Every way to a tool is made of its entry: `turn.call` of Python agents, the functions of models,
HTTP, MCP and the command line.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Struct

from trunkline.engine.agent_calls import CallRefused, CallTool
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.tools import ToolDefinition, ToolResult
from trunkline.protocol import skill_calls
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls
from trunkline.routing.polls import Polls

AGENT_CALL: Final = "agent_call"
AGENT_POLL: Final = "agent_poll"

_TEXT: Final = {"type": "string"}
CALL_DEFINITION: Final = ToolDefinition(
    name=AGENT_CALL,
    title="Ask another agent",
    description=(
        "Ask another agent of this gateway. It answers at once with the status pending; the answer "
        "itself arrives later in this conversation, as a skill_response with the same "
        "correlationId. With wait, the result is the answer. An answer with the status "
        "input_required is a question: answer it by a new call with its taskId."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "agent": {**_TEXT, "description": "The agent, such as owner/slug."},
            "skill": {**_TEXT, "description": "A skill of the agent. Leave it out for its first."},
            "input": {"description": "What the agent gets: a text, or any JSON."},
            "timeoutSeconds": {
                "type": "number",
                "minimum": 0,
                "description": "How long to wait for the answer. 0: no answer is expected.",
            },
            "wait": {"type": "boolean", "description": "Whether to wait for the answer here."},
            "taskId": {**_TEXT, "description": "The task that asked a question."},
        },
        "required": ["agent", "input"],
        "additionalProperties": False,
    },
)
POLL_DEFINITION: Final = ToolDefinition(
    name=AGENT_POLL,
    title="See how a call stands",
    description=(
        "Tell how a call of this conversation stands: working, completed, error, input_required or "
        "timeout, with its output where there is one."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "taskId": {**_TEXT, "description": "The taskId that agent_call returned."},
            "correlationId": {**_TEXT, "description": "The correlationId that it returned."},
            "agent": {**_TEXT, "description": "The agent, for a call without a timeout."},
        },
        "additionalProperties": False,
    },
)

# Carries out a call in the name of a turn. Raises CallRefused.
Action: TypeAlias = Callable[[CallingTurn, Any], Awaitable[dict[str, Any]]]


class RoutedTool(Struct, frozen=True):
    definition: ToolDefinition
    run: Callable[["Toolbox", CallingTurn, Any], Awaitable[dict[str, Any]]]


class Toolbox(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of routing that carry out tools."""

    calls: Calls
    polls: Polls


async def _call(toolbox: Toolbox, turn: CallingTurn, arguments: Any) -> dict[str, Any]:
    return await toolbox.calls.call(turn, arguments, source_tool=AGENT_CALL)


async def _poll(toolbox: Toolbox, turn: CallingTurn, arguments: Any) -> dict[str, Any]:
    return await toolbox.polls.poll(turn, arguments)


# A new tool has an entry here, and its name in `CallTool`.
TOOLS: Final[Mapping[CallTool, RoutedTool]] = {
    AGENT_CALL: RoutedTool(CALL_DEFINITION, _call),
    AGENT_POLL: RoutedTool(POLL_DEFINITION, _poll),
}


def actions(toolbox: Toolbox) -> dict[str, tuple[ToolDefinition, Action]]:
    """All tools, by name."""
    return {name: (tool.definition, partial(tool.run, toolbox)) for name, tool in TOOLS.items()}


async def carried_out(action: Action, turn: CallingTurn, arguments: Any) -> ToolResult:
    try:
        return ToolResult(await action(turn, arguments))
    except CallRefused as refused:
        return ToolResult(skill_calls.refusal(refused.code, refused.text), is_error=True)


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
        return await carried_out(self._action, calling, arguments)

    async def close(self) -> None:
        """Nothing is open."""
