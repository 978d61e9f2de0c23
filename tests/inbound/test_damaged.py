"""Damaged requests to an OpenClaw: none is an internal error (D11)."""

import json

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.fuzz import Fuzzer, good_requests
from tests.bindings.test_bad_input import LEAKS
from tests.bindings.world import World
from tests.inbound.peer import Peer, inbound_world

CASES = 300


async def exchange(world: World, request: Http) -> Answer:
    async with world.http.open(request) as response:
        body = b""
        async for chunk in response.chunks():
            body += chunk
            # The stream of a task that waits may have no end.
            if response.headers.get("content-type") == "text/event-stream" and b"data:" in body:
                break
        return Answer(status=response.status, headers=response.headers, body=body)


@pytest.mark.parametrize("seed", ["one", "two", "three"])
async def test_d11_damaged_requests_get_errors_that_say_what_is_wrong(seed: str) -> None:
    async with inbound_world() as world:
        fuzzer = Fuzzer(f"openclaw {seed}")
        ids = [(await Peer(world).send(script))["id"] for script in ("ask which?", "say done")]
        good = good_requests(world.client("jsonrpc-0.3"), [*ids, "made-up"])
        for _ in range(CASES):
            request = fuzzer.mutated(fuzzer.pick(good))
            answer = await exchange(world, request)
            assert answer.status < 500, (request, answer)
            assert b"-32603" not in answer.body, (request, answer)
            sent = repr(request).encode()
            assert not [leak for leak in LEAKS if leak in answer.body and leak not in sent]
            if answer.headers.get("content-type") != "text/event-stream":
                json.loads(answer.body)
        # It is well after all that.
        assert (await Peer(world).send("say done", id="last"))["status"]["state"] == "completed"
