"""The tools that this installation offers to models and scripts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct

from trunkline.app.outbound import open_a2a_send, open_tool
from trunkline.ports.tools import Run, Tool, ToolDefinition
from trunkline.remote.tool import a2a_send, input_schema
from trunkline.remote.tool.schema import DESCRIPTION, NAME
from trunkline.settings import Settings

_SHOWN_CHARS = 200


class Kind(Struct, frozen=True, kw_only=True):
    """A tool before it is opened; defining one asks nobody."""

    is_on: Callable[[Settings], bool]
    define: Callable[[Settings], ToolDefinition]
    open: Callable[[Settings], AbstractAsyncContextManager[Run]]
    describe: Callable[[dict[str, Any]], str]


def definitions(settings: Settings) -> list[ToolDefinition]:
    return [kind.define(settings) for kind in KINDS if kind.is_on(settings)]


@asynccontextmanager
async def open_tools(settings: Settings) -> AsyncIterator[dict[str, Tool]]:
    """All tools that are on, by name. Raises ConfigError."""
    async with AsyncExitStack() as opened:
        tools = {}
        for kind in KINDS:
            if kind.is_on(settings):
                run = await opened.enter_async_context(kind.open(settings))
                definition = kind.define(settings)
                tools[definition.name] = Tool(
                    definition=definition, run=run, describe=kind.describe
                )
        yield tools


def _remote_agent(settings: Settings) -> ToolDefinition:
    return ToolDefinition(
        name=NAME,
        title="Remote agents (A2A)",
        description=DESCRIPTION,
        input_schema=input_schema(tuple(settings.targets)),
    )


def _a2a_send(settings: Settings) -> ToolDefinition:
    return ToolDefinition(
        name=a2a_send.NAME,
        title="Message to a remote agent (A2A)",
        description=a2a_send.DESCRIPTION,
        input_schema=a2a_send.input_schema(tuple(settings.targets)),
    )


def describe_remote_agent(update: dict[str, Any]) -> str:
    """Where the task is, and the end of what was said so far."""
    summary = update["summary"]
    who = summary.get("target_alias") or summary["target_url"]
    task = summary.get("continuation", {}).get("task", {})
    text = " ".join(summary.get("message_text", "").split())
    if len(text) > _SHOWN_CHARS:
        text = f"…{text[-_SHOWN_CHARS:]}"
    return ": ".join(part for part in (who, task.get("status", ""), text) if part)


# A new tool is a line here.
KINDS: tuple[Kind, ...] = (
    Kind(
        is_on=lambda settings: settings.remote.enabled and NAME in settings.remote.tools,
        define=_remote_agent,
        open=open_tool,
        describe=describe_remote_agent,
    ),
    Kind(
        is_on=lambda settings: settings.remote.enabled and a2a_send.NAME in settings.remote.tools,
        define=_a2a_send,
        open=open_a2a_send,
        describe=describe_remote_agent,
    ),
)
