"""Values and their JSON (protocol section 4)."""

import re
from typing import Any

import msgspec
import pytest
from tests.bindings.cases import JSONRPC, V03, V10, in_memory, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.shapes import Json
from tests.bindings.world import World, open_world

database = in_memory

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def echoed(client: Client, part: Json) -> Json:
    """The part as it comes back from an agent that echoes."""
    task = await client.run(message(part))
    assert task["history"][0]["parts"] == [part]
    [[answer]] = [artifact["parts"] for artifact in task["artifacts"]]
    return dict(answer)


@over(*V10)
@pytest.mark.parametrize(
    "part",
    [
        {"text": "grüße 🌍"},
        {"text": ""},
        {"text": "a", "mediaType": "text/plain", "filename": "a.txt", "metadata": {"a": [1]}},
        {"url": "https://files.example/a.txt", "mediaType": "text/plain", "filename": "a.txt"},
        {"raw": "+/8=", "mediaType": "text/plain"},
        {"raw": ""},
        {"data": {"n": 42, "f": 1.5, "big": 2**53 + 1, "deep": {"a": [None, False]}}},
        {"data": {}},
    ],
    ids=str,
)
async def test_parts_come_back_as_they_were_sent(client: Client, part: Json) -> None:
    assert await echoed(client, part) == part


@over(*V10)
@pytest.mark.parametrize("data", [None, 0, False, "", [], [1, "two", None], 42, "text"], ids=repr)
async def test_data_may_be_any_json_value_and_falsy(client: Client, data: Any) -> None:
    assert await echoed(client, {"data": data}) == {"data": data}


@over(*V03)
async def test_data_of_0_3_comes_back_as_it_was_sent(client: Client) -> None:
    part = {"data": {"n": 42, "deep": {"a": [None, False]}}}
    assert await echoed(client, part) == part


@over(*V03)
async def test_data_that_0_3_does_not_know_is_put_into_an_object(
    client: Client, world: World
) -> None:
    task = await world.client("jsonrpc-1.0").run(message({"data": [1, 2]}))
    seen = await client.get(task["id"])
    [part] = seen["artifacts"][0]["parts"]
    assert part == {"data": {"value": [1, 2]}, "metadata": {"data_part_compat": True}}


@over(*JSONRPC)
async def test_files_come_back_as_they_were_sent(client: Client) -> None:
    part = {"raw": "aGVsbG8=", "mediaType": "text/plain", "filename": "hello.txt"}
    assert await echoed(client, part) == part


async def test_whole_numbers_stay_whole(client: Client, world: World) -> None:
    task = await client.run(message({"data": {"n": 42}}))
    answer = await client.http.send(client.request("GetTask", {"id": task["id"]}))
    assert b'"n":42' in answer.body
    assert b"42.0" not in answer.body


async def test_timestamps_are_utc_with_z_and_milliseconds(client: Client) -> None:
    async with client.stream("note on it; say hi") as stream:
        events = await stream.rest()
    stamps = [event.value["status"]["timestamp"] for event in events if "status" in event.value]
    assert len(stamps) == 4
    assert all(TIMESTAMP.fullmatch(stamp) for stamp in stamps)


async def test_unknown_fields_are_ignored(client: Client) -> None:
    sent = message("say hi", colour="blue")
    sent["parts"][0]["shape"] = {"round": True}
    params = {"message": sent, "configuration": {"later": 1}, "more": []}
    task = (await client.call("SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "colour" not in str(task)


async def test_messages_of_the_agent_name_context_and_task(client: Client) -> None:
    task = await client.run("note on it; ask which?")
    said = [m for m in task["history"] if m["role"] == "ROLE_AGENT"]
    said.append(task["status"]["message"])
    assert len(said) >= 2
    assert {(m["taskId"], m["contextId"]) for m in said} == {(task["id"], task["contextId"])}
    assert all(m["messageId"] for m in said)


async def test_artifact_ids_are_unique_in_a_task(client: Client) -> None:
    task = await client.run("say a; artifact text x 1; artifact text x 2; chunks y 3; tool t")
    ids = [artifact["artifactId"] for artifact in task["artifacts"]]
    assert sorted(ids) == sorted(set(ids))
    # The later artifact with the id of an earlier one replaces it.
    assert [a["parts"] for a in task["artifacts"] if a["artifactId"] == "x"] == [[{"text": "2"}]]


async def test_task_ids_are_made_by_the_server_and_unique(client: Client) -> None:
    ids = {(await client.run("say hi"))["id"] for _ in range(20)}
    assert len(ids) == 20


async def test_metadata_comes_back_as_it_was_sent(client: Client) -> None:
    metadata = {"n": 1, "f": 0.5, "t": "ü", "l": [1, {"a": None}], "o": {}}
    task = await client.run(message("say hi", metadata=metadata))
    assert task["history"][0]["metadata"] == metadata


@over(*V10)
@pytest.mark.parametrize("number", [1, "1"])
async def test_enums_may_come_by_number(client: Client, number: object) -> None:
    sent = message("say hi") | {"role": number}
    if isinstance(number, str):
        with refused("INVALID_PARAMS", "message.role"):
            await client.send(sent)
    else:
        assert (await client.run(sent))["history"][0]["role"] == "ROLE_USER"


@over(*V10)
async def test_null_means_absent(client: Client) -> None:
    sent = message("say hi", metadata=None, extensions=None, taskId=None)
    params = {"message": sent, "configuration": None, "metadata": None}
    task = (await client.call("SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_output_has_no_null_and_no_empty_members(client: Client) -> None:
    task = await client.run("say hi")
    answer = await client.http.send(client.request("GetTask", {"id": task["id"]}))
    assert b":null" not in answer.body
    assert b':""' not in answer.body


async def test_deep_but_bounded_json_is_taken(client: Client) -> None:
    data: Json = {}
    for _ in range(40):
        data = {"a": data}
    assert await echoed(client, {"data": data}) == {"data": data}


async def test_text_of_every_script_comes_back(dialect: str) -> None:
    text = "".join(map(chr, [*range(0x20, 0x7F), 0xE9, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFF]))
    async with open_world() as world:
        client = world.client(dialect)
        assert await echoed(client, {"text": text}) == {"text": text}
        request = client.request("SendMessage", {"message": message({"text": "@"})})
        assert isinstance(request.body, bytes)
        request.body = request.body.replace(b'"@"', b'"\\ud83c\\udf0d\\u0000"')
        task = client.result("SendMessage", await client.http.send(request))["task"]
        assert task["history"][0]["parts"] == [{"text": "🌍\0"}]
        assert msgspec.json.encode(task)
