"""A relay that is a hub too: an attached agent is at the hub's address as well."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Answer, Http
from tests.bindings.clients import CLIENTS, Address
from tests.bindings.world import KEYS
from tests.relay.gateways import PATH, TOKEN, RelayedWorld, open_relayed_world, relay_settings

from trunkline.settings.hub import HubSettings

HUB = "/api/a2a/v1/agents/acme"
AGENT = f"{HUB}/scripted"
BELOW = ("", "/agent-card.json", "/.well-known/agent-card.json", "/tasks", "/tasks/x:cancel", "/")


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    as_relay = replace(relay_settings(), hub=HubSettings())
    async with open_relayed_world(monkeypatch, at_relay=as_relay) as world:
        yield world


async def ask(
    world: RelayedWorld, path: str, *, key: str = KEYS["alice"], method: str = "GET", body: str = ""
) -> Answer:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    headers |= {"a2a-version": "1.0", "content-type": "application/json"}
    return await world.http.send(
        Http(method=method, path=path, headers=headers, body=body.encode())
    )


@pytest.mark.parametrize("dialect", ["jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3"])
async def test_the_agent_is_called_at_both_addresses(world: RelayedWorld, dialect: str) -> None:
    at_hub = CLIENTS[dialect](
        world.http,
        key=KEYS["alice"],
        tenant="",
        address=Address(jsonrpc=AGENT, rest=AGENT),
        headers=None,
    )
    task = await at_hub.run("say done")
    at_relay = world.client(dialect)
    assert (await at_relay.get(task["id"]))["id"] == task["id"]
    async with at_hub.stream("say one; say two") as stream:
        events = await stream.rest()
    assert len(events) > 2


async def test_its_card_is_at_both_addresses(world: RelayedWorld) -> None:
    card = await ask(world, f"{PATH}/.well-known/agent-card.json")
    assert card.status == 200
    for name in ("agent-card.json", ".well-known/agent-card.json"):
        assert (await ask(world, f"{AGENT}/{name}")).body == card.body


async def test_a_task_of_any_name_is_found(world: RelayedWorld) -> None:
    """The path below the agent goes to the host as it came."""
    answer = await ask(world, f"{AGENT}/tasks/a%2Fb%20c")
    assert answer.status == 404
    assert "a/b c" in answer.json()["error"]["message"]


@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("key", ["", "unknown-but-long-key", TOKEN, KEYS["alice"]])
async def test_an_agent_that_is_not_there_is_unknown_as_before(
    world: RelayedWorld, key: str, below: str
) -> None:
    """Nor do those learn of it who may not call it."""
    unknown = await ask(world, f"{HUB}/absent{below}", key=key)
    assert (unknown.status, unknown.headers) == (404, unknown.headers)
    if key != KEYS["alice"]:
        there = await ask(world, f"{AGENT}{below}", key=key)
        assert (there.status, there.headers, there.body) == (404, unknown.headers, unknown.body)


@pytest.mark.parametrize(
    "path", [f"{HUB}/scripte%64", f"{HUB}//scripted", HUB, f"{HUB}/", "/api/a2a/v1/agents/x"]
)
async def test_other_spellings_lead_nowhere(world: RelayedWorld, path: str) -> None:
    assert (await ask(world, path)).status == 404


async def test_an_agent_that_is_published_keeps_its_address(world: RelayedWorld) -> None:
    agent = {
        "owner": "acme",
        "slug": "scripted",
        "name": "Of the hub",
        "backend": {"kind": "echo"},
        "status": "published",
    }
    made = await ask(
        world,
        "/api/v1/agents",
        method="POST",
        body=msgspec.json.encode(agent).decode(),
    )
    assert made.status == 201, made.body
    card = (await ask(world, f"{AGENT}/agent-card.json")).json()
    assert card["name"] == "Of the hub"
    at_relay = (await ask(world, f"{PATH}/.well-known/agent-card.json")).json()
    assert at_relay["name"] != "Of the hub"


async def test_an_agent_that_has_left_is_away(world: RelayedWorld) -> None:
    assert (await ask(world, f"{AGENT}/tasks")).status == 200
    draining = world.relay_tasks.start(world.gateway.drain(grace_s=1), name="drain")
    await world.clock.advance(3)
    await draining
    assert (await ask(world, f"{AGENT}/tasks")).status in (404, 503)
