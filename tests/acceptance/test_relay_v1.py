"""A gateway as an agent of a relay that speaks protocol v1."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.gateway import Gateway, gateway, http_client
from tests.acceptance.relay_hosts import until
from tests.relay.v1_relay import V1Relay, text_message, v1_relay
from tests.relay.v1_tokens import agent_token

HOST = """
[relay]
url = "ws://127.0.0.1:{port}/agent"
tenant = "acme"
agent_id = "helper"
token_path = "{token_path}"
mode = "relay"
[agents."test/scripted"]
name = "Scripted"
default = true
backend = {{ kind = "scripted" }}
"""


class World:
    def __init__(self, folder: Path, relay: V1Relay) -> None:
        self.token_path = folder / "token"
        self.relay = relay
        self._folder = folder
        self._stack = ExitStack()
        self.host: Gateway

    async def start(self, config: str = HOST, *, token: str = "") -> None:
        self.token_path.write_text(token or agent_token())
        config = config.format(port=self.relay.port, token_path=self.token_path)
        self.host = self._stack.enter_context(gateway(self._folder, config))
        # The relay of this process answers meanwhile.
        await asyncio.to_thread(self.host.start)

    async def attached(self) -> None:
        await until(lambda: "acme/helper" in self.relay.agents, lambda: self.host.stderr)

    async def not_ready(self) -> str:
        """The reason, once `/readyz` has one that is final."""
        async with http_client() as http:
            for _ in range(1000):
                answer = await http.get(f"{self.host.url}/readyz")
                if "connecting" not in answer.text:
                    return answer.text
                await asyncio.sleep(0.01)
        raise AssertionError(self.host.stderr)

    def close(self) -> None:
        self._stack.close()


@asynccontextmanager
async def world_of(folder: Path, **options: Any) -> AsyncIterator[World]:
    async with v1_relay(**options) as relay:
        world = World(folder, relay)
        try:
            yield world
        finally:
            world.close()


async def test_a_gateway_is_an_agent_of_a_relay_of_protocol_v1(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        relay = world.relay
        await world.start()
        await world.attached()
        card = relay.cards["acme/helper"]
        assert card["name"] == "Scripted"
        assert card["protocolVersion"].startswith("0.3")
        assert card["url"] == f"http://127.0.0.1:{relay.port}/t/acme/a2a/helper"

        # The parameters as the address of JSON-RPC has them.
        sent = (await relay.call("message/send", text_message("say hello")))["result"]
        assert sent["kind"] == "task"
        assert sent["status"]["state"] == "completed"
        got = await relay.call("tasks/get", {"id": sent["id"]})
        assert got["result"]["id"] == sent["id"]
        listed = await relay.call("tasks/list", {})
        assert [task["id"] for task in listed["result"]["tasks"]] == [sent["id"]]
        cancelled = await relay.call("tasks/cancel", {"id": sent["id"]})
        assert cancelled["error"]["code"] == -32002

        # A whole request of JSON-RPC, as the address of HTTP+JSON passes it on.
        envelope = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "message/stream",
            "params": text_message("say streamed"),
        }
        streamed = (await relay.call("message/send", envelope))["result"]
        assert streamed["status"]["state"] == "completed"
        assert "streamed" in str(streamed)

        # A client of A2A 1.0, whose method the relay has renamed.
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "say newer"}]}
        newer = (await relay.call("message/send", {"message": message}))["result"]
        assert newer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        old_name = await relay.call("GetTask", {"id": newer["task"]["id"]})
        assert old_name["result"]["status"]["state"] == "TASK_STATE_COMPLETED"

        assert (await relay.call("tasks/resubscribe", {"id": "x"}))["error"]["code"] == -32004
        assert (await relay.call("no/method", {}))["error"]["code"] == -32601
        assert (await relay.call("message/send", [1, 2]))["error"]["code"] == -32602

        # Requests run side by side, and each answer has the id of its request.
        texts = [f"say number-{number}" for number in range(20)]
        calls = (relay.call("message/send", text_message(text)) for text in texts)
        for text, answer in zip(texts, await asyncio.gather(*calls), strict=True):
            assert text.removeprefix("say ") in str(answer["result"])

        # Frames that mean nothing change nothing.
        await relay.tell("acme/helper", type="of.a.later.version", payload=1)
        await relay.tell("acme/helper", type="ping")
        await until(lambda: {"type": "pong"} in relay.frames)


async def test_the_gateway_returns_with_a_fresh_token_after_a_lost_connection(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path) as world:
        relay = world.relay
        await world.start()
        await world.attached()
        world.token_path.write_text(agent_token(jti="another"))
        await relay.agents["acme/helper"].close(1001)
        await until(lambda: len(relay.tokens) == 2 and "acme/helper" in relay.agents)
        assert relay.tokens[0] != relay.tokens[1]
        assert "result" in await relay.call("message/send", text_message("say again"))


async def test_a_token_that_the_relay_does_not_know_is_final(tmp_path: Path) -> None:
    """The client of the older protocol waits for ever there."""
    async with world_of(tmp_path) as world:
        await world.start(token=agent_token(secret="another secret"))
        assert "the relay says: invalid token" in await world.not_ready()
        assert "does not try again" in world.host.stderr
        assert world.relay.connections == 1


async def test_a_token_of_another_agent_is_refused_with_both_names(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        await world.start(token=agent_token(agent="other"))
        answer = await world.not_ready()
        assert "the token is for the agent acme/other" in answer
        assert "acme/helper" in answer


async def test_several_agents_need_a_token_each(tmp_path: Path) -> None:
    several = HOST.replace(
        'agent_id = "helper"', 'agents = {{ a = "test/scripted", b = "test/scripted" }}'
    )
    async with world_of(tmp_path) as world:
        await world.start(several)
        assert "takes one agent for each token" in await world.not_ready()


async def test_a_slow_answer_is_given_up_at_the_time_of_the_relay_and_its_task_kept(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path, timeout_ms=300) as world:
        relay = world.relay
        await world.start()
        await world.attached()
        answer = await relay.call("message/send", text_message("wait gate"))
        assert answer["error"]["code"] == -32603
        assert "its task continues" in answer["error"]["message"]
        (task,) = (await relay.call("tasks/list", {}))["result"]["tasks"]
        assert task["status"]["state"] == "working"


async def test_protocol_v2_can_be_insisted_on(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        await world.start(HOST.replace("[agents", 'protocol = "v2"\n[agents'))
        await until(lambda: world.relay.connections > 0)
        assert "does not speak a2a.relay.v2" in await world.not_ready()
