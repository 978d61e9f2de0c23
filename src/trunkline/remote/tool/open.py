"""The tool, ready to use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from trunkline.clock import SystemClock, Uuid4Ids
from trunkline.ports.clock import Clock
from trunkline.remote.pool import Agents
from trunkline.remote.target import Limits
from trunkline.remote.tool.config import ToolConfig, parse_config
from trunkline.remote.tool.handle_stores import open_handles
from trunkline.remote.tool.tool import RemoteAgentTool

_SPARE_S: Final = 60.0


@asynccontextmanager
async def open_remote_agent(
    config: ToolConfig | object, *, handles: Path | None = None, clock: Clock | None = None
) -> AsyncIterator[RemoteAgentTool]:
    """`async with open_remote_agent(config) as remote_agent`, then `await remote_agent(request)`.

    `config` is the plugin's document or the same as settings; `handles` is the file in which
    task handles outlive the process. Raises ConfigError for a configuration that cannot work,
    and ToolFailure for a transport that is not spoken here.
    """
    settings = config if isinstance(config, ToolConfig) else parse_config(config)
    clock = clock or SystemClock()
    # The tool itself ends a stream in time; this is for the case that it cannot.
    limits = Limits(stream_s=settings.defaults.max_stream_ms / 1000 + _SPARE_S)
    store = open_handles(handles, durable=settings.task_handles.durable)
    async with Agents(limits=limits, clock=clock) as peers:
        try:
            yield RemoteAgentTool(settings, peers=peers, handles=store, clock=clock, ids=Uuid4Ids())
        finally:
            await store.close()
