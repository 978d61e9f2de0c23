"""OpenClaw over HTTP: `OpenClawHttpBackend`, its checks, and what a refusal means."""

import asyncio
import logging
from typing import Any, Final

import msgspec

from trunkline.backends.json_values import json_object, table, tables, text
from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.agents import no_such_agent
from trunkline.backends.openclaw.failures import Trouble, Unfit, misconfigured, unreachable
from trunkline.backends.openclaw.outputs import fit_for_callers
from trunkline.backends.openclaw.prompt import Prompt, prompt_for
from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.turn_task import TurnTask, TurnTaskBackend
from trunkline.background import BackgroundTasks
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.outputs import Failed, Output, Refused, Text
from trunkline.model.outputs import Final as Done
from trunkline.ports.backend import Finding, Notes, TurnRequest
from trunkline.protocol.sse import Parser
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Answer, Guard, HttpClient, Response
from trunkline.remote.target import Limits

COMPLETIONS: Final = "/v1/chat/completions"
# Its agents, each as `openclaw/<id>`.
_MODELS: Final = "/v1/models"
MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_LIST_BYTES: Final = 1024 * 1024
_CHECK_S: Final = 30.0

TOOLS_UNSEEN: Final = Finding(
    "warning",
    "over http it does not show whether callers can use tools of OpenClaw's machine",
    'Set surface = "websocket" to have the agent\'s tools checked.',
)


async def check_agent(http: HttpClient, address: Address, limits: Limits) -> None:
    """Before every turn: some releases of OpenClaw run an agent that is not configured, with all
    tools. Raises Trouble."""
    answer = await _fetch(http, address, "GET", _MODELS, limits)
    if answer.status != 200:
        raise refused(answer.status, answer.body)
    known = _agents(answer.body)
    if address.agent_id.lower() not in known:
        raise no_such_agent(address.agent_id, known)


async def check_completions(address: Address) -> list[Finding]:
    """Whether OpenClaw has the endpoint and the agent, and lets us in; runs nothing."""
    http, limits = HttpClient(Guard.of(address.url)), Limits(connect_s=address.connect_s)
    found: list[Finding] = []
    try:
        # A request without messages is refused as such by who would take one.
        answer = await _fetch(http, address, "POST", COMPLETIONS, limits, body=b"{}")
        if answer.status != 400:
            raise refused(answer.status, answer.body)
        found.append(Finding("ok", f"{address.url} has {COMPLETIONS}, and lets us in"))
        await check_agent(http, address, limits)
    except Trouble as trouble:
        return [*found, Finding("error", trouble.found, trouble.remedy)]
    finally:
        await http.close()
    return [*found, Finding("ok", f"it has the agent {address.agent_id}"), TOOLS_UNSEEN]


def authorization(address: Address) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.token}"} if address.token else {}


def refused(status: int, body: bytes) -> Trouble:
    if status in (401, 403):
        return misconfigured(
            f"OpenClaw does not accept the token (status {status})",
            "Set the backend's `token` to `gateway.auth.token` of OpenClaw's configuration.",
        )
    if status in (404, 405):
        return misconfigured(
            f"OpenClaw has no {COMPLETIONS} (status {status})",
            "Set gateway.http.endpoints.chatCompletions.enabled in OpenClaw's configuration, "
            'or surface = "websocket".',
        )
    if status == 400:
        message = _error_in(body)
        told = fit_for_callers(message)
        return Trouble(told, found=f"OpenClaw refuses: {message[:200]}", is_lasting=True)
    return unreachable(f"it answers with status {status}")


async def _fetch(
    http: HttpClient,
    address: Address,
    method: str,
    path: str,
    limits: Limits,
    *,
    body: bytes | None = None,
) -> Answer:
    """Raises Trouble."""
    headers = {"Content-Type": "application/json", **authorization(address)}
    try:
        async with asyncio.timeout(_CHECK_S):
            return await http.fetch(
                method,
                f"{address.url.rstrip('/')}{path}",
                headers=headers,
                body=body,
                limits=limits,
                max_bytes=_MAX_LIST_BYTES,
            )
    except RemoteError as error:
        raise unreachable(error.message) from None
    except TimeoutError:
        raise unreachable("it takes too long to answer") from None


def _agents(body: bytes) -> frozenset[str]:
    listed = tables((json_object(body) or {}).get("data"))
    names = [str(model.get("id", "")).lower().partition("/") for model in listed]
    return frozenset(agent for owner, _, agent in names if owner == "openclaw" and agent)


def _error_in(body: bytes) -> str:
    return str(table((json_object(body) or {}).get("error")).get("message", ""))


_log = logging.getLogger("trunkline.backends.openclaw")

_LONGEST_S: Final = 24 * 3600.0
_CUT: Final = "The agent's answer broke off before its end."
_GARBLED: Final = "The agent's answer cannot be read."


class OpenClawHttpBackend(TurnTaskBackend["_Request"]):
    def __init__(self, address: Address) -> None:
        super().__init__("openclaw")
        self._address = address
        self._limits = Limits(connect_s=address.connect_s, idle_s=address.idle_s)
        self._http = HttpClient(Guard.of(address.url))

    async def open(self, agent: str, notes: Notes) -> None:
        self.tasks.spawn(self._look(agent), name="look at OpenClaw")

    async def _look(self, agent: str) -> None:
        """Say at the start what would otherwise be found out by the first turn, or never."""
        extra = {"agent": agent}
        try:
            await check_agent(self._http, self._address, self._limits)
        except Trouble as trouble:
            _log.warning("%s. %s", trouble.found, trouble.remedy, extra=extra)
        else:
            _log.warning("%s. %s", TOOLS_UNSEEN.what, TOOLS_UNSEEN.remedy, extra=extra)

    def turn_task(self, turn: TurnRequest) -> "_Request":
        return _Request(turn, self.tasks, self._address, self._http, self._limits)

    def session_key_of(self, *, agent: str, tenant: str, principal: str, context_id: str) -> str:
        return self._address.session_key_of(
            agent=agent, tenant=tenant, principal=principal, context_id=context_id
        )

    async def close(self) -> None:
        await super().close()
        await self._http.close()


class _Request(TurnTask):
    def __init__(
        self,
        turn: TurnRequest,
        tasks: BackgroundTasks,
        address: Address,
        http: HttpClient,
        limits: Limits,
    ) -> None:
        super().__init__(turn, tasks, OutputChannel(max_total_bytes=address.max_output_bytes))
        self._address = address
        self._http = http
        self._limits = limits

    async def work(self) -> None:
        try:
            await self._exchange(prompt_for(self.turn))
        except Unfit as unfit:
            await self.channel.put(Refused(unfit.reason))
        except Trouble as trouble:
            _log.error("%s. %s", trouble.found, trouble.remedy, extra=self._extra())
            await self.channel.put(Failed(trouble.told))
        except (RemoteError, InvalidAgentResponse) as error:
            _log.warning("an answer of OpenClaw broke off: %s", error, extra=self._extra())
            await self.channel.put(Failed(_CUT))

    async def _exchange(self, prompt: Prompt) -> None:
        await check_agent(self._http, self._address, self._limits)
        opened = await self._open(prompt)
        try:
            if opened.status != 200:
                raise refused(opened.status, await opened.body(MAX_ERROR_BYTES))
            await self._read(opened)
        finally:
            opened.close()

    async def _read(self, opened: Response) -> None:
        answer = _Answer()
        parser = Parser(max_event_bytes=self._limits.max_event_bytes)
        while chunk := await opened.chunk():
            for event in parser.feed(chunk):
                for output in answer.take(event.data):
                    await self.channel.put(output)
                if answer.is_ended:
                    return
        await self.channel.put(Failed(_CUT))

    async def _open(self, prompt: Prompt) -> Response:
        address = self._address
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "x-openclaw-session-key": address.session_of(self.turn),
            **authorization(address),
        }
        try:
            return await self._http.open(
                "POST",
                f"{address.url.rstrip('/')}{COMPLETIONS}",
                headers=headers,
                body=msgspec.json.encode(_body(prompt, address.agent_id)),
                limits=self._limits,
                within_s=_LONGEST_S,
            )
        except RemoteError as error:
            raise unreachable(error.message) from None

    def _extra(self) -> dict[str, str]:
        return {"task": self.turn.task_id, "run": self.turn.run_id}


class _Answer:
    """The chunks of one answer as outputs."""

    def __init__(self) -> None:
        self._usage: dict[str, int] = {}
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
        self._count(chunk.get("usage"))
        delta = _delta(chunk)
        return [Text(delta)] if delta else []

    def _end(self, output: Output) -> list[Output]:
        self.is_ended = True
        return [output]

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        names = {
            "prompt_tokens": "inputTokens",
            "completion_tokens": "outputTokens",
            "total_tokens": "totalTokens",
        }
        for name, ours in names.items():
            if isinstance(value := usage.get(name), int) and value:
                self._usage[ours] = value


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
