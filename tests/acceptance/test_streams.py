"""Streams as bytes on a socket: their form, their pulse, and what becomes of their readers."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.raw import (
    Event,
    Stream,
    call,
    envelope,
    message_params,
    send,
    state_of,
    streamed,
)

MIB = 1024 * 1024
BUFFER_EVENTS = 200


@pytest.fixture(scope="module")
def nervous(gateways: Make) -> Gateway:
    """Beats often, and gives up early on readers that do not read."""
    server = f"[server]\nheartbeat_s = 0.1\nstream_buffer_events = {BUFFER_EVENTS}"
    return gateways(server).start()


async def test_every_event_is_an_id_and_one_line_of_data(shared: Gateway) -> None:
    async with streamed(shared, "SendStreamingMessage", message_params("stream 3")) as stream:
        headers = stream.response.headers
        blocks = [block async for block in stream.blocks()]
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    for number, block in enumerate(blocks, 1):
        first, second = block.split(b"\n")
        assert first == b"id: %d" % number
        assert second.startswith(b"data: {")
        assert json.loads(second.removeprefix(b"data: "))["id"] == 1


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_over_rest_an_event_is_bare(shared: Gateway, verb: str) -> None:
    task = await send(shared, "hang", wait=False)
    url = f"{shared.rest_url}/tasks/{task['id']}:subscribe"
    async with (
        http_client(headers={"A2A-Version": "1.0"}) as http,
        http.stream(verb, url) as response,
    ):
        stream = Stream(response)
        opening = await stream.event()
        assert opening.data["task"]["id"] == task["id"]
        await call(shared, "CancelTask", {"id": task["id"]})
        *_, last = await stream.events()
    assert last.data["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_direct_answer_is_one_event_without_an_id(shared: Gateway) -> None:
    body = envelope("SendStreamingMessage", message_params("Ada"))
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        response = await http.post(shared.agent_url("test/greeter"), json=body)
    assert response.text.startswith("data: ")
    assert response.text.count("\n\n") == 1


async def test_a_quiet_stream_has_a_pulse(nervous: Gateway) -> None:
    script = message_params("wait pulse; say done")
    async with streamed(nervous, "SendStreamingMessage", script) as stream:
        beats: list[bytes] = []
        async for block in stream.blocks():
            # The first events may take longer than a beat.
            beats += [block] if block.startswith(b":") else []
            if len(beats) == 2:
                break
        assert beats == [b": keep-alive"] * 2
        await send(nervous, "open pulse")
        *_, last = await stream.events()
    assert last.state == "TASK_STATE_COMPLETED"


async def test_a_reader_resumes_where_it_was(shared: Gateway) -> None:
    script = message_params("stream 3; wait resume; stream 3")
    async with streamed(shared, "SendStreamingMessage", script) as stream:
        seen = [await stream.event() for _ in range(3)]
    task_id = seen[0].result["task"]["id"]
    await send(shared, "open resume")
    await eventually(lambda: _is(shared, task_id, "TASK_STATE_COMPLETED"))

    # The task has ended, but there is still something that this reader has not seen.
    params = {"id": task_id}
    async with streamed(shared, "SubscribeToTask", params, last_event_id=3) as stream:
        rest = await stream.events()
    assert [event.id for event in seen + rest] == [*range(1, len(seen + rest) + 1)]
    assert rest[-1].state == "TASK_STATE_COMPLETED"
    assert _said(seen + rest) == "1 2 3 1 2 3 "

    refused = await _subscribe_after(shared, task_id, rest[-1].id)
    assert refused["error"]["code"] == -32004


async def test_a_reader_from_another_life_is_told_of_the_gap(shared: Gateway) -> None:
    task = await send(shared, "say hello; ask what?")
    params = {"id": task["id"]}
    async with streamed(shared, "SubscribeToTask", params, last_event_id=9999) as stream:
        gap, opening = await stream.event(), await stream.event()
        await call(shared, "CancelTask", params)
        *_, last = await stream.events()
    assert gap.name == "gap"
    assert gap.id is None
    assert gap.data == {"after": 9999, "resumesAt": opening.id}
    assert opening.result["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert last.state == "TASK_STATE_CANCELED"


async def test_a_client_that_leaves_does_not_stop_the_agent(nervous: Gateway) -> None:
    script = message_params("wait gone; say done")
    async with streamed(nervous, "SendStreamingMessage", script) as stream:
        opening = await stream.event()
    task_id = opening.result["task"]["id"]
    # Its place is free once the gateway has noticed.
    await eventually(lambda: _has_no_streams(nervous))
    assert await state_of(nervous, task_id) == "TASK_STATE_WORKING"
    await send(nervous, "open gone")
    await eventually(lambda: _is(nervous, task_id, "TASK_STATE_COMPLETED"))


async def test_a_sender_that_leaves_does_not_stop_the_agent(nervous: Gateway) -> None:
    context = {"contextId": "of-the-impatient"}
    script = message_params("say begun; wait impatient; say done", **context)
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        sending = asyncio.create_task(
            http.post(nervous.jsonrpc_url, json=envelope("SendMessage", script))
        )
        await eventually(lambda: _has_tasks(nervous, context))
        sending.cancel()
        await asyncio.wait({sending})
    [task] = (await call(nervous, "ListTasks", context))["result"]["tasks"]
    await send(nervous, "open impatient")
    await eventually(lambda: _is(nervous, task["id"], "TASK_STATE_COMPLETED"))


async def test_a_reader_that_stops_reading_is_cut_off_and_costs_nobody(nervous: Gateway) -> None:
    count = 30_000
    begun = await send(nervous, f"wait flood; stream {count}", wait=False)
    params = {"id": begun["id"]}
    with await _silent_reader(nervous, "SubscribeToTask", params) as silent:
        before = nervous.resident_bytes()
        async with streamed(nervous, "SubscribeToTask", params) as stream:
            reading = asyncio.create_task(stream.events())
            await send(nervous, "open flood")
            events = await reading
        # On a busy machine this client is a slow one as well. It does what clients do, and
        # has everything in the end.
        while events[-1].state != "TASK_STATE_COMPLETED":
            last = events[-1].id
            async with streamed(nervous, "SubscribeToTask", params, last_event_id=last) as stream:
                events += await stream.events()
        first_id = events[0].id or 0
        assert [event.id for event in events] == [*range(first_id, first_id + len(events))]
        assert len(_said(events).split()) == count
        # The journal of this task is held once, and nothing for the one who does not read.
        assert nervous.resident_bytes() - before < 100 * MIB

        # What was on its way still arrives, and then the place to resume from.
        blocks = [block async for block in _read_on(silent)]
    received = [Event(block) for block in blocks if block.startswith(b"id:")]
    last_id = received[-1].id
    assert last_id is not None
    assert [event.id for event in received] == [*range(received[0].id or 0, last_id + 1)]
    assert blocks[-1] == b": slow reader; resume with Last-Event-ID: %d" % last_id
    assert last_id < (events[-1].id or 0)

    # Many times of what may wait for a reader, and yet it gets all of it.
    async with streamed(nervous, "SubscribeToTask", params, last_event_id=last_id) as stream:
        rest = await stream.events()
    assert [event.id for event in rest] == [*range(last_id + 1, (events[-1].id or 0) + 1)]
    assert len(rest) > BUFFER_EVENTS


async def _silent_reader(gateway: Gateway, method: str, params: dict[str, Any]) -> socket.socket:
    """A socket that has asked for a stream, has got the head, and reads no further."""
    reader = socket.socket()
    # A small window, so that the sender notices soon.
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(reader, ("127.0.0.1", gateway.port))
    body = json.dumps(envelope(method, params)).encode()
    head = (
        "POST /a2a/jsonrpc HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    await loop.sock_sendall(reader, head.encode() + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += await loop.sock_recv(reader, 1)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return reader


async def _read_on(reader: socket.socket) -> AsyncIterator[bytes]:
    """The blocks that the socket still holds or gets, out of their chunked coding."""
    loop = asyncio.get_running_loop()
    received = bytearray()
    while not received.endswith(b"\r\n0\r\n\r\n"):
        more = await loop.sock_recv(reader, 65536)
        assert more, "the stream must end in order"
        received += more
    body, at = bytearray(), 0
    while size := int(received[at : (line := received.index(b"\r\n", at))], 16):
        body += received[line + 2 : line + 2 + size]
        at = line + 2 + size + 2
    for block in bytes(body).split(b"\n\n")[:-1]:
        yield block


async def _subscribe_after(gateway: Gateway, task_id: str, last_id: int | None) -> dict[str, Any]:
    headers = {"A2A-Version": "1.0", "Last-Event-ID": str(last_id)}
    async with http_client(headers=headers) as http:
        body = envelope("SubscribeToTask", {"id": task_id})
        answer: dict[str, Any] = (await http.post(gateway.jsonrpc_url, json=body)).json()
    return answer


async def _is(gateway: Gateway, task_id: str, state: str) -> bool:
    return await state_of(gateway, task_id) == state


async def _has_tasks(gateway: Gateway, query: dict[str, Any]) -> bool:
    return bool((await call(gateway, "ListTasks", query))["result"]["tasks"])


async def _has_no_streams(gateway: Gateway) -> bool:
    async with http_client() as http:
        figures = (await http.get(f"{gateway.url}/metrics")).text
    [line] = [line for line in figures.splitlines() if line.startswith("trunkline_streams")]
    return float(line.split()[-1]) == 0


def _said(events: list[Event]) -> str:
    chunks = [
        event.result["artifactUpdate"] for event in events if "artifactUpdate" in event.result
    ]
    return "".join(part["text"] for chunk in chunks for part in chunk["artifact"]["parts"])
