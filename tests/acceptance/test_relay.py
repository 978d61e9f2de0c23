"""A relay and a gateway that attaches to it, as two processes; the client of a2a-sdk calls the
agent through the relay."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import cast

import a2a.types.a2a_pb2 as a2a
import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.sdk import Peer, connect, text_of
from tests.acceptance.test_sdk_story import test_card_send_stream_get_subscribe_cancel as story

from trunkline import remote
from trunkline.model.values import TaskState
from trunkline.remote.progress import Progress

KEY = "alice-has-this-key"
RELAY = f"""
[server]
relay = true
drain_s = 1
[auth.keys.alice]
key = "{KEY}"
[auth.keys.laptop]
key = "the-laptop-has-this-token"
attach = ["acme/*"]
"""
HOST = """
[relay]
url = "ws://127.0.0.1:{port}/agent"
tenant = "acme"
agent_id = "helper"
token = "the-laptop-has-this-token"
mode = "relay"
[agents."test/scripted"]
name = "Scripted"
default = true
backend = {{ kind = "scripted" }}
"""


class Relayed:
    """The agent as its callers have it; `url` is that of the relay."""

    def __init__(self, folder: Path, host: str = HOST) -> None:
        self._stack = ExitStack()
        (folder / "relay").mkdir()
        (folder / "host").mkdir()
        self.relay = self._stack.enter_context(gateway(folder / "relay", RELAY))
        self.relay.start()
        port = self.relay.port
        self.host: Gateway = self._stack.enter_context(
            gateway(folder / "host", host.format(port=port))
        )
        self.host.start()

    def agent_url(self, _: str = "") -> str:
        return f"{self.relay.url}/t/acme/a2a/helper"

    def connect(
        self, binding: str = "jsonrpc", version: str = "1.0"
    ) -> AbstractAsyncContextManager[Peer]:
        return connect(cast("Gateway", self), binding, version, agent="helper", key=KEY)

    async def attached(self) -> None:
        """Until the agent can be called."""
        deadline = time.monotonic() + DEADLINE_S
        async with http_client(headers={"Authorization": f"Bearer {KEY}"}) as http:
            while (await http.get(f"{self.agent_url()}/tasks")).status_code != 200:
                assert time.monotonic() < deadline, self.host.stderr
                await asyncio.sleep(0.05)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relayed]:
    made = Relayed(tmp_path_factory.mktemp("relayed"))
    asyncio.run(made.attached())
    yield made
    made.close()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_the_official_client_does_everything(
    relayed: Relayed, binding: str, version: str
) -> None:
    async with relayed.connect(binding, version) as peer:
        await story(peer)


async def test_a_relay_that_is_killed_costs_a_reconnect(relayed: Relayed) -> None:
    async with relayed.connect() as peer:
        task = await peer.send("say hello")
        relayed.relay.kill()
        relayed.relay.start("--port", str(relayed.relay.port))
        await relayed.attached()
        assert await peer.get(task.id) == task


async def test_a_gateway_that_is_killed_keeps_its_tasks(relayed: Relayed) -> None:
    async with relayed.connect() as peer:
        task = await peer.send("say hello")
        relayed.host.kill()
        relayed.host.start()
        await relayed.attached()
        assert text_of(await peer.get(task.id)) == "hello"


async def test_a_relay_that_stops_costs_a_stream_a_reconnect(relayed: Relayed) -> None:
    """It ends the stream with an error, for it does not wait for long answers."""
    progress, is_back = Progress(), None
    async with remote.connect(relayed.agent_url(), token=KEY) as agent:
        async for item in agent.stream("chunks a 3; delay 2; chunks b 3; say done"):
            progress.add(item)
            if is_back is None:
                is_back = asyncio.create_task(asyncio.to_thread(_restart, relayed.relay))
        assert is_back is not None
        assert await is_back == 0
        assert progress.state is TaskState.COMPLETED
        assert progress.task().artifacts == (await agent.get(progress.task_id)).artifacts
    await relayed.attached()


def _restart(gateway: Gateway) -> int:
    code = gateway.stop()
    gateway.start("--port", str(gateway.port))
    return code


async def test_a_gateway_that_stops_ends_its_streams_first(relayed: Relayed) -> None:
    async with relayed.connect() as peer:
        events = peer.stream("say one; delay 1; say two")
        await anext(events)
        relayed.host.terminate()
        rest = [event async for event in events]
        assert await asyncio.to_thread(relayed.host.wait) == 0
        assert rest[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
    relayed.host.start()
    await relayed.attached()
