"""Tools over the Model Context Protocol, for the programs that models run in.

`tools` lists and calls them, also on stdin and stdout; `http` serves them over HTTP. Both need the
package `mcp`, so call `require_mcp` before importing them.
"""

from importlib.util import find_spec

from trunkline.extras import install_command
from trunkline.model.errors import ConfigError

PATH = "/mcp"


def require_mcp() -> None:
    """Raises ConfigError where the package is not installed."""
    if find_spec("mcp") is None:
        raise ConfigError(
            "MCP needs the package mcp, which is not installed. "
            f"Install it: {install_command('mcp')}"
        )
