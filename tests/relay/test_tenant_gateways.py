"""A gateway attaches with the token of a tenant, and clients of tenants call it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Http
from tests.bindings.clients import Client
from tests.hub.audit_world import rows_of
from tests.relay.gateways import RelayedWorld, open_relayed_world, relay_settings
from tests.relay.tenants_world import SECRETS, TENANTS, client_claims, host_claims, signed

from trunkline.app.relay import commands as relay_commands
from trunkline.protocol.relay.close_codes import NOT_AUTHENTICATED
from trunkline.relay.hosts.host import HostState
from trunkline.server.operator_channel import OperatorCommands
from trunkline.settings.hub import HubSettings
from trunkline.settings.relay_server import RelayServerSettings
from trunkline.testing import FakeClock, settle

NOW_MS = FakeClock().now_ms()
SEND = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}


def client_token(tenant: str = "acme", **changes: Any) -> str:
    return signed(client_claims(NOW_MS, tenant, **changes), SECRETS[tenant])


def host_token(tenant: str = "acme", **changes: Any) -> str:
    claims = host_claims(NOW_MS, tenant, **{"agent_id": "scripted", **changes})
    return signed(claims, SECRETS[tenant])


@asynccontextmanager
async def open_tenants(
    monkeypatch: pytest.MonkeyPatch,
    *,
    token: str = "",
    hub: HubSettings | None = None,
    **options: Any,
) -> AsyncIterator[RelayedWorld]:
    relay = RelayServerSettings(tenants=TENANTS)
    at_relay = replace(relay_settings(), relay_server=relay, hub=hub)
    token = token or host_token()
    async with open_relayed_world(monkeypatch, at_relay=at_relay, token=token, **options) as world:
        yield world


@pytest.fixture
async def tenants(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    async with open_tenants(monkeypatch) as world:
        yield world


def as_client(world: RelayedWorld, token: str) -> Client:
    return world.client("jsonrpc-1.0", token)


def state_of(world: RelayedWorld) -> HostState:
    own = world.gateway.relaying._host
    assert own is not None
    assert own._host is not None
    return own._host.state


async def status(world: RelayedWorld, token: str) -> int:
    client = as_client(world, token)
    return (await world.http.send(client.request("SendMessage", SEND))).status


async def test_a_client_of_the_tenant_calls_the_agent(tenants: RelayedWorld) -> None:
    assert state_of(tenants) is HostState.ATTACHED
    assert await status(tenants, client_token()) == 200


async def test_nobody_else_does(tenants: RelayedWorld) -> None:
    assert await status(tenants, client_token("other")) == 403
    assert await status(tenants, host_token()) == 403
    assert await status(tenants, signed(client_claims(NOW_MS), SECRETS["other"])) == 401
    assert await status(tenants, "") == 401


async def test_tokens_of_tenants_are_of_no_use_elsewhere(tenants: RelayedWorld) -> None:
    for path in ("/metrics", "/readyz", "/version"):
        headers = {"authorization": f"Bearer {client_token()}"}
        found = await tenants.http.send(Http(method="GET", path=path, headers=headers))
        without = await tenants.http.send(Http(method="GET", path=path))
        assert found.status in (without.status, 401)


async def test_a_denial_ends_a_live_session_at_once(tenants: RelayedWorld) -> None:
    parts = tenants.relay.relaying.tenants
    assert parts is not None
    await parts.denials.add("sub", "agent:acme:helper", tenant="acme")
    await settle()
    closed = tenants.wire.ends[-1].closed
    assert closed is not None
    assert closed.code == NOT_AUTHENTICATED
    assert state_of(tenants) is HostState.REFUSED
    client = as_client(tenants, client_token())
    task = client.result(
        "SendMessage", await tenants.http.send(client.request("SendMessage", SEND))
    )
    assert task["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


async def test_a_disabled_tenant_has_no_sessions(tenants: RelayedWorld) -> None:
    parts = tenants.relay.relaying.tenants
    assert parts is not None
    await parts.tenants.set_disabled("other", is_disabled=True)
    await settle()
    assert state_of(tenants) is HostState.ATTACHED
    await parts.tenants.set_disabled("acme", is_disabled=True)
    await settle()
    assert state_of(tenants) is HostState.REFUSED
    assert await status(tenants, client_token()) == 401


async def test_a_key_that_is_taken_out_of_the_configuration_ends_its_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_relayed_world(monkeypatch) as world:
        settings = world.relay.settings
        keys = {name: key for name, key in settings.auth.keys.items() if name != "laptop"}
        world.relay.front.apply(settings)
        await settle()
        states = [state_of(world)]
        # As a reload does.
        world.relay.front.apply(replace(settings, auth=replace(settings.auth, keys=keys)))
        await settle()
        assert [*states, state_of(world)] == [HostState.ATTACHED, HostState.REFUSED]


async def test_a_session_ends_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    token = host_token(exp=NOW_MS // 1000 + 300)
    async with open_tenants(monkeypatch, token=token) as world:
        # The leeway of clocks, and the grace of the relay.
        await world.clock.advance(300 + 60 + 9)
        assert state_of(world) is HostState.ATTACHED
        await world.clock.advance(3)
        assert state_of(world) is HostState.REFUSED
        closed = world.wire.ends[-1].closed
        assert closed is not None
        assert closed.code == NOT_AUTHENTICATED


async def test_commands_are_in_the_audit_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_tenants(monkeypatch, hub=HubSettings()) as world:
        commands = OperatorCommands()
        relay_commands.add_to(commands, world.relay.relaying)
        made = await commands.run("relay.tenant.add", {"name": "new"})
        await commands.run("relay.deny", {"what": "sub", "name": "alice", "tenant": "acme"})
        [agent] = (await commands.run("relay.agents", {}))["items"]
        assert (agent.agent, agent.host, agent.state) == (
            "acme/scripted",
            "host:acme:scripted",
            "attached",
        )
        assert world.relay.hub is not None
        await world.clock.advance(2)
        found = await rows_of(world.relay.hub.changes.store)
        said = [(line.who, line.action, line.subject) for line in found if line.kind == "change"]
        assert said == [
            ("@operator", "relay.tenant.add", "tenant new"),
            ("@operator", "relay.deny", "denial acme sub:alice"),
        ]
        assert made.secret not in str(found)
