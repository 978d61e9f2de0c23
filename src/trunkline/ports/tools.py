"""`Tool` and `TurnTool`: tools that models and scripts call, by any protocol."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from trunkline.config.secret import Secret
from trunkline.ports.backend import TurnRequest

Envelope: TypeAlias = dict[str, Any]
OnUpdate: TypeAlias = Callable[[Envelope], Awaitable[None] | None]


class Signal(Protocol):
    """A caller sets it to cancel a request; an `asyncio.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self) -> Awaitable[Any]: ...


class Run(Protocol):
    """One request in, one envelope out; its `ok` tells a result from a failure.

    An invalid request gives a failure and does not raise. `on_update` gets an envelope for every
    event on the way, `signal` cancels the request.
    """

    def __call__(
        self, request: object, *, on_update: OnUpdate | None = None, signal: Signal | None = None
    ) -> Coroutine[Any, Any, Envelope]: ...


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """The description of a tool for a model. `input_schema` is JSON Schema, of an object."""

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
    has_failed: Callable[[Envelope], bool] = lambda envelope: envelope["ok"] is not True


class ToolResult(Struct, frozen=True):
    """The JSON result of a call in a turn. The model reads an error and may correct its call."""

    value: Any
    is_error: bool = False


class TurnTool(Protocol):
    """A tool as an agent uses it while it runs a turn. It raises for its own faults only, and the
    model does not see their text."""

    @property
    def definition(self) -> ToolDefinition: ...

    async def call(
        self, arguments: Any, *, turn: TurnRequest, on_update: Callable[[Any], None]
    ) -> ToolResult:
        """`arguments` are the JSON that the model wrote, unchecked. Cancelling the call stops it.

        An update replaces all updates before it, so a slow reader gets the latest only.
        """
        ...

    async def close(self) -> None:
        """Release the tool. A later call opens it again."""
        ...


class LentTools(Struct, frozen=True, kw_only=True):
    """How the program of a turn reaches its tools over HTTP."""

    # Without a slash at the end; a tool is one segment below it.
    url: str
    # Of the same tools over MCP; empty where the gateway does not serve it.
    mcp_url: str = ""
    token: Secret


class LendsTools(Protocol):
    """Lets the programs of agents use tools of the gateway during their turns."""

    def lend(
        self, turn: TurnRequest, tools: Sequence[str], *, token: Secret | None = None
    ) -> AbstractAsyncContextManager[LentTools | None]:
        """The tools of these names, from the beginning of the context to a minute after its end.
        It is entered in the asyncio task of the turn.

        `token` is that of an earlier turn of the same session, for a program that still runs; it
        is valid again. None where the gateway cannot lend tools now, and the log says why.
        """
        ...


class ProgramTools(Protocol):
    """The tools of one turn, for the program that has its token."""

    @property
    def definitions(self) -> Sequence[ToolDefinition]: ...

    async def call(
        self, name: str, arguments: Any, on_update: Callable[[Any], None] | None = None
    ) -> dict[str, Any]:
        """`arguments` are JSON, unchecked; `on_update` gets progress, each time all of it. Raises
        `engine.agent_calls.CallRefused`, and PermissionDenied for a tool that the program does not
        have."""
        ...


class ToolTokens(Protocol):
    async def find(self, token: str) -> ProgramTools:
        """The tools that go with a token. Raises Unauthenticated and StoreError."""
        ...
