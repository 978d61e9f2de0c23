"""`use_tool`: how a Python agent uses the tools of the gateway during its turn."""

from collections.abc import Mapping
from typing import Any

from trunkline.ports.backend import TurnRequest
from trunkline.ports.tools import TurnTool


async def use_tool(
    tools: Mapping[str, TurnTool], name: str, arguments: dict[str, Any], request: TurnRequest
) -> dict[str, Any]:
    """The result of a tool of the gateway. Raises RuntimeError where there is no gateway."""
    tool = tools.get(name)
    if tool is None:
        raise RuntimeError("there is no gateway that could call another agent")
    given = {key: value for key, value in arguments.items() if value is not None}
    result = await tool.call(given, turn=request, on_update=lambda _: None)
    value: dict[str, Any] = result.value
    return value
