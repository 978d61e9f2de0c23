"""`WireApi`: the routes of the wire log, below `/api/v1/wire`, for operators alone."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from trunkline.api.api import Call, Route
from trunkline.background import next_pass
from trunkline.console.wire.control import WireControl
from trunkline.console.wire.log import Wanted, WireLog
from trunkline.console.wire.recorded_agents import AgentName, KnowsAgents, agent_of
from trunkline.model.errors import RouteNotFound
from trunkline.model.findings import FINDING_TEXTS, Finding
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import WireRecord
from trunkline.ports.wire_views import (
    RecordedAgent,
    RecordingBody,
    WireDetails,
    WireExportQuery,
    WirePage,
    WireQuery,
    WireSession,
    WireSettings,
)

SESSION_FORMAT: Final = "trunkline-session.1"

# The rules that the messages of an exchange break.
Check = Callable[[WireRecord], list[Finding]]


def no_findings(_: WireRecord) -> list[Finding]:
    return []


_AGENT = "The handle of the agent."
TEXTS: Final = {
    "WireSummary.id": "The id of the exchange. Ids sort in the order of time.",
    "WireDetails.id": "The id of the exchange. Ids sort in the order of time.",
    "WireRecord.id": "The id of the exchange. Ids sort in the order of time.",
    "WireSummary.version": "The version of A2A; empty where it is not known.",
    "WireDetails.version": "The version of A2A; empty where it is not known.",
    "WireRecord.version": "The version of A2A; empty where it is not known.",
    "WireSummary.status": "The HTTP status; null before the answer began.",
    "WireDetails.status": "The HTTP status; null before the answer began.",
    "WireRecord.status": "The HTTP status; null before the answer began.",
    "WireSummary.agent": _AGENT,
    "WireDetails.agent": _AGENT,
    "WireRecord.agent": _AGENT,
    "WireSummary.events": "Server-sent events of the answer, or messages of a WebSocket.",
    "WireDetails.events": "Server-sent events of the answer, or messages of a WebSocket.",
    "WireRecord.events": "Server-sent events of the answer, or messages of a WebSocket.",
    "side": "`server`: a request to the gateway. `client`: a request of an agent's backend to the "
    "server behind it.",
    "at": "The time when it began.",
    "ms": "Milliseconds: of an exchange until its end, null while it is open; of a frame since the "
    "exchange began.",
    "operation": "The operation of A2A by its name of 1.0, or `GetAgentCard`.",
    "binding": "`jsonrpc`, `rest` (HTTP+JSON), `websocket` or `http` (anything else).",
    "httpMethod": "The method of HTTP.",
    "url": "The path and query of a request to the gateway, or the URL of a request of a backend.",
    "peer": "The address of the other side.",
    "requestBytes": "Bytes of the body of the request, or of the messages that went out.",
    "responseBytes": "Bytes of the body of the answer, or of the messages that came in.",
    "taskId": "The task that it is about; empty where there is none.",
    "contextId": "The context that it is about; empty where there is none.",
    "parent": "The id of the recorded request to the gateway that led to it; empty where there is "
    "none.",
    "WireSummary.error": "Why the exchange broke off; empty if it did not.",
    "WireDetails.error": "Why the exchange broke off; empty if it did not.",
    "WireRecord.error": "Why the exchange broke off; empty if it did not.",
    "fault": "What the gateway did to the answer because of a fault that an operator asked for; "
    "empty without one.",
    "requestHeaders": "The headers as they came or went, as pairs, with `***` in place of secrets.",
    "responseHeaders": "The headers as they came or went, as pairs, with `***` in place of "
    "secrets.",
    "requestBody": "The body of the request, with `***` in place of secrets.",
    "responseBody": "The body of the answer, with `***` in place of secrets. The events of a "
    "stream are in `frames`.",
    "truncated": "Whether a body or a frame was longer than the 256 KB that are kept of each.",
    "WireBody.text": "The body, where it is text.",
    "WireBody.size": "The size of the whole body in bytes.",
    "WireFrame.size": "The size of the whole frame in bytes.",
    "base64": "The body in base64, if it is not UTF-8.",
    "frames": "The events of the answer, or the messages of the WebSocket, in their order: at most "
    "200 from the beginning and 200 from the end.",
    "framesLeftOut": "How many frames between those were left out.",
    "framesBeforeGap": "How many of `frames` came before the ones that were left out.",
    "WireFrame.data": "The bytes of the event, or the message, with `***` in place of secrets.",
    "direction": "`out` leaves the gateway, `in` comes to it.",
    "eventId": "The id of a server-sent event.",
    "WireFrame.event": "The type of a server-sent event.",
    "isInjected": "Whether it is there only because of a fault.",
    "findings": "The rules of the protocol that the messages break.",
    **FINDING_TEXTS,
    "after": "Only those behind this id.",
    "limit": "Maximum number of items.",
    "q": "A text that occurs in a URL, an id, a header or a body, whatever its case.",
    "WirePage.items": "The exchanges, the oldest first.",
    "nextAfter": "The `after` of the next page; null on the last one.",
    "dropped": "How many exchanges have made room for others since the log was cleared.",
    "agents": "The agents that can be recorded.",
    "on": "Whether the agent is recorded.",
    "until": "When the recording ends by itself; null if it does not.",
    "bytes": "What the recorded exchanges take in memory.",
    "maxBytes": "What they may take (`console.wire_bytes`).",
    "WireSettings.records": "The number of recorded exchanges.",
    "minutes": "How long to record; without, until it is switched off.",
    "format": "`trunkline-session.1`.",
    "exportedAt": "When the file was made.",
    "gateway": "The address of the gateway.",
    "WireSession.records": "The exchanges, the oldest first.",
    "WireSession.tasks": "Tasks that belong to them.",
}


class WireApi:
    def __init__(
        self,
        log: WireLog,
        control: WireControl,
        agents: KnowsAgents,
        *,
        clock: Clock,
        gateway: Callable[[], str],
        check: Check = no_findings,
    ) -> None:
        """`gateway` returns the address of the gateway."""
        self._log = log
        self._control = control
        self._agents = agents
        self._clock = clock
        self._gateway = gateway
        self.check = check

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/wire",
            name="list_wire",
            summary="List recorded requests, the oldest first.",
            description="What passed the wire of the agents that an operator has had recorded: "
            "requests to them, and requests of their backends. For operators.",
            handle=self._list,
            query=WireQuery,
            result=WirePage,
            texts=TEXTS,
        )
        yield Route(
            method="DELETE",
            path="/wire",
            name="clear_wire",
            summary="Forget all recorded requests.",
            description="Requests under way are not recorded further. For operators.",
            handle=self._clear,
            texts=TEXTS,
        )
        yield Route(
            method="GET",
            path="/wire/settings",
            name="get_wire_settings",
            summary="Tell which agents are recorded, and how much is kept.",
            description="For operators.",
            handle=self._settings,
            result=WireSettings,
            texts=TEXTS,
        )
        yield Route(
            method="PUT",
            path="/wire/agents/{id}",
            name="record_agent",
            summary="Switch the recording of an agent on or off.",
            description="It holds for the gateway that answers, until it stops. For operators.",
            handle=self._record,
            body=RecordingBody,
            result=RecordedAgent,
            texts=TEXTS,
        )
        yield Route(
            method="GET",
            path="/wire/export",
            name="export_wire",
            summary="Download recorded requests as a file that the page opens.",
            description="For operators.",
            handle=self._export,
            query=WireExportQuery,
            result=WireSession,
            texts=TEXTS,
        )
        yield Route(
            method="GET",
            path="/wire/{id}",
            name="get_wire",
            summary="Get a recorded request with its headers, bodies and events.",
            description="For operators.",
            handle=self._get,
            result=WireDetails,
            texts=TEXTS,
        )

    async def _list(self, call: Call) -> WirePage:
        call.require_operator()
        query: WireQuery = call.query
        wanted = Wanted(
            agent=query.agent,
            task_id=query.task_id,
            side=query.side,
            q=query.q,
            after=query.after,
        )
        items, after = await self._log.page(wanted, limit=query.limit)
        return WirePage(items=items, next_after=after or None, dropped=self._log.dropped)

    async def _get(self, call: Call) -> WireDetails:
        call.require_operator()
        record = self._log.find(call.path["id"])
        if record is None:
            raise RouteNotFound("There is no such record; it may have made room for others")
        return WireDetails(**msgspec.structs.asdict(record), findings=self.check(record))

    async def _clear(self, call: Call) -> None:
        call.require_operator()
        self._log.clear()

    async def _settings(self, call: Call) -> WireSettings:
        call.require_operator()
        agents = [self._agent(agent) for agent in self._agents.list()]
        return WireSettings(
            agents=agents,
            bytes=self._log.held_bytes,
            max_bytes=self._log.max_bytes,
            records=len(self._log),
            dropped=self._log.dropped,
        )

    def _agent(self, agent: AgentName) -> RecordedAgent:
        recording = self._control.recordings.get(agent.handle)
        until_ms = None if recording is None else recording.until_ms
        return RecordedAgent(
            id=agent.id,
            handle=agent.handle,
            on=recording is not None,
            until=None if until_ms is None else format_timestamp(until_ms),
        )

    async def _record(self, call: Call) -> RecordedAgent:
        call.require_operator()
        body: RecordingBody = call.body
        agent = await agent_of(self._agents, call.path["id"])
        if body.on:
            self._control.record(agent.handle, minutes=body.minutes)
        else:
            self._control.stop(agent.handle)
        return self._agent(agent)

    async def _export(self, call: Call) -> Response:
        call.require_operator()
        query: WireExportQuery = call.query
        ids = self._log.ids(Wanted(agent=query.agent, task_id=query.task_id))
        return StreamingResponse(
            self._session(ids),
            media_type="application/json",
            headers={
                "Content-Disposition": 'attachment; filename="trunkline-session.json"',
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            },
        )

    async def _session(self, ids: Sequence[str]) -> AsyncIterator[bytes]:
        """The file in pieces, each record as it is when its piece is made."""
        encode = msgspec.json.encode
        made = format_timestamp(self._clock.now_ms())
        head = {"format": SESSION_FORMAT, "exportedAt": made, "gateway": self._gateway()}
        yield encode(head)[:-1] + b',"records":['
        comma = b""
        for id in ids:
            record = self._log.find(id)
            if record is not None:
                yield comma + encode(record)
                comma = b","
                await next_pass()
        yield b'],"tasks":[]}'
