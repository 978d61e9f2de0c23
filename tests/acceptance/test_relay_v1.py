"""A gateway as an agent of a relay that speaks protocol v1."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.relay_hosts import Echo, until
from tests.relay.v1_relay import V1Relay, text_message, v1_relay
from tests.relay.v1_tokens import agent_token

from trunkline.clock import SystemClock
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.host import Host, HostSettings, HostState
from trunkline.relay.hosts.relayed_callers import RelayedCallers

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

        # A slow answer is given up at the time that the relay has set, and its task goes on.
        relay.timeout_ms = 200
        late = await relay.call("message/send", text_message("wait gate", contextId="slow"))
        assert late["error"]["code"] == -32603
        assert "its task continues" in late["error"]["message"]
        (task,) = (await relay.call("tasks/list", {"contextId": "slow"}))["result"]["tasks"]
        assert task["status"]["state"] == "working"


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


@asynccontextmanager
async def host_of(
    relay: V1Relay, *, token: str, agents: tuple[str, ...] = ("acme/helper",), **settings: Any
) -> AsyncIterator[Host]:
    """A host in this process, which returns at once."""

    async def provide() -> str:
        return token

    host = Host(
        HostSettings(
            url=f"ws://127.0.0.1:{relay.port}/agent",
            agents=dict.fromkeys(agents, "me/agent"),
            **settings,
        ),
        app=Echo(),
        callers=RelayedCallers(),
        token=provide,
        clock=SystemClock(),
        dial=dialing.dial,
        chance=lambda: 0.0,
    )
    host.start()
    try:
        yield host
    finally:
        await host.close()


@pytest.mark.parametrize(
    ("token", "agents", "trouble"),
    [
        ({"secret": "another secret"}, ("acme/helper",), "the relay says: invalid token"),
        ({"agent": "other"}, ("acme/helper",), "the token is for the agent acme/other"),
        ({}, ("acme/helper", "acme/b"), "takes one agent for each token"),
    ],
    ids=["bad token", "token of another agent", "several agents"],
)
async def test_what_cannot_work_is_final_and_says_why(
    token: dict[str, str], agents: tuple[str, ...], trouble: str
) -> None:
    """The client of the older protocol waits for ever for a relay that refuses its token."""
    async with (
        v1_relay() as relay,
        host_of(relay, token=agent_token(**token), agents=agents) as host,
    ):
        await until(lambda: host.state is HostState.REFUSED, lambda: host.trouble)
        assert trouble in host.trouble
        assert relay.connections == 1


async def test_other_failures_are_tried_again() -> None:
    async with v1_relay() as relay:
        relay.refusals = ["internal error", "auth required"]
        async with host_of(relay, token=agent_token()) as host:
            await until(lambda: host.state is HostState.ATTACHED, lambda: host.trouble)
        assert relay.connections == 3


async def test_protocol_v2_can_be_insisted_on() -> None:
    async with v1_relay() as relay, host_of(relay, token=agent_token(), protocol="v2") as host:
        await until(lambda: "does not speak a2a.relay.v2" in host.trouble, lambda: host.trouble)
        assert not relay.tokens
