"""A gateway whose network lets no WebSocket pass attaches to a relay by plain HTTP requests,
through nginx and over sockets."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import a2a.types.a2a_pb2 as a2a
import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.nginx import NGINX, free_port, nginx
from tests.acceptance.relay_hosts import ALICE_KEY, HOST_TOKEN, RELAY
from tests.acceptance.sdk import Peer, connect, text_of
from tests.acceptance.test_sdk_story import test_card_send_stream_get_subscribe_cancel as story

pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed: apt-get install nginx-light"
)
# As networks do that know nothing newer than HTTP: the upgrade is refused, and bodies are collected
# before they are handed on.
OLD_PROXY = """
server {
    listen 443 ssl;
    location = /agent { return 403; }
    location / {
        proxy_pass http://127.0.0.1:8642;
        proxy_http_version 1.0;
        proxy_buffering on;
        proxy_request_buffering on;
    }
}
"""
HOST = """
[relay]
url = "ws://127.0.0.1:{port}/agent"
tenant = "acme"
agent_id = "helper"
token = "{token}"
mode = "relay"
[agents."test/scripted"]
name = "Scripted"
default = true
backend = {{ kind = "scripted" }}
"""


class Relayed:
    def __init__(self, relay: Gateway, host: Gateway) -> None:
        self.relay = relay
        self.host = host
        self.url = f"{relay.url}/t/acme/a2a/helper"

    def agent_url(self, _: str = "") -> str:
        return self.url

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        async with connect(self, "jsonrpc", "1.0", agent="helper", key=ALICE_KEY) as peer:  # type: ignore[arg-type]
            yield peer

    async def attached(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        async with http_client(headers={"Authorization": f"Bearer {ALICE_KEY}"}) as http:
            while (await http.get(f"{self.url}/tasks")).status_code != 200:
                assert time.monotonic() < deadline, self.host.stderr
                await asyncio.sleep(0.05)

    async def polled_connections(self) -> int:
        async with http_client(headers={"Authorization": f"Bearer {ALICE_KEY}"}) as http:
            text = (await http.get(f"{self.relay.url}/metrics")).text
        [count] = re.findall(r"^trunkline_relay_polled_connections (\d+)", text, re.MULTILINE)
        return int(count)


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relayed]:
    folder = tmp_path_factory.mktemp("polled")
    for name in ("relay", "host"):
        (folder / name).mkdir()
    port = free_port()
    with gateway(folder / "relay", RELAY) as relay:
        relay.start()
        config = HOST.format(port=port, token=HOST_TOKEN)
        with (
            nginx(folder / "nginx", OLD_PROXY, port=port, upstream_port=relay.port),
            gateway(folder / "host", config) as host,
        ):
            host.start()
            made = Relayed(relay, host)
            asyncio.run(made.attached())
            yield made


async def test_the_official_client_does_everything(relayed: Relayed) -> None:
    assert await relayed.polled_connections() == 1
    async with relayed.peer() as peer:
        await story(peer)


async def test_a_large_message_passes(relayed: Relayed) -> None:
    async with relayed.peer() as peer:
        task = await peer.send("say " + "x" * 900_000)
    assert len(text_of(task)) == 900_000


async def test_a_relay_that_is_killed_costs_a_reconnect(relayed: Relayed) -> None:
    async with relayed.peer() as peer:
        task = await peer.send("say hello")
        relayed.relay.kill()
        relayed.relay.start("--port", str(relayed.relay.port))
        await relayed.attached()
        assert await peer.get(task.id) == task
    assert await relayed.polled_connections() == 1


async def test_a_gateway_that_stops_ends_its_streams_and_its_connection(relayed: Relayed) -> None:
    async with relayed.peer() as peer:
        events = peer.stream("say one; delay 1; say two")
        await anext(events)
        relayed.host.terminate()
        rest = [event async for event in events]
        assert await asyncio.to_thread(relayed.host.wait) == 0
        assert rest[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
    assert await relayed.polled_connections() == 0
    relayed.host.start()
    await relayed.attached()


async def test_a_relay_that_stops_does_not_wait_for_polls(relayed: Relayed) -> None:
    relayed.relay.terminate()
    began = time.monotonic()
    assert await asyncio.to_thread(relayed.relay.wait) == 0
    assert time.monotonic() - began < 5
    relayed.relay.start("--port", str(relayed.relay.port))
    await relayed.attached()
