"""Streams whose relay says that it lost the agent: they go on like those of a broken connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
from tests.remote.http.peer import answer, peer

from trunkline.model.errors import AgentLost
from trunkline.model.values import TaskArtifactUpdateEvent, TaskState
from trunkline.protocol import jsonrpc, rest, sse
from trunkline.protocol.client_responses import StreamItem
from trunkline.protocol.versions import Version
from trunkline.remote import Limits, PeerRefused, RemoteAgent, StreamEnded, Target, connect
from trunkline.remote.progress import Progress
from trunkline.remote.target import Idempotency
from trunkline.testing import FakeClock

DIALECTS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
LOST = AgentLost("The agent did not end its answer (the relay stops)")
LIMITS = Limits(attempts=1, reconnects=3)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
Event: TypeAlias = dict[str, Any]


class Impatient(FakeClock):
    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class LossyRelay:
    """Answers each request for a stream with the next script, or with the last one again.

    A script holds the numbers of events, and "lost" for the error of the relay, which it writes
    in the JSON of 1.0 whatever the client speaks. The task is event 1, and 4 its end; 5 is an
    answer without a task.
    """

    def __init__(self, binding: str, version: str, *scripts: tuple[int | str, ...]) -> None:
        self._binding, self._version = binding, version
        self._scripts = [*scripts]
        # REST of 0.3 writes its objects as 1.0 does.
        self._has_kinds = (binding, version) == ("JSONRPC", "0.3")
        self.has_ids = True
        # Of each request for a stream: its id of the last event.
        self.asked: list[str | None] = []

    async def handle(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        if b"/.well-known/" in head.partition(b"\r\n")[0]:
            writer.write(answer(self.card(head), b"Content-Type: application/json"))
            return
        lines = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:])
        self.asked.append(lines.get("last-event-id"))
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        id = json.loads(body)["id"] if self._binding == "JSONRPC" else None
        writer.write(STREAM + b"".join(self._frame(one, id) for one in script))
        await writer.drain()
        writer.close()

    def card(self, head: bytes) -> bytes:
        host = head.lower().partition(b"\r\nhost: ")[2].partition(b"\r\n")[0].decode()
        url = f"http://{host}/rpc"
        card: dict[str, Any] = {
            "name": "A",
            "description": "",
            "version": "1",
            "capabilities": {"streaming": True},
            "defaultInputModes": [],
            "defaultOutputModes": [],
            "skills": [],
        }
        if self._version == "0.3":
            card |= {"protocolVersion": "0.3.0", "url": url, "preferredTransport": self._binding}
        else:
            names = {"protocolBinding": self._binding, "protocolVersion": "1.0"}
            card["supportedInterfaces"] = [{**names, "url": url}]
        return json.dumps(card).encode()

    def _frame(self, one: int | str, id: Any) -> bytes:
        is_jsonrpc = self._binding == "JSONRPC"
        if one == "lost":
            if is_jsonrpc:
                return sse.frame(jsonrpc.error(jsonrpc.NULL, LOST, Version.V1_0))
            return rest.error_frame(LOST, Version.V1_0)
        result = self._event(int(one))
        data = {"jsonrpc": "2.0", "id": id, "result": result} if is_jsonrpc else result
        name = f"id: {one}\n" if self.has_ids else ""
        return f"{name}data: {json.dumps(data)}\n\n".encode()

    def _event(self, number: int) -> Event:
        own: Event = {"taskId": "t", "contextId": "c"}
        is_old = self._has_kinds
        if number == 1:
            task = {"id": "t", "contextId": "c", "status": self._status("WORKING")}
            return {"kind": "task", **task} if is_old else {"task": task}
        if number == 4:
            own["status"] = self._status("COMPLETED")
            if is_old:
                return {"kind": "status-update", "final": True, **own}
            return {"statusUpdate": own}
        if number == 5:
            return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}
        part = {"text": f"piece {number}. "}
        own["artifact"] = {
            "artifactId": "a",
            "parts": [{"kind": "text", **part} if is_old else part],
        }
        own["append"] = number > 2
        return {"kind": "artifact-update", **own} if is_old else {"artifactUpdate": own}

    def _status(self, state: str) -> Event:
        return {"state": state.lower() if self._has_kinds else f"TASK_STATE_{state}"}


@asynccontextmanager
async def through(
    relay: LossyRelay, *, idempotency: Idempotency = "auto"
) -> AsyncIterator[RemoteAgent]:
    async with peer(relay.handle) as served:
        url = served.url.removesuffix("/rpc")
        target = Target(url=url, idempotency=idempotency)
        async with connect(target, limits=LIMITS, clock=Impatient()) as agent:
            yield agent


async def streamed(agent: RemoteAgent) -> list[StreamItem]:
    return [item async for item in agent.stream("hi")]


async def subscribed(agent: RemoteAgent) -> list[StreamItem]:
    return [item async for item in agent.subscribe("t")]


Call: TypeAlias = Callable[[RemoteAgent], Awaitable[list[StreamItem]]]
CALLS = pytest.mark.parametrize("call", [streamed, subscribed])


def check_whole(items: list[StreamItem]) -> None:
    progress = Progress()
    for item in items:
        progress.add(item)
    assert progress.state is TaskState.COMPLETED
    assert texts(items) == ["piece 2. ", "piece 3. "]


def texts(items: list[StreamItem]) -> list[str]:
    pieces = [one.artifact for one in items if isinstance(one, TaskArtifactUpdateEvent)]
    return [part.text or "" for piece in pieces for part in piece.parts]


@CALLS
@pytest.mark.parametrize(("binding", "version"), DIALECTS)
async def test_a_stream_goes_on_behind_its_last_event(
    binding: str, version: str, call: Call
) -> None:
    relay = LossyRelay(binding, version, (1, 2, "lost"), ("lost",), (3, 4))
    async with through(relay) as agent:
        check_whole(await call(agent))
    assert relay.asked == [None, "2", "2"]


async def test_events_without_ids_come_once_as_well() -> None:
    relay = LossyRelay("JSONRPC", "1.0", (1, "lost"), (1, 2, 3, 4))
    relay.has_ids = False
    async with through(relay) as agent:
        items = await streamed(agent)
    check_whole(items)
    assert len(items) == 4


@CALLS
async def test_an_agent_that_stays_lost_ends_the_stream_with_the_way_to_its_task(
    call: Call,
) -> None:
    relay = LossyRelay("JSONRPC", "1.0", (1, 2, "lost"), ("lost",))
    async with through(relay) as agent:
        with pytest.raises(StreamEnded, match="in 3 attempts: The agent did not end") as ended:
            await call(agent)
    assert (ended.value.task_id, ended.value.last_event_id) == ("t", "2")
    assert len(relay.asked) == 1 + LIMITS.reconnects


@pytest.mark.parametrize("idempotency", ["never", "always"])
@pytest.mark.parametrize(("binding", "version"), DIALECTS)
async def test_an_agent_that_is_lost_before_it_names_a_task_may_have_acted(
    binding: str, version: str, idempotency: Idempotency
) -> None:
    relay = LossyRelay(binding, version, ("lost",), (1, 2, 3, 4))
    async with through(relay, idempotency=idempotency) as agent:
        with pytest.raises(PeerRefused) as refused:
            await streamed(agent)
    assert (refused.value.reason, refused.value.task_id) == ("AGENT_LOST", "")
    assert len(relay.asked) == 1


@CALLS
async def test_a_task_that_has_ended_cannot_be_lost(call: Call) -> None:
    relay = LossyRelay("HTTP+JSON", "1.0", (1, 2, 3, 4, "lost"))
    async with through(relay) as agent:
        check_whole(await call(agent))
    assert len(relay.asked) == 1


async def test_an_answer_without_a_task_is_whole_as_well() -> None:
    relay = LossyRelay("HTTP+JSON", "1.0", (5, "lost"))
    async with through(relay) as agent:
        assert len(await streamed(agent)) == 1
    assert len(relay.asked) == 1
