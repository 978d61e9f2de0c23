"""`OpenClawHttpBackend`: OpenClaw over its chat completions, with the checks of `doctor`."""

import asyncio
import logging
from typing import Any, Final

import msgspec

from trunkline.backends.json_values import json_object, numbers, table, tables, text
from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.agents import no_such_agent
from trunkline.backends.openclaw.failures import (
    Trouble,
    Unfit,
    misconfigured,
    not_connected,
    token_refused,
    unreachable,
)
from trunkline.backends.openclaw.outputs import fit_for_callers
from trunkline.backends.openclaw.prompt import Prompt, prompt_for
from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.turn_task import TurnTask, TurnTaskBackend
from trunkline.background import BackgroundTasks
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.outputs import Failed, Output, Refused, Text
from trunkline.model.outputs import Final as Done
from trunkline.ports.backend import Finding, Notes, TurnRequest
from trunkline.ports.wire_log import ClientTap
from trunkline.protocol.sse import Parser
from trunkline.remote.errors import PeerUnreachable, RemoteError
from trunkline.remote.http import Answer, Guard, HttpClient, Response, build_request
from trunkline.remote.target import Limits

_log = logging.getLogger("trunkline.backends.openclaw")

_COMPLETIONS: Final = "/v1/chat/completions"
# The agents of OpenClaw, each as `openclaw/<id>`.
_MODELS: Final = "/v1/models"
_MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_LIST_BYTES: Final = 1024 * 1024
_CHECK_S: Final = 30.0
_LONGEST_S: Final = 24 * 3600.0
_CUT: Final = "The agent's answer broke off before its end."
_GARBLED: Final = "The agent's answer cannot be read."
_TOOLS_UNSEEN: Final = Finding(
    "warning",
    "over http it does not show whether callers can use tools of OpenClaw's machine",
    'Set surface = "websocket" to have the agent\'s tools checked.',
)
_USAGE: Final = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "total_tokens": "totalTokens",
}


class _Client:
    """Requests to an OpenClaw. All methods raise Trouble."""

    def __init__(self, address: Address, limits: Limits, tap: ClientTap | None = None) -> None:
        self.address = address
        self.limits = limits
        self._http = HttpClient(Guard.of(address.url, public_only=address.public_only), tap=tap)
        self._headers = {"Content-Type": "application/json"}
        if address.token:
            self._headers["Authorization"] = f"Bearer {address.token}"

    async def check_agent(self) -> None:
        """Every turn checks first, because some releases of OpenClaw run an agent that is not
        configured, with all tools."""
        answer = await self.fetch("GET", _MODELS)
        if answer.status != 200:
            raise refused(answer.status, answer.body)
        known = _agents(answer.body)
        if self.address.agent_id.lower() not in known:
            raise no_such_agent(self.address.agent_id, known)

    async def fetch(self, method: str, path: str, *, body: bytes | None = None) -> Answer:
        try:
            async with asyncio.timeout(_CHECK_S):
                request = build_request(method, self._url(path), self._headers, body)
                return await self._http.fetch(request, self.limits, max_bytes=_MAX_LIST_BYTES)
        except RemoteError as error:
            raise not_connected(error) from None
        except TimeoutError:
            raise unreachable("it takes too long to answer") from None

    async def open(self, session_key: str, prompt: Prompt) -> Response:
        """The stream of an answer."""
        own = {"Accept": "text/event-stream", "x-openclaw-session-key": session_key}
        try:
            body = msgspec.json.encode(_body(prompt, self.address.agent_id))
            request = build_request("POST", self._url(_COMPLETIONS), self._headers | own, body)
            return await self._http.open(request, self.limits, within_s=_LONGEST_S)
        except RemoteError as error:
            trouble = not_connected(error)
            trouble.is_unreachable = isinstance(error, PeerUnreachable) and error.is_unsent
            raise trouble from None

    async def close(self) -> None:
        await self._http.close()

    def _url(self, path: str) -> str:
        return f"{self.address.url.rstrip('/')}{path}"


async def check_completions(address: Address) -> list[Finding]:
    """Whether OpenClaw has the endpoint and the agent, and lets us in; runs nothing."""
    client = _Client(address, Limits(connect_s=address.connect_s))
    found: list[Finding] = []
    try:
        # An endpoint that would accept a request refuses one without messages with status 400.
        answer = await client.fetch("POST", _COMPLETIONS, body=b"{}")
        if answer.status != 400:
            raise refused(answer.status, answer.body)
        found.append(Finding("ok", f"{address.url} has {_COMPLETIONS}, and lets us in"))
        await client.check_agent()
    except Trouble as trouble:
        return [*found, Finding("error", trouble.found, trouble.remedy)]
    finally:
        await client.close()
    return [*found, Finding("ok", f"it has the agent {address.agent_id}"), _TOOLS_UNSEEN]


def refused(status: int, body: bytes) -> Trouble:
    if status in (401, 403):
        return token_refused(f" (status {status})")
    if status in (404, 405):
        return misconfigured(
            f"OpenClaw has no {_COMPLETIONS} (status {status})",
            "Set gateway.http.endpoints.chatCompletions.enabled in OpenClaw's configuration, "
            'or surface = "websocket".',
        )
    if status == 400:
        message = _error_in(body)
        found = f"OpenClaw refuses: {message[:200]}"
        return Trouble(found, told=fit_for_callers(message), is_lasting=True)
    return unreachable(f"it answers with status {status}")


def _agents(body: bytes) -> frozenset[str]:
    listed = tables((json_object(body) or {}).get("data"))
    names = [str(model.get("id", "")).lower().partition("/") for model in listed]
    return frozenset(agent for owner, _, agent in names if owner == "openclaw" and agent)


def _error_in(body: bytes) -> str:
    return str(table((json_object(body) or {}).get("error")).get("message", ""))


class OpenClawHttpBackend(TurnTaskBackend["_Request"]):
    def __init__(self, address: Address, *, tap: ClientTap | None = None) -> None:
        super().__init__("openclaw")
        limits = Limits(connect_s=address.connect_s, idle_s=address.idle_s)
        self._client = _Client(address, limits, tap)
        self.session_key_of = address.session_key_of

    async def open(self, agent: str, notes: Notes) -> None:
        self.tasks.spawn(self._look(agent), name="look at OpenClaw")

    async def _look(self, agent: str) -> None:
        """Log problems of access and the unseen tools at the start, before the first turn."""
        extra = {"agent": agent}
        try:
            await self._client.check_agent()
        except Trouble as trouble:
            _log.warning("%s. %s", trouble.found, trouble.remedy, extra=extra)
        else:
            _log.warning("%s. %s", _TOOLS_UNSEEN.what, _TOOLS_UNSEEN.remedy, extra=extra)

    def turn_task(self, turn: TurnRequest) -> "_Request":
        channel = OutputChannel(max_total_bytes=self._client.address.max_output_bytes)
        return _Request(turn, self.tasks, channel, self._client)

    async def close(self) -> None:
        await super().close()
        await self._client.close()


class _Request(TurnTask):
    def __init__(
        self, turn: TurnRequest, tasks: BackgroundTasks, channel: OutputChannel, client: _Client
    ) -> None:
        super().__init__(turn, tasks, channel)
        self._client = client

    async def work(self) -> None:
        try:
            await self._exchange(prompt_for(self.turn))
        except Unfit as unfit:
            await self.channel.put(Refused(str(unfit)))
        except Trouble as trouble:
            _log.error("%s. %s", trouble.found, trouble.remedy, extra=self._extra())
            await self.channel.put(Failed(trouble.told, trouble.is_unreachable))
        except (RemoteError, InvalidAgentResponse) as error:
            _log.warning("an answer of OpenClaw broke off: %s", error, extra=self._extra())
            await self.channel.put(Failed(_CUT))

    async def _exchange(self, prompt: Prompt) -> None:
        await self._client.check_agent()
        opened = await self._client.open(self._client.address.session_of(self.turn), prompt)
        try:
            if opened.status != 200:
                raise refused(opened.status, await opened.body(_MAX_ERROR_BYTES))
            await self._read(opened)
        finally:
            opened.close()

    async def _read(self, opened: Response) -> None:
        answer = _Answer()
        parser = Parser(max_event_bytes=self._client.limits.max_event_bytes)
        while chunk := await opened.chunk():
            for event in parser.feed(chunk):
                for output in answer.take(event.data):
                    await self.channel.put(output)
                if answer.is_ended:
                    return
        await self.channel.put(Failed(_CUT))

    def _extra(self) -> dict[str, str]:
        return {"task": self.turn.task_id, "run": self.turn.run_id}


class _Answer:
    """The chunks of one answer as outputs."""

    def __init__(self) -> None:
        self._usage: dict[str, int | float] = {}
        self.is_ended = False

    def take(self, data: bytes) -> list[Output]:
        if not data.strip():
            return []
        if data == b"[DONE]":
            return self._end(Done((), {"usage": self._usage} if self._usage else None))
        chunk = json_object(data)
        if chunk is None:
            return self._end(Failed(_GARBLED))
        if (error := chunk.get("error")) is not None:
            message = error.get("message") if isinstance(error, dict) else error
            _log.warning("a run of OpenClaw failed: %s", message)
            return self._end(Failed(fit_for_callers(str(message))))
        counted = numbers(chunk.get("usage"), _USAGE)
        self._usage |= {name: number for name, number in counted.items() if number}
        delta = _delta(chunk)
        return [Text(delta)] if delta else []

    def _end(self, output: Output) -> list[Output]:
        self.is_ended = True
        return [output]


def _body(prompt: Prompt, agent_id: str) -> dict[str, Any]:
    content: Any = prompt.text
    if prompt.attachments:
        images = [
            {
                "type": "image_url",
                "image_url": {"url": f"data:{image['mimeType']};base64,{image['content']}"},
            }
            for image in prompt.attachments
        ]
        content = [{"type": "text", "text": prompt.text}, *images]
    return {
        "model": f"openclaw/{agent_id}",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": content}],
    }


def _delta(chunk: dict[str, Any]) -> str:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return text(table(table(first).get("delta")).get("content"))
