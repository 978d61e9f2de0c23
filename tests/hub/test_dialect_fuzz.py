"""Hundreds of damaged requests in the form of the hub: each one gets a proper answer."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.clients import message
from tests.bindings.fuzz import Fuzzer, good_requests
from tests.bindings.test_bad_input import LEAKS
from tests.bindings.world import World, open_world

from trunkline.protocol.hub import STATE_NAMES
from trunkline.settings.profiles import PRESETS

RPC = "/a2a/jsonrpc"


def without_version(request: Http) -> Http:
    del request.headers["a2a-version"]
    return request


async def exchange(world: World, request: Http) -> Answer:
    async with world.http.open(request) as response:
        body = b""
        async for chunk in response.chunks():
            body += chunk
            # The stream of a task that waits has no end.
            if response.headers.get("content-type") == "text/event-stream" and b"data:" in body:
                break
        return Answer(status=response.status, headers=response.headers, body=body)


def check(request: Http, answer: Answer) -> None:
    assert 200 <= answer.status < 500
    sent = repr(request).encode()
    assert not [leak for leak in LEAKS if leak in answer.body and leak not in sent]
    if unquote(request.path) != RPC or request.method != "POST" or request.query:
        return
    if "a2a-version" in request.headers:
        return
    if answer.headers["content-type"] == "text/event-stream":
        frame = answer.body.partition(b"\n\n")[0]
        if frame.startswith(b"data: {"):
            check_event(json.loads(frame.removeprefix(b"data: ")))
        return
    body = json.loads(answer.body)
    assert body["jsonrpc"] == "2.0"
    assert isinstance(body["id"], str | int | None)
    if "error" in body:
        assert isinstance(body["error"]["code"], int)
        assert body["error"]["message"]
    else:
        assert answer.status == 200
        result = body["result"]
        # A slash in the name of the method means 0.3.
        if "kind" not in result:
            check_task(result)


def check_event(event: dict[str, Any]) -> None:
    if "kind" in event or "jsonrpc" in event:
        return
    assert set(event) == {"task"}
    check_task(event["task"])


def check_task(task: dict[str, Any]) -> None:
    assert set(task) <= {"id", "contextId", "status", "history"}
    assert task["status"]["state"] in STATE_NAMES.values()
    for said in task.get("history", ()):
        assert set(said) == {"messageId", "role", "parts"}
        assert all(set(part) == {"text"} for part in said["parts"])


async def fire(seed: str, cases: int) -> None:
    fuzzer = Fuzzer(seed)
    async with open_world(**PRESETS["hub"]) as world:
        client = world.client("jsonrpc-1.0")
        ids = [(await client.run(message(text)))["id"] for text in ("ask which?", "say done")]
        good = [without_version(each) for each in good_requests(client, [*ids, "made-up"])]
        for number in range(cases):
            request = fuzzer.mutated(fuzzer.pick(good))
            answer = await exchange(world, request)
            try:
                check(request, answer)
            except (AssertionError, ValueError, KeyError, TypeError) as error:
                raise AssertionError(f"case {number}: {request}\n{answer}") from error
        asked = without_version(client.request("SendMessage", {"message": message("say well")}))
        task = (await exchange(world, asked)).json()["result"]
        assert task["history"][-1]["parts"] == [{"text": "well"}]


async def test_damaged_requests_get_proper_answers() -> None:
    await fire("hub", 600)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", ["one", "two", "three"])
async def test_many_damaged_requests_get_proper_answers(seed: str) -> None:
    await fire(seed, 5000)
