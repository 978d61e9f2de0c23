"""A relay as a process, and agents of protocol v1 in this one."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.acceptance.gateway import Gateway, gateway, http_client
from tests.acceptance.relay_hosts import until
from tests.relay.v1_agent import CARD, Refuse, Refused, V1Agent, v1_agent
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

# Each test has an agent of its own.
AGENTS = ["noisy", *(f"a{number}" for number in range(60))]
QUEUED = [f"q{number}" for number in range(5)]
CONFIG = """
[relay_server]
mailbox = "fail"
[auth.keys.alice]
key = "alice-has-this-key"
[auth.keys.bob]
key = "bob-has-another-key"
[auth.keys.reader]
key = "the-reader-may-only-get"
grants = { "acme/*" = ["GetTask"] }
[auth.keys.hosts]
key = "hosts-may-have-many-agents"
attach = ["acme/*"]
""" + "".join(
    f"""
[auth.keys.{agent}]
key = "the-token-of-{agent}-here"
attach = ["acme/{agent}"]
"""
    for agent in (*AGENTS, *QUEUED)
)
CONFIG += "".join(
    f"""
[relay_server.agents."acme/{agent}"]
mailbox = "queue"
wait_s = 0
"""
    for agent in QUEUED
)
ALICE, BOB = "alice-has-this-key", "bob-has-another-key"


class World:
    def __init__(self, relay: Gateway) -> None:
        self.relay = relay
        self._names = iter(AGENTS[1:])
        self._queued = iter(QUEUED)
        self.name = ""

    def new_agent(self, *, is_queued: bool = False) -> None:
        self.name = next(self._queued if is_queued else self._names)

    def attach(self, *, name: str = "", **options: Any) -> Any:
        token = f"the-token-of-{name or self.name}-here"
        return v1_agent(self.relay.port, token, **options)

    @property
    def url(self) -> str:
        return f"{self.relay.url}/t/acme/a2a/{self.name}"

    async def rpc(self, method: str, params: Any, *, key: str = ALICE, version: str = "") -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Authorization": f"Bearer {key}"} | ({"A2A-Version": version} if version else {})
        async with http_client() as http:
            answer = await http.post(self.url, json=body, headers=headers, timeout=60)
        return answer.json() | {"http": answer.status_code}

    async def get(self, below: str, *, key: str = ALICE, version: str = "1.0") -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}", "A2A-Version": version}
        async with http_client() as http:
            return await http.get(f"{self.url}{below}", headers=headers)


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with gateway(tmp_path_factory.mktemp("relay"), CONFIG) as process:
        process.start()
        yield World(process)


@pytest.fixture
def world(relay: World) -> World:
    relay.new_agent()
    return relay


@pytest.fixture
async def away(relay: World) -> World:
    """With an agent that was attached once, and whose messages wait."""
    relay.new_agent(is_queued=True)
    async with relay.attach():
        pass
    for _ in range(1000):
        # From the agent at first, and from the copy of the relay once it is away.
        card = await relay.get("/.well-known/agent-card.json")
        if card.status_code == 200 and card.headers.get("trunkline-presence") == "offline":
            return relay
        await asyncio.sleep(0.01)
    raise AssertionError(relay.relay.stderr)


async def closed(agent: V1Agent) -> int | None:
    """The code with which the relay has closed the connection."""
    await until(lambda: agent.close_code is not None)
    return agent.close_code


def message(text: str = "hi", **more: Any) -> dict[str, Any]:
    parts = [{"kind": "text", "text": text}]
    return {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts} | more}


def message_1_0(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]} | more}


async def test_clients_of_both_versions_call_an_agent_of_protocol_v1(world: World) -> None:
    async with world.attach() as agent:
        old = await world.rpc("message/send", message("old"))
        assert old["result"]["status"]["state"] == "completed"
        assert "re: old" in str(old["result"])
        new = await world.rpc("SendMessage", message_1_0("new"), version="1.0")
        assert new["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [request["method"] for request in agent.requests] == ["message/send"] * 2
        # The agent reads 0.3, whatever its clients speak.
        assert agent.requests[1]["params"]["message"]["role"] == "user"
        assert agent.requests[1]["timeout_ms"] == 30_000

        id = new["result"]["task"]["id"]
        assert (await world.get(f"/tasks/{id}")).json()["id"] == id
        assert (await world.get(f"/v1/tasks/{id}", version="0.3")).json()["id"] == id
        listed = await world.rpc("ListTasks", {}, version="1.0")
        assert len(listed["result"]["tasks"]) == 2
        assert "artifacts" not in listed["result"]["tasks"][0]
        cancelled = await world.rpc("tasks/cancel", {"id": id})
        assert cancelled["result"]["status"]["state"] == "canceled"
        missing = await world.rpc("tasks/get", {"id": "none"})
        assert missing["error"]["code"] == -32001


async def test_b1_the_newest_connection_of_an_agent_stays_reachable(world: World) -> None:
    async with world.attach() as older:
        async with world.attach() as newer:
            # The older one is told, and its end takes nothing away.
            await until(lambda: older.close_code is not None)
            assert older.close_code == 4409
            assert older.errors == ["another host has its agents now"]
            for _ in range(3):
                assert "result" in await world.rpc("message/send", message())
            assert (len(older.requests), len(newer.requests)) == (0, 3)
        async with world.attach() as newest:
            newer.drop()
            assert "result" in await world.rpc("message/send", message())
            assert len(newest.requests) == 1
    assert (await world.rpc("message/send", message()))["http"] == 503


async def test_b2_answers_pings_and_requests_cross_on_one_socket(world: World) -> None:
    async with world.attach() as agent:

        async def ping() -> None:
            for _ in range(400):
                await agent.tell(type="ping")

        texts = [f"number-{number}." for number in range(100)]
        calls = (world.rpc("message/send", message(text)) for text in texts)
        *answers, _ = await asyncio.gather(*calls, ping())
        for text, answer in zip(texts, answers, strict=True):
            assert text in str(answer["result"])
        await until(lambda: agent.pongs == 400)


async def test_b3_b14_each_caller_has_its_own_tasks_and_contexts(world: World) -> None:
    async with world.attach():
        task = (await world.rpc("message/send", message(contextId="shared")))["result"]
        for method in ("tasks/get", "tasks/cancel", "SubscribeToTask"):
            answer = await world.rpc(method, {"id": task["id"]}, key=BOB)
            assert answer["error"]["code"] == -32001, method
        assert (await world.rpc("tasks/list", {}, key=BOB))["result"]["tasks"] == []
        further = message(contextId="shared")
        assert (await world.rpc("message/send", further, key=BOB))["error"]["code"] == -32602
        further = message(taskId=task["id"])
        assert (await world.rpc("message/send", further, key=BOB))["error"]["code"] == -32001
        assert (await world.rpc("tasks/get", {"id": task["id"]}))["result"]["id"] == task["id"]


@pytest.mark.parametrize(
    ("token", "message", "code"),
    [
        ("no-such-token-anywhere", "invalid token", 4401),
        ("", "invalid token", 4401),
        ("é\u0000", "invalid token", 4401),
        (ALICE, "this token may not attach an agent", 4403),
        ("hosts-may-have-many-agents", "token missing required agent_id claim", 4403),
    ],
)
async def test_b4_only_a_token_of_one_agent_attaches(
    relay: World, token: str, message: str, code: int
) -> None:
    # The frame names an agent, and the token alone counts.
    with pytest.raises(Refused, match=message) as refused:
        async with v1_agent(relay.relay.port, token, tenant="acme", agent_id="a0"):
            pass
    assert refused.value.args[1] == code


@pytest.mark.parametrize(
    "frame", ["", "garbage", "[]", '{"type":"ping"}', '{"type":"a2a.response"}', "{" * 5000]
)
async def test_the_first_frame_is_auth(relay: World, frame: str) -> None:
    async with connect(f"ws://127.0.0.1:{relay.relay.port}/agent", proxy=None) as socket:
        await socket.send(frame)
        assert json.loads(await socket.recv())["type"] == "error"
        await socket.wait_closed()
        assert socket.close_code == 4400


async def test_b5_the_extended_card_needs_a_credential(world: World) -> None:
    async with world.attach(), http_client() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
        assert (await http.post(world.url, json=body)).status_code == 401
        answer = await world.rpc("GetExtendedAgentCard", {}, version="1.0")
        assert answer["result"]["name"] == CARD["name"]
        answer = await world.rpc("agent/getAuthenticatedExtendedCard", {})
        assert answer["result"]["name"] == CARD["name"]


async def test_b6_callers_learn_at_once_that_the_agent_has_died(world: World) -> None:
    async with world.attach() as agent:
        agent.may_answer.clear()
        calls = asyncio.gather(*(world.rpc("message/send", message()) for _ in range(10)))
        await until(lambda: len(agent.requests) == 10)
        agent.drop()
        async with asyncio.timeout(5):
            answers = await calls
    assert {answer["http"] for answer in answers} == {502}
    assert "may have acted" in answers[0]["error"]["message"]


async def task_in(world: World, id: str, state: str) -> Any:
    for _ in range(1000):
        answer = await world.rpc("tasks/get", {"id": id})
        if "result" in answer and answer["result"]["status"]["state"] == state:
            return answer["result"]
        await asyncio.sleep(0.01)
    raise AssertionError(world.relay.stderr)


async def test_b7_messages_that_waited_come_in_order_and_one_at_a_time_in_a_context(
    away: World,
) -> None:
    ids = []
    for number in range(12):
        given = message(f"{number % 3}.{number}.", contextId=f"context-{number % 3}")
        ids.append((await away.rpc("message/send", given))["result"]["id"])
    async with away.attach() as agent:
        agent.may_answer.clear()
        # One of each context is on its way, and no other.
        await until(lambda: len(agent.requests) == 3)
        agent.may_answer.set()
        await until(lambda: len(agent.requests) == 12)
        for id in ids:
            await task_in(away, id, "completed")
    texts = [request["params"]["message"]["parts"][0]["text"] for request in agent.requests]
    for context in "012":
        of_context = [int(text.split(".")[1]) for text in texts if text.startswith(context)]
        assert of_context == sorted(of_context)


async def test_b8_a_task_that_waited_keeps_the_id_that_its_client_has(away: World) -> None:
    queued = (await away.rpc("message/send", message("later", contextId="mine")))["result"]
    assert queued["status"]["state"] == "submitted"
    id = queued["id"]
    async with away.attach() as agent:
        task = await task_in(away, id, "completed")
        assert "re: later" in str(task)
        assert (task["id"], task["contextId"]) == (id, "mine")
        # The agent has another id for it.
        assert [*agent.tasks] != [id]
        listed = (await away.rpc("tasks/list", {}))["result"]["tasks"]
        assert [each["id"] for each in listed] == [id]
        assert (await away.rpc("tasks/get", {"id": id}, key=BOB))["error"]["code"] == -32001
        # The conversation goes on in its context.
        agent.send = lambda params: agent.run(params, state="input-required")
        asked = (await away.rpc("message/send", message("more", contextId="mine")))["result"]
        assert agent.requests[-1]["params"]["message"]["contextId"] == "mine"
        further = message("and more", taskId=asked["id"])
        await away.rpc("message/send", further)
        assert agent.requests[-1]["params"]["message"]["taskId"] == asked["id"]
        cancelled = await away.rpc("tasks/cancel", {"id": id})
        assert cancelled["result"]["id"] == id


async def test_b8_a_delivery_may_end_with_a_message_or_an_error(away: World) -> None:
    first = (await away.rpc("message/send", message("one")))["result"]["id"]
    second = (await away.rpc("message/send", message("two")))["result"]["id"]
    async with away.attach() as agent:

        def answer(params: dict[str, Any]) -> Any:
            if "two" in str(params):
                raise Refuse(-32603, "the model is down")
            parts = [{"kind": "text", "text": "only a word"}]
            return {"kind": "message", "messageId": "a", "role": "agent", "parts": parts}

        agent.send = answer
        told = await task_in(away, first, "completed")
        assert "only a word" in str(told["status"]["message"])
        failed = await task_in(away, second, "failed")
        assert "the model is down" in str(failed["status"]["message"])
        listed = (await away.rpc("tasks/list", {}))["result"]["tasks"]
        assert {each["id"] for each in listed} == {first, second}


async def poll(world: World, id: str, *, key: str = ALICE, tenant: str = "acme") -> Any:
    async with http_client() as http:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = await http.get(f"{world.relay.url}/t/{tenant}/tasks/{id}", headers=headers)
        return answer.json() | {"http": answer.status_code}


async def test_b3_b8_a_client_polls_for_its_own_task_alone(away: World) -> None:
    id = (await away.rpc("message/send", message("later")))["result"]["id"]
    queued = {"http": 200, "status": "queued", "task_id": id}
    assert await poll(away, id) == queued
    others = [
        await poll(away, id, key=BOB),
        await poll(away, id, tenant="other"),
        await poll(away, "none"),
        await poll(away, "none", tenant="no-such-tenant"),
    ]
    assert {answer["http"] for answer in others} == {404}
    assert len({str(answer).replace("none", id) for answer in others}) == 1
    assert (await poll(away, id, key=""))["http"] == 401
    async with away.attach():
        await task_in(away, id, "completed")
        polled = await poll(away, id)
        assert polled["status"] == "completed"
        assert polled["response"]["id"] == id
        assert "re: later" in str(polled["response"])
        assert (await poll(away, id, key=BOB))["http"] == 404


async def directory(world: World, *, key: str = ALICE, tenant: str = "acme") -> Any:
    async with http_client() as http:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = await http.get(f"{world.relay.url}/t/{tenant}/agents", headers=headers)
        return answer.json() if answer.status_code == 200 else answer.status_code


async def test_the_directory_shows_the_agents_that_the_caller_may_call(world: World) -> None:
    async with world.attach():
        (shown,) = [agent for agent in await directory(world) if agent["id"] == world.name]
        assert shown["name"] == CARD["name"]
        assert shown["description"] == CARD["description"]
        assert shown["online"] is True
        assert shown["connected_at"]
        # The list is of the operation that reads cards, and this key may only get tasks.
        assert await directory(world, key="the-reader-may-only-get") == []
        assert await directory(world, tenant="other") == []
        assert await directory(world, key="a-token-of-another-tenant") == 401
        assert await directory(world, key="hosts-may-have-many-agents") == 403
        assert await directory(world, key="") == 401
    for _ in range(1000):
        (shown,) = [agent for agent in await directory(world) if agent["id"] == world.name]
        if not shown["online"]:
            break
    assert (shown["online"], shown["connected_at"]) == (False, None)
    assert shown["last_seen"]


async def test_b15_the_card_is_there_while_the_agent_is_away(away: World) -> None:
    for name in ("agent.json", "agent-card.json"):
        answer = await away.get(f"/.well-known/{name}")
        assert answer.status_code == 200
        assert answer.json()["x-unknown"] == CARD["x-unknown"]
        assert answer.json()["url"] == away.url


async def test_b9_errors_of_the_older_addresses_have_bodies(world: World) -> None:
    async def post(below: str, body: Any, **headers: str) -> tuple[int, Any]:
        async with http_client() as http:
            answer = await http.post(
                f"{world.url}{below}",
                content=body if isinstance(body, bytes) else json.dumps(body),
                headers={"Authorization": f"Bearer {ALICE}"} | headers,
            )
            return answer.status_code, answer.json()

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
        status, failure = await post("/message/send", {}, Authorization="Bearer none")
        assert status == 401
        assert failure["error"]["message"]

        def refuse(_: Any) -> None:
            raise Refuse(-32603, "the model is down")

        agent.send = refuse
        status, failure = await post("/message/send", message())
        assert (status, "the model is down" in failure["error"]["message"]) == (500, True)


async def test_b10_frames_are_bounded_in_both_directions(world: World) -> None:
    async with world.attach() as agent:
        answer = await world.rpc("message/send", message("x" * 1_100_000))
        assert answer["http"] == 413
        assert "1048576 bytes" in answer["error"]["message"]
        assert not agent.requests
        assert "result" in await world.rpc("message/send", message("x" * 900_000))
        agent.send = lambda _: {"kind": "message", "parts": "x" * 2_000_000}
        answer = await world.rpc("message/send", message())
        assert answer["http"] == 502
        await until(lambda: agent.close_code == 1009)
    async with world.attach():
        assert "result" in await world.rpc("message/send", message())


@pytest.mark.parametrize("names", ["0.3", "1.0"])
async def test_b12_every_operation_works_by_either_name(world: World, names: str) -> None:
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


async def events(world: World, method: str, params: Any) -> list[Any]:
    found = []
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {ALICE}", "A2A-Version": "0.3"}
    async with (
        http_client() as http,
        http.stream("POST", world.url, json=body, headers=headers, timeout=30) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
    return [event["result"] for event in found]


async def kept(world: World, id: str) -> None:
    """Until the relay knows whose task it is, which it notes before it answers."""
    for _ in range(1000):
        if "result" in await world.rpc("tasks/get", {"id": id}):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(id)


async def test_b12_a_stream_has_the_result_and_follows_a_task_that_goes_on(world: World) -> None:
    async with world.attach() as agent:
        (only,) = await events(world, "message/stream", message("short"))
        assert only["status"]["state"] == "completed"

        agent.send = lambda params: agent.run(params, state="working")
        following = asyncio.ensure_future(events(world, "message/stream", message("long")))
        await until(lambda: len(agent.tasks) == 2)
        task = [*agent.tasks.values()][-1]
        await kept(world, task["id"])
        asked = len(agent.requests)
        again = asyncio.ensure_future(events(world, "tasks/resubscribe", {"id": task["id"]}))
        await until(lambda: len(agent.requests) > asked + 1)
        parts = [{"kind": "text", "text": "more"}]
        task["artifacts"].append({"artifactId": "b", "parts": parts})
        task["status"] = {"state": "completed"}
        first, artifact, last = await following
        assert first["status"]["state"] == "working"
        assert artifact["artifact"]["artifactId"] == "b"
        assert (last["kind"], last["status"]["state"]) == ("status-update", "completed")
        assert [event["kind"] for event in await again] == [
            "task",
            "artifact-update",
            "status-update",
        ]


async def test_b13_the_requests_of_an_agent_are_bounded(world: World) -> None:
    async with world.attach() as agent:
        agent.may_answer.clear()
        keys = (ALICE, BOB)
        calls = [
            asyncio.ensure_future(world.rpc("message/send", message(), key=keys[number % 2]))
            for number in range(140)
        ]
        await until(lambda: sum(call.done() for call in calls) == 12)
        refused = [call.result() for call in calls if call.done()]
        assert {answer["http"] for answer in refused} == {503}
        await until(lambda: len(agent.requests) == 128)
        agent.may_answer.set()
        answers = await asyncio.gather(*calls)
        assert sum("result" in answer for answer in answers) == 128


async def test_the_card_is_that_of_the_agent_with_the_addresses_of_the_relay(
    world: World,
) -> None:
    card = CARD | {"signatures": [{"protected": "x", "signature": "y"}], "security": [{"own": []}]}
    async with world.attach(card=card):
        answers = [
            await world.get(f"/.well-known/{name}") for name in ("agent.json", "agent-card.json")
        ]
        assert answers[0].content == answers[1].content
        served = answers[0].json()
    for name in ("name", "description", "version", "skills", "provider", "x-unknown"):
        assert served[name] == CARD[name]
    # Unknown members keep their bytes.
    assert '"x-unknown":[1, 2.0, {"deep": null}]' in answers[0].text
    assert served["url"] == world.url
    assert served["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": True,
        "x-own": {"a": 1.5},
    }
    interfaces = served["supportedInterfaces"] + served["additionalInterfaces"]
    assert {interface["url"] for interface in interfaces} == {world.url}
    assert "localhost:9999" not in answers[0].text
    assert "signatures" not in served
    assert [*served["securitySchemes"]] == ["bearer"]


@pytest.mark.parametrize("card", [None, {}, {"name": None, "capabilities": {}}])
async def test_an_agent_with_a_poor_card_can_be_called(world: World, card: Any) -> None:
    async with world.attach(card=card):
        assert "result" in await world.rpc("message/send", message())
        assert (await world.get("/.well-known/agent.json")).status_code == 200


@pytest.mark.parametrize("card", [[], "text", 7, {"capabilities": 7}])
async def test_a_card_that_is_none_is_refused(world: World, card: Any) -> None:
    with pytest.raises(Refused, match="card"):
        async with world.attach(card=card):
            pass


async def test_strange_frames_of_an_agent_change_nothing_for_others(world: World) -> None:
    async with world.attach() as good:
        url = world.url
        broken = [
            "",
            "null",
            "{",
            '{"type":"a2a.response","payload":7}',
            '{"type":"a2a.response","payload":{"id":"x","result":',
            "[" * 20_000,
            b"\x00\xff",
        ]
        harmless = [
            '{"type":"hello"}',
            '{"type":"auth","token":"x"}',
            '{"type":"pong"}',
            '{"type":"a2a.response","payload":{"id":"none","result":1}}',
            '{"type":"a2a.request","payload":{"id":"1","method":"message/send"}}',
            '{"type":"stream_chunk","request_id":"1"}',
        ]
        for frame in broken:
            world.new_agent()
            async with world.attach() as bad:
                await bad.socket.send(frame)
                assert await closed(bad) == 4400, frame
        async with world.attach() as odd:
            for frame in harmless * 50:
                await odd.socket.send(frame)
            assert "result" in await world.rpc("message/send", message())
            # The same answer twice, and one that comes late.
            request = odd.requests[-1]["id"]
            await odd.tell(type="a2a.response", payload={"id": request, "result": {}})
            assert "result" in await world.rpc("message/send", message())
        assert good.close_code is None
        async with http_client() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": message()}
            answer = await http.post(url, json=body, headers={"Authorization": f"Bearer {ALICE}"})
            assert "result" in answer.json()


@pytest.mark.parametrize(
    "result",
    [None, 7, [], {}, {"kind": "task"}, {"kind": "task", "id": "", "status": {"state": "x"}}, "x"],
    ids=repr,
)
async def test_an_answer_that_is_not_a2a_is_an_error_of_the_agent(
    world: World, result: Any
) -> None:
    async with world.attach() as agent:
        agent.send = lambda _: result
        answer = await world.rpc("message/send", message())
        assert answer["error"]["code"] == -32006


async def test_grants_hold_for_agents_of_protocol_v1(world: World) -> None:
    async with world.attach() as agent:
        answer = await world.rpc("message/send", message(), key="the-reader-may-only-get")
        assert answer["http"] == 403
        assert not agent.requests


class Noise:
    """Frames that agents should not send, and some that they may."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def frame(self) -> str | bytes:
        chance = self._random
        frame = json.dumps(
            {
                "type": chance.choice(["a2a.response", "a2a.request", "auth", "ping", "x", ""]),
                "payload": {"id": chance.choice(["1", "x" * 300, ""]), "result": self._value(4)},
                "token": self._value(1),
            }
        )
        match chance.randrange(6):
            case 0:
                return frame[: chance.randrange(len(frame))]
            case 1:
                place = chance.randrange(len(frame))
                return frame[:place] + chance.choice('{}[]",:\x00é9') + frame[place:]
            case 2:
                return chance.randbytes(chance.randrange(2000))
            case 3:
                return frame + " " * chance.choice([10, 100_000, 1_100_000])
            case 4:
                return "[" * chance.randrange(50_000)
            case _:
                return frame

    def _value(self, depth: int) -> Any:
        chance = self._random
        if depth == 0 or chance.random() < 0.3:
            return chance.choice([None, 1e308, -1, "", "é\u0000", True, 2**70])
        if chance.random() < 0.5:
            return [self._value(depth - 1) for _ in range(chance.randrange(5))]
        return {str(number): self._value(depth - 1) for number in range(chance.randrange(5))}


@pytest.mark.full
async def test_noise_of_many_agents_costs_no_memory_and_nothing_of_others(world: World) -> None:
    sizes, sent = [], 0

    async def make_noise(seed: int) -> None:
        nonlocal sent
        noise = Noise(seed)
        while True:
            try:
                # All of them have one token, so each replaces another one.
                async with world.attach(name="noisy") as bad:
                    for _ in range(50):
                        await bad.socket.send(noise.frame())
                        sent += 1
            except (Refused, ConnectionClosed, OSError):
                await asyncio.sleep(0.01)

    async with world.attach() as good:
        noisy = asyncio.gather(*(make_noise(seed) for seed in range(12)))
        for _ in range(60):
            assert "result" in await world.rpc("message/send", message())
            sizes.append(world.relay.resident_bytes())
            await asyncio.sleep(0.5)
        noisy.cancel()
        assert good.close_code is None
    assert sent > 1000
    assert max(sizes[30:]) - max(sizes[:30]) < 30_000_000, sizes
