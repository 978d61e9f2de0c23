"""Tools for models and scripts: their definitions, and the ways to open them, MCP among them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from trunkline.app.outbound import open_a2a_send, open_tool
from trunkline.ports.tools import Run, Tool, ToolDefinition
from trunkline.remote.tool import a2a_send, input_schema
from trunkline.remote.tool.schema import DESCRIPTION, NAME
from trunkline.server.mcp import require_mcp
from trunkline.settings import Settings
from trunkline.version import VERSION

if TYPE_CHECKING:
    from trunkline.server.access import Access

    # Needs a package that not every installation has.
    from trunkline.server.mcp.http import McpEndpoint

_SHOWN_CHARS = 200


class Kind(Struct, frozen=True, kw_only=True):
    """A tool before it is opened. To define one needs no connection."""

    name: str
    title: str
    description: str
    # Takes the aliases of the targets.
    input_schema: Callable[[tuple[str, ...]], dict[str, Any]]
    open: Callable[[Settings], AbstractAsyncContextManager[Run]]

    def is_on(self, settings: Settings) -> bool:
        return settings.remote.enabled and self.name in settings.remote.tools

    def define(self, settings: Settings) -> ToolDefinition:
        return ToolDefinition(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema(tuple(settings.targets)),
        )


# A new tool is a line here.
KINDS = (
    Kind(
        name=NAME,
        title="Remote agents (A2A)",
        description=DESCRIPTION,
        input_schema=input_schema,
        open=open_tool,
    ),
    Kind(
        name=a2a_send.NAME,
        title="Message to a remote agent (A2A)",
        description=a2a_send.DESCRIPTION,
        input_schema=a2a_send.input_schema,
        open=open_a2a_send,
    ),
)


def definitions(settings: Settings) -> list[ToolDefinition]:
    return [kind.define(settings) for kind in KINDS if kind.is_on(settings)]


@asynccontextmanager
async def open_tools(settings: Settings) -> AsyncIterator[dict[str, Tool]]:
    """All tools that are on, by name. Raises ConfigError."""
    async with AsyncExitStack() as opened:
        yield {
            kind.name: Tool(
                definition=kind.define(settings),
                run=await opened.enter_async_context(kind.open(settings)),
                describe=describe_remote_agent,
            )
            for kind in KINDS
            if kind.is_on(settings)
        }


def describe_remote_agent(update: dict[str, Any]) -> str:
    """The state of the task, and the end of the text so far."""
    summary = update["summary"]
    who = summary.get("target_alias") or summary["target_url"]
    task = summary.get("continuation", {}).get("task", {})
    text = " ".join(summary.get("message_text", "").split())
    if len(text) > _SHOWN_CHARS:
        text = f"…{text[-_SHOWN_CHARS:]}"
    return ": ".join(part for part in (who, task.get("status", ""), text) if part)


def mcp_endpoint(settings: Settings, access: "Access") -> "McpEndpoint":
    """The tools over MCP at `/mcp`. Raises ConfigError where the package is missing."""
    require_mcp()
    from trunkline.server.mcp.http import McpEndpoint

    return McpEndpoint(
        lambda: open_tools(settings),
        access=access,
        max_body_bytes=settings.server.max_body_bytes,
        max_json_depth=settings.server.max_json_depth,
        max_sessions=settings.remote.max_mcp_sessions,
        max_sessions_per_caller=settings.remote.max_mcp_sessions_per_caller,
        idle_s=settings.remote.mcp_idle_s,
        version=VERSION,
    )


async def serve_stdio(settings: Settings, *, on_end: Callable[[], None]) -> None:
    """The tools over MCP on standard input and output, until the input ends.

    `on_end` is called when no call runs any more. Raises ConfigError.
    """
    require_mcp()
    from trunkline.server.mcp.tools import serve_stdio as serve

    async with open_tools(settings) as tools:
        await serve(tools, version=VERSION, on_end=on_end)
