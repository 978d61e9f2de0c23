"""Tools for models and scripts: their definitions, and ways to open them, such as MCP."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from trunkline.app.outbound import open_a2a_send, open_tool
from trunkline.ports.tools import Run, Tool, ToolDefinition
from trunkline.remote.tool import a2a_send, input_schema
from trunkline.remote.tool.schema import DESCRIPTION, NAME
from trunkline.server.endpoint import Limits
from trunkline.server.mcp import require_mcp
from trunkline.settings import Settings
from trunkline.version import VERSION

if TYPE_CHECKING:
    from trunkline.server.access import Access

    # Needs a package that not every installation has.
    from trunkline.server.mcp.http import McpEndpoint

_SHOWN_CHARS = 200


# A new tool has a line here and a definition below.
OPEN: Final[Mapping[str, Callable[[Settings], AbstractAsyncContextManager[Run]]]] = {
    NAME: open_tool,
    a2a_send.NAME: open_a2a_send,
}


def definitions(settings: Settings) -> list[ToolDefinition]:
    """The tools that are on. To define one needs no connection."""
    aliases, remote = tuple(settings.targets), settings.remote
    remote_agent = ToolDefinition(
        name=NAME,
        title="Remote agents (A2A)",
        description=DESCRIPTION,
        input_schema=input_schema(aliases),
    )
    send = ToolDefinition(
        name=a2a_send.NAME,
        title="Message to a remote agent (A2A)",
        description=a2a_send.DESCRIPTION,
        input_schema=a2a_send.input_schema(aliases),
    )
    return [one for one in (remote_agent, send) if remote.enabled and one.name in remote.tools]


@asynccontextmanager
async def open_tools(settings: Settings) -> AsyncIterator[dict[str, Tool]]:
    """All tools that are on, by name. Raises ConfigError."""
    async with AsyncExitStack() as opened:
        yield {
            definition.name: Tool(
                definition=definition,
                run=await opened.enter_async_context(OPEN[definition.name](settings)),
                describe=describe_remote_agent,
            )
            for definition in definitions(settings)
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


def mcp_endpoint(
    settings: Settings, access: "Access", *, in_force: Callable[[], Settings]
) -> "McpEndpoint":
    """The tools over MCP at `/mcp`. Each session has those of the settings that are in force when
    it begins. Raises ConfigError where the package is missing."""
    require_mcp()
    from trunkline.server.mcp.http import McpEndpoint, Sessions

    return McpEndpoint(
        lambda: open_tools(in_force()),
        access=access,
        limits=Limits(
            max_body_bytes=settings.server.max_body_bytes,
            max_json_depth=settings.server.max_json_depth,
        ),
        sessions=Sessions(
            limit=settings.remote.max_mcp_sessions,
            limit_per_caller=settings.remote.max_mcp_sessions_per_caller,
            idle_s=settings.remote.mcp_idle_s,
        ),
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
