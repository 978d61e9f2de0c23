"""`trunkline mcp`."""

import os
import sys

from trunkline.cli.exit_codes import Exit
from trunkline.cli.tool import ToolFlags, interrupt_event, log_warnings


def mcp(flags: ToolFlags) -> None:
    """Serve the tools over MCP, on stdin and stdout.

    An MCP host starts this command; docs/guides/mcp.md has the configuration for several hosts.
    The command ends at the end of stdin. Needs the extra mcp.
    """
    import asyncio

    from trunkline.app.tools import serve_stdio
    from trunkline.background import BackgroundTasks

    settings = flags.settings()
    log_warnings(settings)
    if sys.stdin.isatty():
        print(
            "This speaks MCP on stdin and stdout, and is started by a host of models. "
            "Stop with Ctrl+D.",
            file=sys.stderr,
        )

    async def serve() -> None:
        background, calls_ended = BackgroundTasks("mcp"), asyncio.Event()
        serving = asyncio.current_task()
        with interrupt_event() as interrupted:

            async def exit_on_interrupt() -> None:
                await interrupted.wait()
                if serving is not None:
                    serving.cancel()
                await calls_ended.wait()
                # Python would wait for the thread that reads stdin, which nothing can wake.
                os._exit(Exit.INTERRUPTED)

            background.spawn(exit_on_interrupt(), name="exit on interrupt")
            try:
                await serve_stdio(settings, on_end=calls_ended.set)
            finally:
                if interrupted.is_set():
                    os._exit(Exit.INTERRUPTED)
                await background.close()

    asyncio.run(serve())
