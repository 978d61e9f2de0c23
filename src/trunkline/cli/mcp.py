"""`trunkline mcp`."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from trunkline.cli.exits import Exit
from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, OpenClawConfig
from trunkline.cli.storage import ConfigOption, DataOption
from trunkline.cli.tool import AllowTargetUrl, tool_settings

if TYPE_CHECKING:
    from trunkline.settings import Settings


def mcp(
    context: typer.Context,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    allow_target_url: AllowTargetUrl = False,
    debug: Debug = False,
) -> None:
    """Serve the tools over MCP, on stdin and stdout.

    An MCP host starts this command; docs/guides/mcp.md has the configuration for several hosts.
    The command ends at the end of stdin. Needs the extra mcp.
    """
    with reported(context):
        settings = tool_settings(
            config, openclaw_config, data=data, allow_target_url=allow_target_url
        )
        import asyncio

        from trunkline.cli.outbound import log_quietly

        log_quietly(settings)
        if sys.stdin.isatty():
            print(
                "This speaks MCP on stdin and stdout, and is started by a host of models. "
                "Stop with Ctrl+D.",
                file=sys.stderr,
            )
        asyncio.run(_serve(settings))


async def _serve(settings: "Settings") -> None:
    import asyncio

    from trunkline.app.tools import serve_stdio
    from trunkline.cli.interrupts import call_off_on_interrupt

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    with call_off_on_interrupt() as called_off:
        serving = loop.create_task(serve_stdio(settings, on_end=ended.set))
        waiting = loop.create_task(called_off.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not serving.done():
            serving.cancel()
            await ended.wait()
            # Python would wait for the thread that reads stdin, which nothing can wake.
            os._exit(Exit.INTERRUPTED)
        await serving
