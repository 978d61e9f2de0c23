"""What is recorded of the servers behind models and OpenClaw: HTTP streams and WebSockets."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from tests.console.wire_world import ECHO, records, switch
from tests.hub.registry_world import HubWorld, made
from tests.sockets.peer import serving
from websockets.asyncio.server import ServerConnection, serve

from trunkline.clock import SystemClock
from trunkline.config.masking import KnownSecrets
from trunkline.console.wire.log import Wanted, WireLog
from trunkline.console.wire.masking import Masker
from trunkline.ports.call_path import CALL_PATH, CallPath
from trunkline.ports.wire_log import ClientTap
from trunkline.remote.websocket import MAX_RECORDED_MESSAGES, SocketClosed, open_websocket
from trunkline.server.http import Request, Response
from trunkline.testing import FakeClock, SequentialIds

KEY = "sk-a-key-for-the-model-server"


async def model(request: Request, response: Response) -> None:
    """Streams two pieces of an answer, the second of which quotes the key."""
    await request.body(limit=10_000)
    await response.begin(200, [(b"content-type", b"text/event-stream")])
    for text in ("Hel", f"lo {KEY}"):
        chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    await response.write(b"data: [DONE]\n\n")
    await response.end()


async def test_the_requests_to_a_model_server() -> None:
    async with serving(model) as server:
        backend: dict[str, Any] = {
            "kind": "openai",
            "base_url": f"http://127.0.0.1:{server.port}/v1",
            "model": "m",
            "api_key": KEY,
        }
        clock = FakeClock()
        agents = {"acme/model": {"name": "Model", "backend": backend}, "acme/echo": ECHO}
        gateway = made(clock, agents=agents)
        await gateway.open()
        try:
            world = HubWorld(gateway, clock)
            await switch(world, "acme/model")
            answer = await world.send("acme/model", by="operator")
            task = answer.json()["result"]["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            served, call = await records(world)
            assert (call["side"], call["operation"], call["binding"]) == ("client", "", "http")
            assert call["url"].endswith("/v1/chat/completions")
            assert (call["taskId"], call["parent"]) == (task["id"], served["id"])
            assert ["Authorization", "Bearer ***"] in call["requestHeaders"]
            assert call["events"] == 4
            assert KEY not in json.dumps([served, call])
            assert "lo ***" in call["frames"][1]["data"]
        finally:
            await gateway.close()


def wire_log() -> WireLog:
    return WireLog(
        max_bytes=1024 * 1024,
        masker=Masker(KnownSecrets()),
        clock=SystemClock(),
        ids=SequentialIds(),
    )


async def test_a_websocket_is_recorded_with_the_turn_of_each_message_that_was_sent() -> None:
    log = wire_log()
    tap = ClientTap(agent="acme/claw", recorder=log)

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)
            if message == "close":
                await connection.close(4001, "enough")

    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/claw?token=hush-hush"
        socket = await open_websocket(url, connect_s=10, max_frame_bytes=100_000, tap=tap)

        async def turn(task_id: str) -> None:
            CALL_PATH.set(CallPath(task_id=task_id, wire_id=f"record of {task_id}"))
            await socket.send(json.dumps({"method": "chat", "token": "hush-hush"}))

        async with asyncio.TaskGroup() as turns:
            for task_id in ("t1", "t2"):
                _ = turns.create_task(turn(task_id))
        for _ in range(2):
            await socket.receive()
        tap.recorder = None
        await socket.send("not recorded")
        await socket.receive()
        tap.recorder = log
        await socket.send("close")
        await socket.receive()
        with suppress(SocketClosed):
            await socket.receive()
        await socket.close()
        (record,) = [log.find(id) for id in log.ids(Wanted())]
        assert record is not None
        assert (record.binding, record.status, record.agent) == ("websocket", 101, "acme/claw")
        assert record.url == f"ws://127.0.0.1:{port}/claw?token=***"
        sent = [(f.task_id, f.parent) for f in record.frames if f.direction == "out"]
        assert sent == [("t1", "record of t1"), ("t2", "record of t2"), ("", "")]
        assert [f.data for f in record.frames if f.direction == "in"][-1] == "close"
        assert "not recorded" not in str(record)
        assert "hush" not in str(record)
        assert record.error == "The peer closed it: 4001 enough"
        assert log.ids(Wanted(task_id="t2")) == [record.id]


async def test_a_socket_with_many_messages_goes_on_in_another_record() -> None:
    log = wire_log()

    async def swallow(connection: ServerConnection) -> None:
        async for _ in connection:
            pass

    async with serve(swallow, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        socket = await open_websocket(
            f"ws://127.0.0.1:{port}/",
            connect_s=10,
            max_frame_bytes=1000,
            tap=ClientTap(agent="a/b", recorder=log),
        )
        for number in range(MAX_RECORDED_MESSAGES + 1):
            await socket.send(str(number))
        await socket.close()
    found = [log.find(id) for id in log.ids(Wanted())]
    assert [record.events for record in found if record] == [MAX_RECORDED_MESSAGES, 1]
    assert all(record.ms is not None and not record.frames_left_out for record in found if record)
