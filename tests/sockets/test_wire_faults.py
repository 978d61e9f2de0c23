"""Faults on real connections: what a client sees of a delay, a cut and a repetition."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.bindings.world import HANDLE, KEYS, World, open_world
from tests.sockets.handlers import post
from tests.sockets.peer import Peer, Server, passes, serving

from trunkline.console.wire.log import Wanted
from trunkline.ports.wire_log import Fault, WireRecord

OTHER = "test/other"


@asynccontextmanager
async def served() -> AsyncIterator[tuple[World, Server]]:
    async with (
        open_world(agents={HANDLE: {}, OTHER: {}}) as world,
        serving(world.gateway.application.serve) as server,
    ):
        world.gateway.wire.control.record(HANDLE)
        yield world, server
        await world.gateway.wire.close()


def call(method: str, text: str, path: str = "/a2a/jsonrpc") -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return post(
        json.dumps(body).encode(),
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        f"Authorization: Bearer {KEYS['alice']}",
        path=path,
    )


def last_of(world: World) -> WireRecord:
    log = world.gateway.wire.log
    record = log.find(log.ids(Wanted())[-1])
    assert record is not None
    return record


async def chunks(peer: Peer) -> bytes:
    """The body of a chunked answer, up to its end or to that of the connection."""
    body = b""
    while True:
        try:
            size = int(await peer.until(b"\r\n"), 16)
        except asyncio.IncompleteReadError as error:
            return body + error.partial + b"<cut>"
        body += (await peer.exactly(size + 2))[:-2]
        if not size:
            return body


def ids(body: bytes) -> list[int]:
    return [int(line[4:]) for line in body.decode().splitlines() if line.startswith("id: ")]


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_stream_is_cut_after_so_many_events(after: int) -> None:
    async with served() as (world, server):
        world.gateway.wire.control.inject(HANDLE, Fault(cut_after_events=after), seconds=60)
        peer = await server.peer()
        peer.send(call("SendStreamingMessage", "stream 3"))
        status, headers = await peer.head()
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        body = await chunks(peer)
        assert body.endswith(b"<cut>")
        assert ids(body) == [*range(1, after + 1)]
        record = last_of(world)
        assert record.fault == f"the stream was cut after {after} events"
        assert record.events == after
        assert record.error == ""
        # The task goes on: only the stream was cut.
        task = await world.client("jsonrpc-1.0").list()
        assert [each["status"]["state"] for each in task["tasks"]] == ["TASK_STATE_COMPLETED"]
        # Answers that are no streams stay whole.
        peer = await server.peer()
        peer.send(call("SendMessage", "hello"))
        assert (await peer.response())[0] == 200


async def test_every_second_event_comes_twice() -> None:
    async with served() as (world, server):
        world.gateway.wire.control.inject(HANDLE, Fault(duplicate_every=2), seconds=60)
        peer = await server.peer()
        peer.send(call("SendStreamingMessage", "stream 3"))
        _, _, body = await peer.response()
        assert ids(body) == [1, 2, 2, 3, 4, 4, 5, 6, 6]
        first = [event for event in body.split(b"\n\n") if event.startswith(b"id: 2")]
        assert first[0] == first[1]
        record = last_of(world)
        assert [frame.is_injected for frame in record.frames].count(True) == 3
        assert "event 2 was sent twice" in record.fault


async def test_a_delay_holds_up_one_agent_alone() -> None:
    async with served() as (world, server):
        world.gateway.wire.control.inject(HANDLE, Fault(delay_ms=5000), seconds=60)
        slow, other = await server.peer(), await server.peer()
        slow.send(call("SendMessage", "hello"))
        other.send(call("SendMessage", "hello", path=f"/api/a2a/v1/agents/{OTHER}"))
        assert (await other.response())[0] == 200
        await passes(5)
        assert not slow.has_answer
        await world.clock.advance(5)
        assert (await slow.response())[0] == 200
        assert last_of(world).fault == "5000 ms were added before each write"


async def test_a_fault_ends_by_its_timer_also_for_streams_under_way() -> None:
    async with served() as (world, server):
        control = world.gateway.wire.control
        control.inject(HANDLE, Fault(cut_after_events=2, duplicate_every=1), seconds=10)
        peer = await server.peer()
        peer.send(call("SendMessage", "hello"))
        await peer.response()
        await world.clock.advance(11)
        assert control.fault_of(HANDLE) is None
        peer.send(call("SendStreamingMessage", "stream 3"))
        _, _, body = await peer.response()
        assert ids(body) == [1, 2, 3, 4, 5, 6]
        assert last_of(world).fault == ""


async def test_a_fault_without_a_recording_leaves_no_record() -> None:
    async with served() as (world, server):
        control = world.gateway.wire.control
        control.stop(HANDLE)
        control.inject(HANDLE, Fault(duplicate_every=1), seconds=60)
        peer = await server.peer()
        peer.send(call("SendStreamingMessage", "stream 3"))
        _, _, body = await peer.response()
        assert ids(body) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
        assert len(world.gateway.wire.log) == 0
        control.heal(HANDLE)
        assert world.gateway.endpoints[0].tap is None


async def test_a_client_that_leaves_ends_its_record() -> None:
    async with served() as (world, server):
        peer = await server.peer()
        peer.send(call("SendStreamingMessage", "wait 600"))
        await peer.head()
        await world.clock.advance(16)
        peer.abort()
        await passes(10)
        await world.clock.advance(20)
        await server.everybody_left()
        record: Any = last_of(world)
        assert record.ms is not None
        assert record.error == "The client left before the end of the answer."
        await world.clock.advance(600)


async def test_bodies_in_pieces_and_requests_behind_each_other() -> None:
    async with served() as (world, server):
        server.shared.date = b"date: Sun, 15 Jun 2025 15:06:40 GMT\r\n"
        peer = await server.peer()
        data = call("SendMessage", "hello")
        peer.send(data[:-40])
        await passes(3)
        peer.send(data[-40:] + call("SendMessage", "again"))
        assert (await peer.response())[0] == 200
        assert (await peer.response())[0] == 200
        log = world.gateway.wire.log
        found = [log.find(id) for id in log.ids(Wanted())]
        texts = [json.loads(str(r.request_body.text)) for r in found if r is not None]
        assert [t["params"]["message"]["parts"][0]["text"] for t in texts] == ["hello", "again"]
        record = last_of(world)
        assert record.response_headers[0] == ["date", "Sun, 15 Jun 2025 15:06:40 GMT"]
        assert server.budget.held_bytes == 0
