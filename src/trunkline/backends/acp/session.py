"""`Conversation`: one session with an ACP agent, in a separate process."""

import contextlib
import logging
from itertools import count
from typing import Any

from trunkline.backends.acp import rpc
from trunkline.backends.acp.permission import CANCELLED
from trunkline.backends.acp.updates import Updates
from trunkline.backends.json_values import table, text
from trunkline.backends.programs.child import Child, Flooded
from trunkline.backends.programs.children import MCP_NAME
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.prompt import Prompt
from trunkline.ports.tools import LentTools
from trunkline.version import VERSION

_log = logging.getLogger("trunkline.acp")

PROTOCOL_VERSION = 1


class LinkLost(Exception):
    """The process ended, or closed its output."""


class CallFailed(Exception):
    """The agent answered with an error; the text is for the operator."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotSpoken(Exception):
    """The agent speaks another version of the protocol, or requires a login; for the operator."""


# `receive` raises these; the process is useless then.
DONE_WITH = (LinkLost, Flooded, LineTooLong)


class Conversation:
    """The client's side of the protocol. The coroutine that waits for a message reads it."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.session_id = ""
        # Announced by the agent.
        self.capabilities: dict[str, Any] = {}
        # Of the last prompt.
        self.prompt_id = 0
        self.updates = Updates()
        self._ids = count(1)

    async def introduce(self) -> None:
        """Initialize the connection. Raises NotSpoken and the errors of `call`."""
        # Files and terminals of this side are not offered: agents then use their own.
        able = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        result = await self.call(
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
        self.capabilities = table(result.get("agentCapabilities"))

    async def open(self, *, cwd: str, known: str, mode: str, tools: LentTools | None) -> None:
        """Continue the session that the agent knows by `known`, or begin one."""
        place: dict[str, Any] = {"cwd": cwd, "mcpServers": self._mcp_servers(tools)}
        if known and self.capabilities.get("loadSession") is True:
            try:
                # The agent repeats the whole session, and `call` ignores it.
                await self.call("session/load", {"sessionId": known, **place})
                self.session_id = known
            except CallFailed as error:
                # The agent's words may hold anything; the number says enough.
                _log.info("a session is not known to the agent any more (error %d)", error.code)
        if not self.session_id:
            self.session_id = await self._new(place)
        if mode:
            await self.call("session/set_mode", {"sessionId": self.session_id, "modeId": mode})

    def _mcp_servers(self, tools: LentTools | None) -> list[dict[str, Any]]:
        """The tools of the gateway, for an agent that takes MCP over HTTP."""
        takes_http = table(self.capabilities.get("mcpCapabilities")).get("http") is True
        if tools is None or not tools.mcp_url or not takes_http:
            return []
        credential = {"name": "Authorization", "value": f"Bearer {tools.token.reveal()}"}
        return [{"type": "http", "name": MCP_NAME, "url": tools.mcp_url, "headers": [credential]}]

    async def _new(self, place: dict[str, Any]) -> str:
        try:
            result = await self.call("session/new", place)
        except CallFailed as error:
            if error.code == rpc.AUTH_REQUIRED:
                what = "the agent wants a login first: run it by hand and log in"
                raise NotSpoken(what) from error
            raise
        session_id = text(result.get("sessionId"))
        if not session_id:
            raise NotSpoken("the agent gave its session no id")
        return session_id

    def prompt(self, prompt: Prompt) -> None:
        """Begin a turn. Raises CannotTell."""
        content = rpc.blocks(prompt, self.capabilities)
        self.updates = Updates()
        self.prompt_id = self.send(
            "session/prompt", {"sessionId": self.session_id, "prompt": content}
        )

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; the id is that of its answer."""
        call_id = next(self._ids)
        self.child.write(rpc.line(id=call_id, method=method, params=params))
        return call_id

    def answer(self, call_id: str | int, result: Any) -> None:
        self.child.write(rpc.line(id=call_id, result=result))

    def refuse(self, request: rpc.Request) -> None:
        message = f"{request.method} is not offered by this client"
        error = {"code": rpc.METHOD_NOT_FOUND, "message": message}
        self.child.write(rpc.line(id=request.id, error=error))

    async def receive(self) -> rpc.Incoming:
        """The next message. Raises LinkLost, Flooded and LineTooLong."""
        while (line := await self.child.line()) is not None:
            if (message := rpc.read(line)) is not None:
                return message
        raise LinkLost

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Messages before it are ignored.
        Raises CallFailed, LinkLost, Flooded and LineTooLong."""
        call_id = self.send(method, params)
        while True:
            message = await self.receive()
            if isinstance(message, rpc.Request):
                if (message.id, message.method) == (call_id, method):
                    raise CallFailed(0, "it says back what it is told")
                self.refuse(message)
            elif isinstance(message, rpc.Response) and message.id == call_id:
                return table(result_of(message))

    async def cancel(self) -> None:
        """Tell the agent to stop, and read until it has answered the prompt or is gone."""
        self.child.write(rpc.line(method="session/cancel", params={"sessionId": self.session_id}))
        with contextlib.suppress(*DONE_WITH):
            while True:
                match message := await self.receive():
                    case rpc.Response(id=call_id) if call_id == self.prompt_id:
                        return
                    case rpc.Request(method="session/request_permission"):
                        self.answer(message.id, CANCELLED)
                    case rpc.Request():
                        self.refuse(message)
                    case _:
                        pass


def result_of(response: rpc.Response) -> Any:
    """Raises CallFailed."""
    if response.error_code is not None:
        raise CallFailed(response.error_code, response.error_message)
    return response.result
