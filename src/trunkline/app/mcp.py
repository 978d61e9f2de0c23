"""The tools over MCP, as the settings have them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from trunkline.server.access import Access
from trunkline.server.asgi import Receive, Scope, Send
from trunkline.server.mcp import require_mcp
from trunkline.settings import Settings
from trunkline.version import VERSION


class Mcp(Protocol):
    """`trunkline.server.mcp.http.McpEndpoint`, which not everybody can import."""

    def running(self) -> AbstractAsyncContextManager[None]: ...

    def stop(self) -> None: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def mcp_endpoint(settings: Settings, access: Access) -> Mcp:
    """Raises ConfigError where the package is missing."""
    require_mcp()
    from trunkline.app.tools import open_tools
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
    """Until stdin ends; `on_end` is called when no call runs any more. Raises ConfigError."""
    require_mcp()
    from trunkline.app.tools import open_tools
    from trunkline.server.mcp.tools import serve_stdio as serve

    async with open_tools(settings) as tools:
        await serve(tools, version=VERSION, on_end=on_end)
