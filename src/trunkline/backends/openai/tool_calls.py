"""`ToolCalls`: carries out the tools that a model calls, and reports their results."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from trunkline.backends.json_values import json_object
from trunkline.backends.openai.answer import ModelCall
from trunkline.backends.output_channel import OutputChannel
from trunkline.model.outputs import ToolCalled
from trunkline.ports.backend import TurnRequest
from trunkline.ports.tools import ToolResult, TurnTool

_log = logging.getLogger("trunkline.backends.openai")

# The model gets this much of a result, so that room for the conversation is left.
_RESULT_CHARS: Final = 64 * 1024


class ToolCalls:
    def __init__(
        self, tools: Sequence[TurnTool], turn: TurnRequest, channel: OutputChannel
    ) -> None:
        self._tools = {tool.definition.name: tool for tool in tools}
        self._turn = turn
        self._channel = channel

    async def run(self, calls: Sequence[ModelCall], *, number: int) -> list[dict[str, Any]]:
        """The messages with the results, in the order of the calls, which run side by side.

        Servers repeat their ids from answer to answer, so `number` is part of those that
        callers see.
        """
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._one(call, f"{number}-{call.id}")) for call in calls]
        return [
            {"role": "tool", "tool_call_id": call.id, "content": task.result()}
            for call, task in zip(calls, running, strict=True)
        ]

    async def _one(self, call: ModelCall, shown_id: str) -> str:
        arguments = json_object(call.arguments)

        def called(phase: str, data: Any, *, is_error: bool = False) -> ToolCalled:
            return ToolCalled(
                call_id=shown_id, name=call.name, phase=phase, data=data, is_error=is_error
            )

        await self._channel.put(called("start", arguments))
        result = await self._result(call, arguments, called)
        await self._channel.put(called("result", result.value, is_error=result.is_error))
        return _for_model(result)

    async def _result(
        self, call: ModelCall, arguments: Any, called: Callable[[str, Any], ToolCalled]
    ) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return _error(f"There is no tool {call.name!r}. Tools: {known}.")
        if arguments is None:
            return _error("The arguments are not a JSON object.")
        updates = _Latest()
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._tell(updates, called))
            try:
                return await tool.call(arguments, turn=self._turn, on_update=updates.put)
            except Exception:  # noqa: BLE001 - logged; the model learns that it failed, and no more
                _log.exception("a tool failed", extra={"tool": call.name, "run": self._turn.run_id})
                return _error("The tool failed.")
            finally:
                telling.cancel()

    async def _tell(self, updates: "_Latest", called: Callable[[str, Any], ToolCalled]) -> None:
        while True:
            await self._channel.put(called("update", await updates.get()))


class _Latest:
    """The latest update: each holds the whole progress so far, so a slow reader may skip some."""

    def __init__(self) -> None:
        self._update: Any = None
        self._has_one = asyncio.Event()

    def put(self, update: Any) -> None:
        self._update = update
        self._has_one.set()

    async def get(self) -> Any:
        await self._has_one.wait()
        self._has_one.clear()
        return self._update


def _error(text: str) -> ToolResult:
    return ToolResult({"error": text}, is_error=True)


def _for_model(result: ToolResult) -> str:
    value = result.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= _RESULT_CHARS:
        return text
    return f"{text[:_RESULT_CHARS]}\n[cut off: the result is {len(text)} characters long]"
