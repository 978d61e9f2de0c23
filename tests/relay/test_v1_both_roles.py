"""A gateway that attaches by protocol v1 to the relay of another one."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Http
from tests.bindings.cases import refused
from tests.bindings.world import KEYS
from tests.relay import gateways
from tests.relay.gateways import RelayedWorld, open_relayed_world, relay_settings

from trunkline.config.secret import Secret
from trunkline.relay.hosts import dialing
from trunkline.settings.auth import ApiKey
from trunkline.testing import settle

TOKEN = "the-token-of-one-agent-alone"


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    plain = relay_settings()
    key = ApiKey(key=Secret(TOKEN), attach=("acme/scripted",))
    at_relay = replace(plain, auth=replace(plain.auth, keys=plain.auth.keys | {"one": key}))
    monkeypatch.setattr(gateways, "RELAY", replace(gateways.RELAY, protocol="v1"))
    wires: list[RelayedWorld] = []

    async def dial(*_: str) -> object:
        if not wires:
            raise dialing.DialFailed("the wire is not there yet")
        return await wires[0].wire.connect_v1()

    monkeypatch.setattr(dialing, "dial_v1", dial)
    async with open_relayed_world(monkeypatch, at_relay=at_relay, token=TOKEN) as world:
        wires.append(world)
        await world.clock.advance(2)
        await settle()
        headers = {"authorization": f"Bearer {KEYS['alice']}"}
        metrics = await world.http.send(Http(method="GET", path="/metrics", headers=headers))
        assert "trunkline_relay_v1_agents 1.0" in metrics.body.decode()
        yield world


async def test_clients_of_both_versions_and_bindings_call_the_agent(
    world: RelayedWorld, dialect: str
) -> None:
    client = world.client(dialect)
    task = await client.run("say done")
    assert (await client.get(task["id"]))["id"] == task["id"]
    assert [each["id"] for each in (await client.list())["tasks"]] == [task["id"]]
    with refused("TASK_NOT_CANCELABLE"):
        await client.cancel(task["id"])
    async with client.stream("say streamed") as stream:
        (event,) = await stream.rest()
    assert "streamed" in str(event.value)
    with refused("TASK_NOT_FOUND"):
        await world.client(dialect, "bob").get(task["id"])
    page = await world.client(dialect, "bob").list()
    assert not page["tasks"]


async def test_the_gateway_comes_back_after_a_lost_connection(world: RelayedWorld) -> None:
    world.wire.cut()
    await world.clock.advance(2)
    client = world.client("jsonrpc-1.0")
    await client.run("say done")
    own = world.gateway.relaying._host
    assert own is not None
    assert own.problems() == []


async def test_a_gateway_that_stops_leaves_the_relay(world: RelayedWorld) -> None:
    client = world.client("jsonrpc-1.0")
    await client.run("say done")
    draining = world.relay_tasks.start(world.gateway.drain(grace_s=5), name="drain")
    await world.clock.advance(3)
    await draining
    assert world.wire.open_ends == []
