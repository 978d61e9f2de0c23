"""`remote_agent`: the tool by which a model delegates work to other agents.

`open_remote_agent` makes a tool that is ready to be called.

The modules that decide have no I/O: `config`, `schema`, `ajv`, `validation` and `request` read a
request; `resolve` and `catalog` find its target; `envelope` and `failures` are the result.
`remote_agent`, `actions`, `limits` and `peers` make the calls, through `Peers` and `Handles` alone.
`a2a_send` is a smaller tool on top of `remote_agent`.
"""

from trunkline.remote.tool.config import (
    Defaults,
    InvalidConfig,
    Policy,
    TaskHandleSettings,
    ToolConfig,
    parse_config,
)
from trunkline.remote.tool.failures import Code
from trunkline.remote.tool.handle_stores import FileHandles, MemoryHandles, open_handles
from trunkline.remote.tool.handles import HandleRecord, Handles
from trunkline.remote.tool.remote_agent import RemoteAgentTool, open_remote_agent
from trunkline.remote.tool.schema import anthropic_tool, input_schema, openai_tool

__all__ = [
    "Code",
    "Defaults",
    "FileHandles",
    "HandleRecord",
    "Handles",
    "InvalidConfig",
    "MemoryHandles",
    "Policy",
    "RemoteAgentTool",
    "TaskHandleSettings",
    "ToolConfig",
    "anthropic_tool",
    "input_schema",
    "open_handles",
    "open_remote_agent",
    "openai_tool",
    "parse_config",
]
