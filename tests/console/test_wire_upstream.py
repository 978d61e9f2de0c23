"""Both wires of an agent whose backend is another gateway: ours, and the one to that gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.console.wire_world import ECHO, SCRIPTED, call_of, records, switch
from tests.hub.registry_world import Callers, HubWorld, made, settings
from tests.sockets.peer import passes, serving

from trunkline.app.gateway import Gateway, build
from trunkline.server.http import Request, Response
from trunkline.testing import FakeClock

SECRET = "sesame-open-7f3a9"
FRONT = "acme/front"


class Pair:
    def __init__(self, upstream: Gateway, clock: FakeClock, front: HubWorld) -> None:
        self.upstream = upstream
        self.upstream_clock = clock
        self.front = front


@asynccontextmanager
async def pair(agent: Mapping[str, Any] = ECHO, **backend: Any) -> AsyncIterator[Pair]:
    """A gateway whose agent `acme/front` is the agent `acme/there` of another gateway."""
    upstream: Gateway | None = None

    async def serve(request: Request, response: Response) -> None:
        assert upstream is not None
        await upstream.application.serve(request, response)

    async with serving(serve) as server:
        url, clock = f"http://127.0.0.1:{server.port}", FakeClock()
        upstream = build(
            settings(agents={"acme/there": dict(agent)}),
            base_url=url,
            clock=clock,
            authenticators=(Callers(),),
        )
        await upstream.open()
        table = {
            "kind": "a2a",
            "url": f"{url}/api/a2a/v1/agents/acme/there",
            "headers": {"Authorization": "Bearer operator", "X-Team-Secret": SECRET},
            "on_unreachable": "fail",
        }
        own = FakeClock()
        front = made(own, agents={FRONT: {"name": "Front", "backend": table | backend}})
        await front.open()
        try:
            yield Pair(upstream, clock, HubWorld(front, own))
        finally:
            await front.close()
            await upstream.close()


def sides(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The requests to our gateway, and the calls that its backend made of the agent."""
    served = [each for each in found if each["side"] == "server"]
    return served, [each for each in found if each["side"] == "client" and each["parent"]]


async def test_both_wires_are_recorded_and_the_upstream_request_names_its_parent() -> None:
    async with pair() as both:
        world = both.front
        await switch(world, FRONT)
        answer = await world.send(FRONT, by="operator")
        assert answer.status == 200
        task = answer.json()["result"]["task"]
        found = await records(world)
        served = [each for each in found if each["side"] == "server"]
        sent = [each for each in found if each["side"] == "client"]
        assert [(each["operation"], each["binding"]) for each in served] == [
            ("SendMessage", "jsonrpc")
        ]
        assert served[0]["taskId"] == task["id"]
        assert served[0]["contextId"] == task["contextId"]
        (call,) = [each for each in sent if each["httpMethod"] == "POST"]
        assert call["parent"] == served[0]["id"]
        assert (call["taskId"], call["contextId"]) == (task["id"], task["contextId"])
        assert call["agent"] == "acme/front"
        assert call["status"] == 200
        assert call["frames"], call
        assert SECRET not in json.dumps(found)
        assert "Bearer operator" not in json.dumps(found)
        assert (call["operation"], call["binding"]) == ("SendStreamingMessage", "jsonrpc")
        assert (call["version"], call["error"]) == ("1.0", "")
        cards = [each for each in sent if each["httpMethod"] == "GET"]
        assert {each["operation"] for each in cards} == {"GetAgentCard"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"a2a_version": "0.3"}, ("SendStreamingMessage", "jsonrpc", "0.3")),
        ({"transports": ["HTTP+JSON"]}, ("SendStreamingMessage", "rest", "1.0")),
    ],
    ids=["0.3", "rest"],
)
async def test_the_calls_of_other_versions_and_bindings_are_named(
    options: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    async with pair(**options) as both:
        await switch(both.front, FRONT)
        assert (await both.front.send(FRONT, by="operator")).status == 200
        _, sent = sides(await records(both.front))
        calls = [each for each in sent if each["httpMethod"] == "POST"]
        first = calls[0]
        assert (first["operation"], first["binding"], first["version"]) == expected


async def test_a_turn_that_waited_in_the_queue_names_its_own_request() -> None:
    async with pair(SCRIPTED) as both:
        world = both.front
        await switch(world, FRONT)
        first = asyncio.get_running_loop().create_task(world.ask(FRONT, "delay 5", by="operator"))
        while not sides(await records(world))[1]:
            await passes()
        # A second message into the same context waits for the first one.
        lanes = world.gateway.runtimes.main
        assert lanes is not None
        (run,) = lanes.runs.running
        body = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "SendMessage",
            "params": {
                "message": {
                    "messageId": "second",
                    "role": "ROLE_USER",
                    "contextId": run.context_id,
                    "parts": [{"text": "hello"}],
                }
            },
        }
        second = asyncio.get_running_loop().create_task(
            world._sent(FRONT, "operator", json.dumps(body).encode())
        )
        await passes(20)
        assert len(sides(await records(world))[0]) == 2
        assert len(lanes.runs.running) == 1
        while not (first.done() and second.done()):
            await both.upstream_clock.advance(1)
            await passes(5)
        assert (first.result().status, second.result().status) == (200, 200)
        served, sent = sides(await records(world))
        by_id = {each["id"]: call_of(each) for each in served}
        for call in sent:
            if call["operation"] != "SendStreamingMessage":
                continue
            asked = by_id[call["parent"]]["params"]["message"]["parts"]
            assert call_of(call)["params"]["message"]["parts"] == asked
        assert len({call["parent"] for call in sent}) == 2


async def test_a_server_that_cannot_be_reached_is_recorded() -> None:
    async with pair(url="http://127.0.0.1:1/nothing") as both:
        await switch(both.front, FRONT)
        sending = asyncio.get_running_loop().create_task(both.front.send(FRONT, by="operator"))
        while not sending.done():
            # The calls are tried again after a pause.
            await both.front.clock.advance(1)
            await passes()
        answer = sending.result()
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_FAILED"
        _, sent = sides(await records(both.front))
        assert sent
        assert {each["status"] for each in sent} == {None}
        assert all("cannot connect" in each["error"] for each in sent)
        assert all(each["ms"] is not None for each in sent)


async def test_the_upstream_gateway_records_its_own_side() -> None:
    async with pair() as both:
        both.upstream.wire.control.record("acme/there")
        await switch(both.front, FRONT)
        assert (await both.front.send(FRONT, by="operator")).status == 200
        _, sent = sides(await records(both.front))
        (call,) = [each for each in sent if each["httpMethod"] == "POST"]
        world = HubWorld(both.upstream, both.upstream_clock)
        served, _ = sides(await records(world))
        (there,) = [each for each in served if each["operation"] == "SendStreamingMessage"]
        assert there["requestBody"] == call["requestBody"]
        assert [f["data"] for f in there["frames"]] == [f["data"] for f in call["frames"]]
