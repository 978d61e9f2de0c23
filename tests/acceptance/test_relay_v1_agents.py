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
from tests.relay.v1_agent import Refused, V1Agent, v1_agent
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

# Each test has an agent of its own.
AGENTS = ["noisy", *(f"a{number}" for number in range(60))]
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
    for agent in AGENTS
)
ALICE = "alice-has-this-key"


class World:
    def __init__(self, relay: Gateway) -> None:
        self.relay = relay
        self._names = iter(AGENTS[1:])
        self.name = ""

    def new_agent(self) -> None:
        self.name = next(self._names)

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
    assert sent > 100
    assert max(sizes[30:]) - max(sizes[:30]) < 30_000_000, sizes
