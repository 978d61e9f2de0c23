"""`make_server` and `serve_stdio`: the tools as an MCP server, also on stdin and stdout."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

import anyio
import msgspec
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from trunkline.background import BackgroundTasks
from trunkline.ports.tools import Envelope, Tool

Tools: TypeAlias = Mapping[str, Tool]
OpenTools: TypeAlias = Callable[[], AbstractAsyncContextManager[Tools]]
Context: TypeAlias = ServerRequestContext[Tools]


def make_server(open_tools: OpenTools, *, version: str) -> Server[Tools]:
    """The tools are open for as long as the server runs."""
    return Server[Tools](
        "trunkline",
        title="Trunkline",
        version=version,
        lifespan=lambda _: open_tools(),
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=[_shown(tool) for tool in context.lifespan_context.values()])


def _shown(tool: Tool) -> McpTool:
    definition = tool.definition
    return McpTool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.input_schema,
        annotations=ToolAnnotations(read_only_hint=False, open_world_hint=True),
    )


async def _call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    tools = context.lifespan_context
    tool = tools.get(params.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        message = f'there is no tool "{params.name[:64]}"; there is: {known}'
        raise MCPError(INVALID_PARAMS, message)
    envelope = await _run(tool, params.arguments or {}, context)
    text = msgspec.json.encode(envelope).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=envelope,
        is_error=tool.has_failed(envelope),
    )


async def _run(tool: Tool, arguments: object, context: Context) -> Envelope:
    """Run the tool. When the caller cancels, tell the tool to stop and wait for its end."""
    count = 0

    async def on_update(update: Envelope) -> None:
        nonlocal count
        count += 1
        await context.session.report_progress(count, message=tool.describe(update))

    called_off = asyncio.Event()
    envelopes: list[Envelope] = []

    async def run() -> None:
        envelopes.append(await tool.run(arguments, on_update=on_update, signal=called_off))

    running = BackgroundTasks("mcp").start(run(), name=f"mcp {tool.definition.name}")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        called_off.set()
        # Canceling the remote task takes a moment, which the tool itself limits.
        with anyio.CancelScope(shield=True):
            await asyncio.wait([running])
        raise
    return envelopes[0]


async def serve_stdio(tools: Tools, *, version: str, on_end: Callable[[], None]) -> None:
    """Serve until stdin ends; running tools are then told to stop.

    When this is canceled, it stops the tools in the same way and calls `on_end`, but it returns
    only when stdin has something to read: nothing else wakes the thread that reads stdin.
    """
    server = make_server(lambda: nullcontext(tools), version=version)
    async with stdio_server() as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            on_end()
