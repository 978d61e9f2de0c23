"""Tools that models and scripts call, whatever carries the call."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from trunkline.ports.backend import TurnRequest

Envelope: TypeAlias = dict[str, Any]
OnUpdate: TypeAlias = Callable[[Envelope], Awaitable[None] | None]


class Signal(Protocol):
    """How a caller calls a request off; an `asyncio.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self) -> Awaitable[Any]: ...


class Run(Protocol):
    """One request in, one envelope out; its `ok` tells a result from a failure.

    Raises nothing for what a request holds. `on_update` gets an envelope for everything that
    happens on the way, `signal` calls the request off.
    """

    def __call__(
        self, request: object, *, on_update: OnUpdate | None = None, signal: Signal | None = None
    ) -> Coroutine[Any, Any, Envelope]: ...


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """What a model is told of a tool: `input_schema` is JSON Schema, of an object."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]

    def as_openai(self) -> dict[str, Any]:
        """For `tools` of chat completions."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema,
        }
        return {"type": "function", "function": function}

    def as_anthropic(self) -> dict[str, Any]:
        """For `tools` of the messages API."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
        }


class Tool(Struct, frozen=True, kw_only=True):
    definition: ToolDefinition
    run: Run
    # An update in a few words, for people who wait.
    describe: Callable[[Envelope], str]


class ToolResult(Struct, frozen=True):
    """What a call in a turn gave, as JSON. An error is for the model to read, and make up for."""

    value: Any
    is_error: bool = False


class TurnTool(Protocol):
    """A tool as an agent uses it while it runs a turn. It raises for a fault of its own only:
    the model learns no more than that."""

    @property
    def definition(self) -> ToolDefinition: ...

    async def call(
        self, arguments: Any, *, turn: TurnRequest, on_update: Callable[[Any], None]
    ) -> ToolResult:
        """`arguments` are whatever JSON the model wrote. To cancel the call is to stop it.

        An update stands for all before it: those that nobody had time to read are left out.
        """
        ...

    async def close(self) -> None:
        """Whoever calls afterwards opens it again."""
        ...
