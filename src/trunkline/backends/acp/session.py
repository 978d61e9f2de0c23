"""`Conversation`: one session with an ACP agent, on a process of its own."""

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from trunkline.backends.acp import rpc
from trunkline.backends.acp.connection import CallFailed, Link
from trunkline.backends.acp.permission import Asked
from trunkline.backends.acp.updates import Updates
from trunkline.backends.json_values import table, text
from trunkline.version import VERSION

_log = logging.getLogger("trunkline.acp")

PROTOCOL_VERSION = 1


class AcpOptions(Struct, frozen=True, kw_only=True):
    """How an agent is used, beside what is started."""

    # Set in each session; empty leaves it to the agent.
    mode: str = ""
    permissions: Literal["ask", "reject"] = "ask"
    start_timeout_s: float = 60.0
    # An idle process ends after this time.
    idle_s: float = 600.0
    # A process that waits for an answer ends after this time.
    question_timeout_s: float = 3600.0


class NotSpoken(Exception):
    """The agent speaks another version of the protocol, or wants a login; for the operator."""


@dataclass(slots=True, eq=False)
class Conversation:
    link: Link
    session_id: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Paused:
    """A turn that waits for the caller: the process, and where in the turn it is."""

    conversation: Conversation
    session: str
    task_id: str
    run_id: str
    # The agent's question, and our own request that is still under way.
    request_id: str | int
    prompt_id: int
    asked: Asked
    updates: Updates


async def introduce(link: Link) -> Conversation:
    """Say who we are. Raises NotSpoken, CallFailed and what `Link.receive` raises."""
    # Files and terminals of this side are not offered: agents then use their own.
    able = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    result = await link.call(
        "initialize",
        {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": able,
            "clientInfo": {"name": "trunkline", "title": "Trunkline", "version": VERSION},
        },
    )
    if result.get("protocolVersion") != PROTOCOL_VERSION:
        version = result.get("protocolVersion")
        raise NotSpoken(f"the agent speaks version {version} of the protocol, not 1")
    return Conversation(link, capabilities=table(result.get("agentCapabilities")))


async def open_session(conversation: Conversation, *, cwd: str, known: str, mode: str) -> None:
    """Go on with the session that the agent knows by `known`, or begin one."""
    link = conversation.link
    place: dict[str, Any] = {"cwd": cwd, "mcpServers": []}
    if known and conversation.capabilities.get("loadSession") is True:
        try:
            # It tells all that was said before; `call` passes over it.
            await link.call("session/load", {"sessionId": known, **place})
            conversation.session_id = known
        except CallFailed as error:
            # Its words may hold anything; the number says enough.
            _log.info("a session is not known to the agent any more (error %d)", error.code)
    if not conversation.session_id:
        conversation.session_id = await _new(link, place)
    if mode:
        params = {"sessionId": conversation.session_id, "modeId": mode}
        await link.call("session/set_mode", params)


async def _new(link: Link, place: dict[str, Any]) -> str:
    try:
        result = await link.call("session/new", place)
    except CallFailed as error:
        if error.code == rpc.AUTH_REQUIRED:
            raise NotSpoken("the agent wants a login first: run it by hand and log in") from error
        raise
    session_id = text(result.get("sessionId"))
    if not session_id:
        raise NotSpoken("the agent gave its session no id")
    return session_id
