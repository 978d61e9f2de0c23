"""A gateway behind a real NAT: it dials out, calls come in, and a connection that the router has
forgotten is mended."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.nat import HAS_NAT, INSIDE, OUTSIDE, RELAY_FROM_INSIDE, ROUTER, Nat, nat
from tests.acceptance.raw import Event, Stream, envelope, message_params
from tests.acceptance.relay_hosts import ALICE_KEY, HOST_TOKEN

pytestmark = [HAS_NAT, pytest.mark.root, pytest.mark.timeout(300)]

RELAY: Final = f"""
[server]
host = "{OUTSIDE}"
relay = true
[auth.keys.alice]
key = "{ALICE_KEY}"
[auth.keys.hosts]
key = "{HOST_TOKEN}"
attach = ["acme/*"]
"""
HOST: Final = f"""
[server]
host = "{INSIDE}"
[auth.keys.alice]
key = "{ALICE_KEY}"
[relay]
url = "ws://{RELAY_FROM_INSIDE}:{{port}}/agent"
tenant = "acme"
agent_id = "helper"
token = "{HOST_TOKEN}"
transport = "{{transport}}"
[agents."test/scripted"]
name = "Scripted"
default = true
backend = {{{{ kind = "scripted" }}}}
"""
# Both sides notice after two heartbeats, and the host dials again within a second.
NOTICED_S: Final = 2 * 20.0 + 10.0
_CONNECT: Final = "import socket, sys; socket.create_connection((sys.argv[1], sys.argv[2]), 2)"


class BehindNat:
    def __init__(self, relay: Gateway, host: Gateway, network: Nat) -> None:
        self.relay = relay
        self.host = host
        self.network = network
        self.url = f"http://{OUTSIDE}:{relay.port}/t/acme/a2a/helper"

    def client(self) -> httpx.AsyncClient:
        key = {"Authorization": f"Bearer {ALICE_KEY}", "A2A-Version": "1.0"}
        # A stream is silent while nothing passes.
        return http_client(headers=key | {"Accept-Encoding": "identity"})

    async def call(self, method: str, params: Any) -> Any:
        async with self.client() as http:
            return (await http.post(self.url, json=envelope(method, params))).json()["result"]

    async def attached(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        async with self.client() as http:
            while (await http.get(f"{self.url}/tasks")).status_code != 200:
                assert time.monotonic() < deadline, self.host.stderr
                await asyncio.sleep(0.05)

    def connects(self, address: str, port: int, *, from_inside: bool = False) -> bool:
        before = self.network.inside if from_inside else ()
        command = [*before, sys.executable, "-c", _CONNECT, address, str(port)]
        return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(params=["websocket", "long-poll"])
def behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BehindNat]:
    for name in ("relay", "host"):
        (tmp_path / name).mkdir()
    with nat() as network, gateway(tmp_path / "relay", RELAY) as relay:
        relay.start()
        config = HOST.format(port=relay.port, transport=request.param)
        with gateway(tmp_path / "host", config) as host:
            host.before = network.inside
            host.start()
            made = BehindNat(relay, host, network)
            asyncio.run(made.attached())
            yield made


async def test_only_the_gateway_dials_and_calls_arrive(behind: BehindNat) -> None:
    own_port = behind.host.port
    assert behind.connects(INSIDE, own_port, from_inside=True)
    for address in (ROUTER, INSIDE):
        assert not behind.connects(address, own_port)
    with behind.network.route_to_inside():
        assert not behind.connects(INSIDE, own_port)
    assert behind.network.connections() >= 1
    task = (await behind.call("SendMessage", message_params("say hello")))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await behind.call("GetTask", {"id": task["id"]}))["id"] == task["id"]


async def test_a_connection_that_the_router_forgets_is_mended(behind: BehindNat) -> None:
    """Nobody tells either side: packets are lost in both directions."""
    body = envelope("SendStreamingMessage", message_params("say one; delay 4; say two"))
    async with (
        behind.client() as http,
        http.stream("POST", behind.url, json=body, timeout=NOTICED_S) as response,
    ):
        stream = Stream(response)
        first = await stream.event()
        assert first.state
        behind.network.forget()
        began = time.monotonic()
        events: list[Event] = await stream.events()
        lost_s = time.monotonic() - began
    assert "two" in str([event.result for event in events])
    assert events[-1].state == "TASK_STATE_COMPLETED"
    print(f"the stream went on after {lost_s:.1f} s")
    # The packets were lost indeed.
    assert 10 < lost_s < NOTICED_S
    assert "task" in await behind.call("SendMessage", message_params("say three"))
