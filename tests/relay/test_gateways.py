"""Two gateways: the cards, callers and streams of an agent that is called through a relay."""

import re
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.cases import refused
from tests.bindings.clients import Client
from tests.bindings.world import KEYS
from tests.relay.gateways import PATH, TOKEN, RelayedWorld, open_relayed_world

from trunkline.testing import settle

DIRECT = "https://gateway.example"
AT_RELAY = f"https://relay.example{PATH}"


@pytest.fixture
def client(world: RelayedWorld) -> Client:
    return world.client("jsonrpc-1.0")


def get(path: str, *, key: str = KEYS["alice"], version: str = "1.0") -> Http:
    headers = {"authorization": f"Bearer {key}", "a2a-version": version}
    return Http(method="GET", path=path, headers=headers)


def urls(card: Answer) -> list[str]:
    return [interface["url"] for interface in card.json()["supportedInterfaces"]]


@pytest.mark.parametrize("name", [".well-known/agent-card.json", "agent-card.json"])
async def test_the_card_names_the_gateway_and_then_the_relay(
    world: RelayedWorld, name: str
) -> None:
    """D-13."""
    relayed = await world.http.send(get(f"{PATH}/{name}"))
    assert relayed.status == 200
    one = [f"{DIRECT}/a2a/jsonrpc", f"{DIRECT}/a2a/rest", AT_RELAY, AT_RELAY]
    assert urls(relayed)[:4] == one
    direct = await world.direct.send(get("/.well-known/agent-card.json"))
    assert urls(direct)[:4] == one


async def test_the_card_of_0_3_is_at_its_old_path_as_well(world: RelayedWorld) -> None:
    answer = await world.http.send(get(f"{PATH}/.well-known/agent.json", version="0.3"))
    assert answer.json()["protocolVersion"].startswith("0.3")


async def test_the_card_may_name_the_relay_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_relayed_world(monkeypatch, mode="relay") as world:
        relayed = await world.http.send(get(f"{PATH}/.well-known/agent-card.json"))
        assert set(urls(relayed)) == {AT_RELAY}
        direct = await world.direct.send(get("/.well-known/agent-card.json"))
        assert set(urls(direct)) == {AT_RELAY}


async def test_the_card_names_the_relays_that_stand_by(monkeypatch: pytest.MonkeyPatch) -> None:
    standby = ("wss://second.example/base/agent",)
    async with open_relayed_world(monkeypatch, mode="relay", standby=standby) as world:
        relayed = await world.http.send(get(f"{PATH}/.well-known/agent-card.json"))
        assert [*dict.fromkeys(urls(relayed))] == [AT_RELAY, f"https://second.example/base{PATH}"]


async def test_the_card_asks_for_the_credential_of_the_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_relayed_world(monkeypatch, anonymous="loopback") as world:
        card = (await world.http.send(get(f"{PATH}/.well-known/agent-card.json"))).json()
        assert list(card["securitySchemes"]) == ["bearer"]
        assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]


async def test_callers_of_the_relay_are_apart(world: RelayedWorld, client: Client) -> None:
    """B14: the agent never learned who called it, so that callers saw each other's tasks."""
    task = await client.run("say done")
    assert (await client.get(task["id"]))["id"] == task["id"]
    with refused("TASK_NOT_FOUND"):
        await world.client("jsonrpc-1.0", "bob").get(task["id"])
    page = await world.client("jsonrpc-1.0", "bob").list()
    assert page["tasks"] == []


async def test_a_caller_of_the_relay_is_no_caller_of_the_gateway(
    world: RelayedWorld, client: Client
) -> None:
    """Both may have the same name."""
    task = await client.run("say done")
    key = get(f"/a2a/rest/tasks/{task['id']}")
    assert (await world.direct.send(key)).status == 404


@pytest.mark.parametrize("key", ["", "unknown-but-long-key", TOKEN])
async def test_only_callers_of_the_relay_reach_the_agent(world: RelayedWorld, key: str) -> None:
    answer = await world.http.send(get(f"{PATH}/tasks", key=key))
    assert answer.status in (401, 403)


async def test_nothing_else_of_the_gateway_is_at_the_relay(world: RelayedWorld) -> None:
    for path in ("/a2a/rest/tasks", "/t/acme/a2a/other/tasks", "/api/a2a/v1/agents/test/scripted"):
        assert (await world.http.send(get(path))).status in (404, 503)


async def test_a_caller_cannot_make_its_own_way_in(world: RelayedWorld) -> None:
    """The credential of relayed requests is not one that anyone could send."""
    request = get("/a2a/rest/tasks")
    for forged in ("Relayed 0", "Relayed ", "Relayed"):
        request.headers["authorization"] = forged
        assert (await world.direct.send(request)).status == 401


async def test_a_stream_goes_on_behind_a_lost_connection(
    world: RelayedWorld, client: Client
) -> None:
    async with client.stream("say one; wait gate; say two") as stream:
        await stream.next()
        await world.agent.gates.reached("gate")
        world.wire.cut()
        world.agent.gates.open("gate")
        await settle()
        await world.clock.advance(2)
        events = await stream.rest()
    assert events[-1].state == "TASK_STATE_COMPLETED"
    ids = [event.id for event in events if event.id is not None]
    assert ids == sorted(set(ids))


async def test_a_client_resumes_after_the_relay_has_lost_the_session(
    world: RelayedWorld, client: Client
) -> None:
    async with client.stream("say one; wait gate; say two") as stream:
        first = await stream.next()
        task_id = first.value["id"]
        await world.agent.gates.reached("gate")
        for attached in [*world.relay.relaying._relay._relay._sessions.values()]:  # type: ignore[union-attr]
            world.wire.is_down = True
            world.wire.cut()
            await world.clock.advance(31)
            assert attached.session.is_ended
        assert "AGENT_LOST" in str([event async for event in stream.response.chunks()])
    world.wire.is_down = False
    await world.clock.advance(61)
    async with client.subscribe(task_id, headers={"last-event-id": str(first.id)}) as stream:
        world.agent.gates.open("gate")
        events = await stream.rest()
    assert events[-1].state == "TASK_STATE_COMPLETED"
    assert events[0].id is not None
    assert first.id is not None
    assert events[0].id == first.id + 1


@pytest.mark.parametrize(("mode", "status"), [("both", 200), ("relay", 503)])
async def test_an_outage_of_the_relay_is_one_of_the_gateway_where_it_is_the_only_way(
    monkeypatch: pytest.MonkeyPatch, mode: str, status: int
) -> None:
    async with open_relayed_world(monkeypatch, mode=mode) as world:
        ready = Http(method="GET", path="/readyz")
        answer = await world.direct.send(ready)
        assert answer.body == b"ready\nnote: attached to the relay relay.example\n"
        world.wire.is_down = True
        world.wire.cut()
        await settle()
        answer = await world.direct.send(ready)
        assert answer.status == status
        head = "ready\nnote" if status == 200 else "not ready"
        expected = f"{head}: not attached to the relay: cut\n"
        assert answer.body.decode() == expected
        # The agent is there for everyone else.
        direct = await world.direct.send(get("/a2a/rest/tasks"))
        assert direct.status == 200


def requests_of(metrics: str) -> float:
    found = re.search(r"^trunkline_relayed_requests_total (.*)$", metrics, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_metrics_know_what_is_attached(world: RelayedWorld) -> None:
    relay = (await world.http.send(get("/metrics"))).body.decode()
    assert "trunkline_relay_agents 1.0" in relay
    host = (await world.direct.send(get("/metrics"))).body.decode()
    assert "trunkline_relayed_agents 1.0" in host
    assert "trunkline_relayed_place 1.0" in host
    before = requests_of(host)
    assert "trunkline_relayed_round_trip_seconds 0.0" in host
    assert 'trunkline_relayed_reconnects_total{relay="relay.example"} 0.0' in host
    await world.client("jsonrpc-1.0").list()
    world.wire.is_down = True
    world.wire.cut()
    await world.clock.advance(1)
    world.wire.is_down = False
    await world.clock.advance(10)
    host = (await world.direct.send(get("/metrics"))).body.decode()
    assert requests_of(host) == before + 1
    assert 'trunkline_relayed_reconnects_total{relay="relay.example"} 1.0' in host
    assert 'trunkline_relayed_failures_total{relay="relay.example"} 0.0' not in host


async def test_a_body_that_the_gateway_has_no_memory_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: dict[str, Any] = {"max_held_bytes": 1024 * 1024}
    async with open_relayed_world(monkeypatch, server=limits) as world:
        request = get(f"{PATH}/message:send")
        request.method, request.body = "POST", b'{"x": "' + b"x" * 2_000_000 + b'"}'
        request.headers["content-type"] = "application/json"
        request.headers["content-length"] = str(len(request.body))
        budget = world.gateway.front.budget
        budget.hold("another caller", 700_000)
        assert (await world.http.send(request)).status == 503
        budget.release("another caller", 700_000)
        assert (await world.http.send(request)).status == 400
        assert budget.held_bytes == 0


async def test_a_gateway_that_stops_leaves_its_relay(world: RelayedWorld, client: Client) -> None:
    await client.run("say done")
    draining = world.relay_tasks.start(world.gateway.drain(grace_s=5), name="drain")
    await world.clock.advance(3)
    await draining
    assert world.wire.open_ends == []
    assert (await world.http.send(get(f"{PATH}/tasks"))).status == 503
