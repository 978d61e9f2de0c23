"""The tool as hosts of plugins call it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trunkline.ports.tools import OnUpdate, Signal
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.envelope import Envelope
from trunkline.remote.tool.tool import RemoteAgentTool


def is_registered(config: ToolConfig, registration_mode: str) -> bool:
    """One optional tool, and only where the configuration turns it on."""
    return registration_mode == "full" and config.enabled


def json_result(envelope: Envelope) -> dict[str, Any]:
    """The envelope as the host passes results of tools to its model."""
    text = msgspec.json.format(msgspec.json.encode(envelope), indent=2).decode()
    return {"content": [{"type": "text", "text": text}], "details": envelope}


async def execute(
    tool: RemoteAgentTool,
    first: str | Mapping[str, Any],
    params: object = None,
    signal: Signal | None = None,
    on_update: OnUpdate | None = None,
) -> dict[str, Any]:
    """Both calling conventions: `(params, …)`, and `(call_id, params, signal, on_update)`."""
    request = params if isinstance(first, str) else first
    return json_result(await tool(request, on_update=on_update, signal=signal))
