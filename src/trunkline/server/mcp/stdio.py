"""MCP on stdin and stdout, for a host that starts us."""

from collections.abc import Callable
from contextlib import nullcontext

from mcp.server.stdio import stdio_server

from trunkline.server.mcp.serving import Tools, make_server


async def serve_stdio(tools: Tools, *, version: str, on_end: Callable[[], None]) -> None:
    """Until stdin ends; what runs then is called off.

    Canceled, it ends the calls in the same way and says so by `on_end`, but returns only when
    stdin has something to read: nothing else wakes the thread that waits for it.
    """
    server = make_server(lambda: nullcontext(tools), version=version)
    async with stdio_server() as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            on_end()
