"""What clients can do with an agent of protocol v1, and the faults of older relays."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.bindings.world import KEYS
from tests.relay.gateways import TOKEN
from tests.relay.v1_agent import CARD, Refuse
from tests.relay.v1_world import (
    AGENT_TOKEN,
    NAME,
    PATH,
    READER,
    URL,
    V1World,
    message,
    message_1_0,
    open_v1_world,
)

from trunkline.testing import settle


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[V1World]:
    async with open_v1_world(monkeypatch) as world:
        yield world


async def test_b3_b14_each_caller_has_its_own_tasks_and_contexts(world: V1World) -> None:
    async with world.attach():
        task = (await world.rpc("message/send", message(contextId="shared")))["result"]
        for method in ("tasks/get", "tasks/cancel", "SubscribeToTask"):
            answer = await world.rpc(method, {"id": task["id"]}, key=KEYS["bob"])
            assert answer["error"]["code"] == -32001, method
        assert (await world.rpc("tasks/list", {}, key=KEYS["bob"]))["result"]["tasks"] == []
        further = message(contextId="shared")
        assert (await world.rpc("message/send", further, key=KEYS["bob"]))["error"][
            "code"
        ] == -32602
        further = message(taskId=task["id"])
        assert (await world.rpc("message/send", further, key=KEYS["bob"]))["error"][
            "code"
        ] == -32001
        assert (await world.rpc("tasks/get", {"id": task["id"]}))["result"]["id"] == task["id"]


async def test_b5_the_extended_card_needs_a_credential(world: V1World) -> None:
    async with world.attach():
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
        assert (await world.post("", body, authorization="")).status == 401
        answer = await world.rpc("GetExtendedAgentCard", {}, version="1.0")
        assert answer["result"]["name"] == CARD["name"]
        answer = await world.rpc("agent/getAuthenticatedExtendedCard", {})
        assert answer["result"]["name"] == CARD["name"]


async def test_b7_messages_that_waited_come_in_order_and_one_at_a_time_in_a_context(
    world: V1World,
) -> None:
    async with world.attach():
        pass
    ids = []
    for number in range(12):
        given = message(f"{number % 3}.{number}.", contextId=f"context-{number % 3}")
        ids.append((await world.rpc("message/send", given))["result"]["id"])
    async with world.attach() as agent:
        agent.may_answer.clear()
        # One of each context is on its way, and no other.
        await world.until(lambda: len(agent.requests) == 3)
        agent.may_answer.set()
        await world.until(lambda: len(agent.requests) == 12)
        for id in ids:
            await world.task_in(id, "completed")
    texts = [request["params"]["message"]["parts"][0]["text"] for request in agent.requests]
    for context in "012":
        of_context = [int(text.split(".")[1]) for text in texts if text.startswith(context)]
        assert of_context == sorted(of_context)


async def test_b8_a_task_that_waited_keeps_the_id_that_its_client_has(
    world: V1World,
) -> None:
    async with world.attach():
        pass
    queued = (await world.rpc("message/send", message("later", contextId="mine")))["result"]
    assert queued["status"]["state"] == "submitted"
    id = queued["id"]
    async with world.attach() as agent:
        task = await world.task_in(id, "completed")
        assert "re: later" in str(task)
        assert (task["id"], task["contextId"]) == (id, "mine")
        # The agent has another id for it.
        assert [*agent.tasks] != [id]
        listed = (await world.rpc("tasks/list", {}))["result"]["tasks"]
        assert [each["id"] for each in listed] == [id]
        assert (await world.rpc("tasks/get", {"id": id}, key=KEYS["bob"]))["error"][
            "code"
        ] == -32001
        # The conversation goes on in its context.
        agent.send = lambda params: agent.run(params, state="input-required")
        asked = (await world.rpc("message/send", message("more", contextId="mine")))["result"]
        assert agent.requests[-1]["params"]["message"]["contextId"] == "mine"
        further = message("and more", taskId=asked["id"])
        await world.rpc("message/send", further)
        assert agent.requests[-1]["params"]["message"]["taskId"] == asked["id"]
        cancelled = await world.rpc("tasks/cancel", {"id": id})
        assert cancelled["result"]["id"] == id


async def test_b8_a_delivery_may_end_with_a_message_or_an_error(
    world: V1World,
) -> None:
    async with world.attach():
        pass
    first = (await world.rpc("message/send", message("one")))["result"]["id"]
    second = (await world.rpc("message/send", message("two")))["result"]["id"]
    async with world.attach() as agent:

        def answer(params: dict[str, Any]) -> Any:
            if "two" in str(params):
                raise Refuse(-32603, "the model is down")
            parts = [{"kind": "text", "text": "only a word"}]
            return {"kind": "message", "messageId": "a", "role": "agent", "parts": parts}

        agent.send = answer
        told = await world.task_in(first, "completed")
        assert "only a word" in str(told["status"]["message"])
        failed = await world.task_in(second, "failed")
        assert "the model is down" in str(failed["status"]["message"])
        listed = (await world.rpc("tasks/list", {}))["result"]["tasks"]
        assert {each["id"] for each in listed} == {first, second}


async def poll(world: V1World, id: str, *, key: str = KEYS["alice"], tenant: str = "acme") -> Any:
    answer = await world.get(f"/t/{tenant}/tasks/{id}", key=key)
    return answer.json() | {"http": answer.status}


async def test_b3_b8_a_client_polls_for_its_own_task_alone(
    world: V1World,
) -> None:
    async with world.attach():
        pass
    id = (await world.rpc("message/send", message("later")))["result"]["id"]
    queued = {"http": 200, "status": "queued", "task_id": id}
    assert await poll(world, id) == queued
    others = [
        await poll(world, id, key=KEYS["bob"]),
        await poll(world, id, tenant="other"),
        await poll(world, "none"),
        await poll(world, "none", tenant="no-such-tenant"),
    ]
    assert {answer["http"] for answer in others} == {404}
    assert len({str(answer).replace("none", id) for answer in others}) == 1
    assert (await poll(world, id, key=""))["http"] == 401
    async with world.attach():
        await world.task_in(id, "completed")
        polled = await poll(world, id)
        assert polled["status"] == "completed"
        assert polled["response"]["id"] == id
        assert "re: later" in str(polled["response"])
        assert (await poll(world, id, key=KEYS["bob"]))["http"] == 404


async def directory(world: V1World, *, key: str = KEYS["alice"], tenant: str = "acme") -> Any:
    answer = await world.get(f"/t/{tenant}/agents", key=key)
    return answer.json() if answer.status == 200 else answer.status


async def shown(world: V1World) -> Any:
    (agent,) = [agent for agent in await directory(world) if agent["id"] == NAME]
    return agent


async def test_the_directory_shows_the_agents_that_the_caller_may_call(world: V1World) -> None:
    async with world.attach():
        agent = await shown(world)
        assert (agent["name"], agent["description"]) == (CARD["name"], CARD["description"])
        assert agent["online"] is True
        assert agent["connected_at"]
        assert {each["id"] for each in await directory(world)} == {NAME, "scripted"}
        # The list is of the operation that reads cards, and this key may only get tasks.
        assert await directory(world, key=READER) == []
        assert await directory(world, key=TOKEN) == 403
        assert await directory(world, tenant="other") == []
        assert await directory(world, key="") == 401
        assert (await world.world.http.send(Http(path="/t/acme/agents"))).status == 405
    agent = await shown(world)
    assert (agent["online"], agent["connected_at"]) == (False, None)
    assert agent["last_seen"]


async def test_b15_the_card_is_there_while_the_agent_is_away(
    world: V1World,
) -> None:
    async with world.attach():
        pass
    for name in ("agent.json", "agent-card.json"):
        answer = await world.get(f"{PATH}/.well-known/{name}")
        assert answer.status == 200
        assert answer.json()["x-unknown"] == CARD["x-unknown"]
        assert answer.json()["url"] == URL


async def test_b9_errors_of_the_older_addresses_have_bodies(world: V1World) -> None:
    async def post(below: str, body: Any, **headers: str) -> tuple[int, Any]:
        answer = await world.post(below, body, **headers)
        return answer.status, answer.json()

    async with world.attach() as agent:
        status, result = await post("/message/send", message("plain"))
        assert (status, result["status"]["state"]) == (200, "completed")
        envelope = {"jsonrpc": "2.0", "id": 5, "method": "message/send", "params": message("in")}
        status, enveloped = await post("/message/send", envelope)
        assert (status, enveloped["kind"]) == (200, "task")
        status, streamed = await post("/message/stream", message("one"))
        assert (status, streamed["kind"]) == (200, "task")
        assert (await post(f"/tasks/{result['id']}/cancel", b""))[1]["id"] == result["id"]

        status, failure = await post("/tasks/none/cancel", {})
        assert (status, failure["error"]["code"]) == (404, -32001)
        for broken in (b"", b"{", b"[]", b'{"message":1}', b"\xff"):
            status, failure = await post("/message/send", broken)
            assert status == 400, broken
            assert failure["error"]["message"]
        status, failure = await post("/message/send", {}, authorization="Bearer none")
        assert status == 401
        assert failure["error"]["message"]

        def refuse(_: Any) -> None:
            raise Refuse(-32603, "the model is down")

        agent.send = refuse
        status, failure = await post("/message/send", message())
        assert (status, "the model is down" in failure["error"]["message"]) == (500, True)


@pytest.mark.parametrize("names", ["0.3", "1.0"])
async def test_b12_every_operation_works_by_either_name(world: V1World, names: str) -> None:
    is_new = names == "1.0"
    async with world.attach() as agent:
        agent.send = lambda params: agent.run(params, state="working")
        given = message_1_0() if is_new else message()
        sent = await world.rpc("SendMessage" if is_new else "message/send", given)
        id = (sent["result"].get("task") or sent["result"])["id"]
        for new, old in (
            ("GetTask", "tasks/get"),
            ("ListTasks", "tasks/list"),
            ("CancelTask", "tasks/cancel"),
        ):
            params = {} if "ist" in new else {"id": id}
            assert "result" in await world.rpc(new if is_new else old, params), new
        push = "CreateTaskPushNotificationConfig" if is_new else "tasks/pushNotificationConfig/set"
        assert (await world.rpc(push, {"taskId": id}))["error"]["code"] == -32003


async def test_b12_a_stream_has_the_result_and_follows_a_task_that_goes_on(world: V1World) -> None:
    async with world.attach() as agent:
        (only,) = await world.events("message/stream", message("short"))
        assert only["status"]["state"] == "completed"

        agent.send = lambda params: agent.run(params, state="working")
        start = world.world.relay_tasks.start
        following = start(world.events("message/stream", message("long")), name="stream")
        await settle()
        task = [*agent.tasks.values()][-1]
        again = start(world.events("tasks/resubscribe", {"id": task["id"]}), name="subscribe")
        await world.clock.advance(3)
        parts = [{"kind": "text", "text": "more"}]
        task["artifacts"].append({"artifactId": "b", "parts": parts})
        task["status"] = {"state": "completed"}
        await world.clock.advance(3)
        first, artifact, last = await following
        assert first["status"]["state"] == "working"
        assert artifact["artifact"]["artifactId"] == "b"
        assert (last["kind"], last["status"]["state"]) == ("status-update", "completed")
        assert [event["kind"] for event in await again] == [
            "task",
            "artifact-update",
            "status-update",
        ]


async def test_b13_the_requests_of_an_agent_are_bounded(world: V1World) -> None:
    async with world.attach() as agent:
        # The relay has read the card.
        await settle()
        agent.may_answer.clear()
        keys = (KEYS["alice"], KEYS["bob"])
        calls = [
            world.starting("message/send", message(), key=keys[number % 2]) for number in range(140)
        ]
        await settle()
        refused = [call.result() for call in calls if call.done()]
        assert [answer["http"] for answer in refused] == [503] * 12
        assert len(agent.requests) == 128
        agent.may_answer.set()
        answers = await asyncio.gather(*calls)
        assert sum("result" in answer for answer in answers) == 128


async def test_the_card_is_that_of_the_agent_with_the_addresses_of_the_relay(
    world: V1World,
) -> None:
    card = CARD | {"signatures": [{"protected": "x", "signature": "y"}], "security": [{"own": []}]}
    async with world.attach(card=card):
        answers = [
            await world.get(f"{PATH}/.well-known/{name}")
            for name in ("agent.json", "agent-card.json")
        ]
        assert answers[0].body == answers[1].body
        served = answers[0].json()
    for name in ("name", "description", "version", "skills", "provider", "x-unknown"):
        assert served[name] == CARD[name]
    # Unknown members keep their bytes.
    assert '"x-unknown":[1, 2.0, {"deep": null}]' in answers[0].body.decode()
    assert served["url"] == URL
    assert served["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": True,
        "x-own": {"a": 1.5},
    }
    interfaces = served["supportedInterfaces"] + served["additionalInterfaces"]
    assert {interface["url"] for interface in interfaces} == {URL}
    assert "localhost:9999" not in answers[0].body.decode()
    assert "signatures" not in served
    assert [*served["securitySchemes"]] == ["bearer"]


async def test_a_card_that_is_too_large_is_refused(world: V1World) -> None:
    end = await world.world.wire.connect_v1()
    card = {"description": "x" * 200_000}
    await end.send(json.dumps({"type": "auth", "token": AGENT_TOKEN, "agent_card": card}))
    assert "131072 bytes" in json.loads(await end.receive())["message"]


async def test_the_address_may_end_with_a_slash(world: V1World) -> None:
    async with world.attach():
        assert "result" in await world.rpc("message/send", message(), path="/")


@pytest.mark.parametrize("card", [None, {}, {"name": None, "capabilities": {}}])
async def test_an_agent_with_a_poor_card_can_be_called(world: V1World, card: Any) -> None:
    async with world.attach(card=card):
        assert "result" in await world.rpc("message/send", message())
        assert (await world.get(f"{PATH}/.well-known/agent.json")).status == 200


NO_ANSWERS: tuple[Any, ...] = (
    None,
    7,
    [],
    {},
    "x",
    {"kind": "task"},
    {"kind": "task", "id": "", "status": {"state": "x"}},
)


async def test_an_answer_that_is_not_a2a_is_an_error_of_the_agent(world: V1World) -> None:
    async with world.attach() as agent:
        results = iter(NO_ANSWERS)
        agent.send = lambda _: next(results)
        for result in NO_ANSWERS:
            answer = await world.rpc("message/send", message())
            assert answer["error"]["code"] == -32006, result


async def test_grants_hold_for_agents_of_protocol_v1(world: V1World) -> None:
    async with world.attach() as agent:
        answer = await world.rpc("message/send", message(), key=READER)
        assert answer["http"] == 403
        assert not agent.requests
