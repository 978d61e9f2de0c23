"""What an agent says, over JSON-RPC 0.3 and under the preset `openclaw-inbound`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Asgi, Http
from tests.bindings.world import KEYS, World, open_world

from trunkline.settings.profiles import PRESETS

UNREPRESENTABLE = "The response could not be represented in any accepted output mode."


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world(**PRESETS["openclaw-inbound"]) as world:
        yield world


def request(method: str, text: str, *, modes: list[str] | None = None, **ids: str) -> Http:
    message = {
        "kind": "message",
        "messageId": "m-1",
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
        **ids,
    }
    params: dict[str, Any] = {"message": message}
    if modes is not None:
        params["configuration"] = {"acceptedOutputModes": modes}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Http(
        path="/a2a/jsonrpc",
        headers={"content-type": "application/json", "x-api-key": KEYS["alice"]},
        body=msgspec.json.encode(body),
    )


async def streamed(http: Asgi, text: str, **options: Any) -> list[Any]:
    """The results of a stream, each in its envelope."""
    answer = await http.send(request("message/stream", text, **options))
    frames = [frame for frame in answer.body.decode().split("\n\n") if frame]
    lines = [line for frame in frames for line in frame.split("\n") if line.startswith("data: ")]
    sent = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]
    assert all((each["jsonrpc"], each["id"]) == ("2.0", 1) for each in sent)
    return [each["result"] for each in sent]


async def test_i9_the_example_stream(world: World) -> None:
    events = await streamed(world.http, "summary Tool summary; stage-end after tool")
    task_id, context_id = events[0]["id"], events[0]["contextId"]
    ids = {"taskId": task_id, "contextId": context_id}
    times = [event["status"].pop("timestamp") for event in events if "status" in event]
    assert all(times)
    message_id = events[-1]["status"]["message"].pop("messageId")
    assert message_id
    output = {
        "artifactId": "assistant-output-0001",
        "name": "assistant-output-1",
        "metadata": {"sequence": 2, "source": "assistant-output-1"},
    }
    # What the client sent has its task and context in it as well, as 1.0 wants it.
    sent = {"kind": "text", "text": "summary Tool summary; stage-end after tool"}
    user = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [sent], **ids}
    update = {"kind": "status-update", **ids}
    artifact = {"kind": "artifact-update", **ids}
    assert events == [
        {
            "kind": "task",
            "id": task_id,
            "contextId": context_id,
            "history": [user],
            "status": {"state": "submitted"},
        },
        {**update, "final": False, "status": {"state": "submitted"}},
        {**update, "final": False, "status": {"state": "working"}},
        {
            **artifact,
            "artifact": {
                "artifactId": "tool-result-0001",
                "name": "tool-result-1",
                "metadata": {"sequence": 1, "source": "tool-result-1"},
                "parts": [{"kind": "text", "text": "Tool summary"}],
            },
        },
        {
            **artifact,
            "lastChunk": False,
            "artifact": {**output, "parts": [{"kind": "text", "text": "after tool"}]},
        },
        {**artifact, "append": True, "lastChunk": True, "artifact": {**output, "parts": []}},
        {
            **update,
            "final": True,
            "status": {
                "state": "completed",
                "message": {
                    "kind": "message",
                    "role": "agent",
                    "parts": [{"kind": "text", "text": "after tool"}],
                    **ids,
                },
            },
        },
    ]


async def test_i8_a_direct_stream_is_one_message(world: World) -> None:
    [message] = await streamed(world.http, "stream 3", contextId="c-1")
    assert message.pop("messageId")
    assert message == {
        "kind": "message",
        "role": "agent",
        "parts": [{"kind": "text", "text": "1 2 3 "}],
        "contextId": "c-1",
    }


async def test_i8_a_blocking_send_may_be_a_message(world: World) -> None:
    answer = (await world.http.send(request("message/send", "final hello"))).json()["result"]
    assert (answer["kind"], answer["parts"]) == ("message", [{"kind": "text", "text": "hello"}])
    assert "taskId" not in answer


async def test_i6_minus_32005_names_what_there_was(world: World) -> None:
    error = {
        "code": -32005,
        "message": UNREPRESENTABLE,
        "data": {"acceptedOutputModes": ["image/png"], "availableOutputModes": ["text/plain"]},
    }
    sent = await world.http.send(request("message/send", "say words", modes=["image/png"]))
    assert sent.json()["error"] == error
    sent = await world.http.send(request("message/stream", "say words", modes=["image/png"]))
    event, data = sent.body.decode().strip().split("\n")
    assert event == "event: error"
    assert msgspec.json.decode(data.removeprefix("data: "))["error"] == error


async def test_i6_an_error_after_a_heartbeat_is_the_last_event(world: World) -> None:
    asked = request("message/stream", "wait gate; say words", modes=["image/png"])
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(world.http.send(asked))
        await world.agent.gates.reached("gate")
        await world.clock.advance(16)
        world.agent.gates.open("gate")
    beat, error = answer.result().body.decode().strip().split("\n\n")
    assert beat.startswith(":")
    assert error.startswith("event: error\ndata: ")
    assert UNREPRESENTABLE in error


async def test_d2_an_empty_list_of_modes_takes_everything(world: World) -> None:
    answer = await world.http.send(request("message/send", "say words", modes=[]))
    assert answer.json()["result"]["parts"] == [{"kind": "text", "text": "words"}]


async def test_i10_a_pause_ends_the_stream(world: World) -> None:
    events = await streamed(world.http, 'tool shell {"status": "needs_approval"}')
    assert events[-1]["status"]["state"] == "input-required"
    assert not any(event.get("final") for event in events)
    [text] = events[-1]["status"]["message"]["parts"]
    assert text["text"] == "OpenClaw is waiting for tool approval to continue."
    task_id = events[0]["id"]
    resumed = await streamed(world.http, "say done", taskId=task_id)
    assert [event["kind"] for event in resumed[:3]] == ["task", "status-update", "status-update"]
    assert resumed[0]["status"]["state"] == "submitted"
    assert [event["status"]["state"] for event in resumed[1:3]] == ["submitted", "working"]
    assert resumed[-1]["status"]["state"] == "completed"


async def test_d20_media_is_a_file_with_address_type_and_name() -> None:
    file = {"url": "https://x.test/a.png", "mediaType": "image/png", "filename": "a.png"}
    script = f"parts {msgspec.json.encode([{'text': 'see'}, file]).decode()}"
    async with open_world(**PRESETS["openclaw-design"]) as world:
        answer = (await world.http.send(request("message/send", script))).json()["result"]
    assert answer["status"]["message"]["parts"] == [
        {"kind": "text", "text": "see"},
        {
            "kind": "file",
            "file": {"uri": "https://x.test/a.png", "mimeType": "image/png", "name": "a.png"},
        },
    ]
