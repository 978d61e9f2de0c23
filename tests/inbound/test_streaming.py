"""Streams as an OpenClaw writes them (inbound.md I-6)."""

import json

import pytest
from tests.bindings.shapes import Json
from tests.inbound.peer import Peer, events_in, inbound_world, preset_world, user

FILE: Json = {"kind": "file", "file": {"uri": "https://example.com/a.png"}}


async def test_i6_headers_and_frames_of_a_stream() -> None:
    async with inbound_world() as world:
        answer = await Peer(world).call("message/stream", {"message": user("say hi")}, id=5)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    events = events_in(answer)
    # No `id:` lines: there is nothing to resume with.
    assert {tuple(event) for event in events} == {("data",)}
    bodies = [json.loads(event["data"]) for event in events]
    assert {(body["jsonrpc"], body["id"]) for body in bodies} == {("2.0", 5)}
    assert bodies[0]["result"]["kind"] == "task"
    last = bodies[-1]["result"]
    assert (last["kind"], last["final"]) == ("status-update", True)
    assert last["status"]["state"] == "completed"


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("tasks/resubscribe", {"id": "nobody"}, -32001, "Task not found: nobody"),
        ("tasks/resubscribe", {"ids": "t"}, -32602, "id is required."),
        ("message/stream", {"configuration": {}}, -32602, "message is required."),
        (
            "message/stream",
            {"message": user("hi", taskId="nobody")},
            -32001,
            "Task not found: nobody",
        ),
        (
            "message/stream",
            {"message": user(FILE)},
            -32602,
            "message.parts[0].kind=file is not supported; "
            "inbound A2A requests only accept text and data parts.",
        ),
    ],
)
async def test_i6_a_stream_that_is_refused_is_a_stream_of_one_error(
    method: str, params: Json, code: int, message: str
) -> None:
    async with inbound_world() as world:
        answer = await Peer(world).call(method, params)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-cache"
    [event] = events_in(answer)
    assert event["event"] == "error"
    assert json.loads(event["data"]) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": code, "message": message},
    }


async def test_i6_without_streams_the_refusal_is_in_the_stream_too() -> None:
    async with inbound_world(streaming=False) as world:
        [event] = events_in(await Peer(world).call("message/stream", {"message": user("hi")}))
    assert json.loads(event["data"])["error"]["code"] == -32004


async def test_i6_who_has_too_many_streams_gets_429() -> None:
    async with inbound_world(server={"max_streams_per_principal": 0}) as world:
        answer = await Peer(world).call("message/stream", {"message": user("hi")})
    assert answer.status == 429
    assert answer.headers["content-type"] == "application/json"


async def test_i10_a_question_ends_the_stream_and_is_not_final() -> None:
    async with inbound_world() as world:
        events = await Peer(world).stream("message/stream", {"message": user("ask which?")})
    last = json.loads(events[-1]["data"])["result"]
    assert last["status"]["state"] == "input-required"
    assert [json.loads(event["data"])["result"].get("final") for event in events][1:] == (
        [False] * (len(events) - 1)
    )


async def test_x12_last_event_id_means_nothing_without_replay() -> None:
    async with inbound_world() as world:
        task = await Peer(world).send("ask which?")
        headers = {"last-event-id": "no number"}
        client = world.client("jsonrpc-0.3")
        async with client.subscribe(task["id"], headers=headers) as stream:
            first = await stream.next()
    assert (first.kind, first.id) == ("task", None)


async def test_d21_d22_the_stream_of_the_design() -> None:
    async with preset_world("openclaw-design") as world:
        params = {"message": user("say hel; say lo; tool search")}
        events = await Peer(world).stream("message/stream", params)
    task, *updates = [json.loads(event["data"])["result"] for event in events]
    assert (task["kind"], task["status"]["state"]) == ("task", "submitted")
    seen = [
        each["artifact"]["name"]
        if each["kind"] == "artifact-update"
        else (each["status"]["state"], _text(each), each["final"])
        for each in updates
    ]
    assert seen == [
        ("working", "", False),
        ("working", "hel", False),
        ("working", "lo", False),
        "search",
        ("completed", "hello", True),
    ]


def _text(update: Json) -> str:
    said = update["status"].get("message", {"parts": []})
    return "".join(part["text"] for part in said["parts"])
