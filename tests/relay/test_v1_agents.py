"""Agents of protocol v1 at the relay of a gateway, on a wire in memory; the test is the agent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Answer, Http
from tests.relay.gateways import TOKEN, RelayedWorld, open_relayed_world, relay_settings
from tests.relay.tenants_world import SECRETS, TENANTS, client_claims, host_claims, signed
from tests.relay.v1_agent import CARD
from tests.relay.v1_relay import text_message
from tests.relay.wire import TextEnd

from trunkline.config.secret import Secret
from trunkline.protocol.relay.close_codes import (
    FORBIDDEN,
    NOT_AUTHENTICATED,
    OVER_LIMIT,
    REPLACED,
    RESTART,
)
from trunkline.relay.v1.sockets import MAX_GREETING_PER_SOURCE
from trunkline.settings.relay_server import RelayServerSettings
from trunkline.testing import FakeClock, settle

NOW_MS = FakeClock().now_ms()
PATH = "/t/acme/a2a/helper"


def agent_token(**changes: Any) -> str:
    return signed(host_claims(NOW_MS, **{"tenant": "acme", **changes}), SECRETS["acme"])


def client_token(**changes: Any) -> str:
    return signed(client_claims(NOW_MS, "acme", **changes), SECRETS["acme"])


class Agent:
    """The agent's end of a connection."""

    def __init__(self, end: TextEnd) -> None:
        self.end = end

    async def tell(self, **frame: Any) -> None:
        await self.end.send(json.dumps(frame))
        await settle()

    async def frame(self) -> Any:
        return json.loads(await self.end.receive())

    async def authenticate(self, token: str, card: Any = CARD) -> Any:
        await self.tell(type="auth", token=token, tenant="other", agent_id="other", agent_card=card)
        return await self.frame()

    async def answer(self, **payload: Any) -> None:
        """Answer the next request."""
        request = (await self.frame())["payload"]
        await self.tell(type="a2a.response", payload={"id": request["id"], **payload})

    @property
    def close(self) -> int | None:
        return None if self.end.closed is None else self.end.closed.code


class World:
    def __init__(self, world: RelayedWorld) -> None:
        self.world = world
        self.clock = world.clock

    async def agent(self) -> Agent:
        return Agent(await self.world.wire.connect_v1())

    async def attach(self, **claims: Any) -> Agent:
        agent = await self.agent()
        answer = await agent.authenticate(agent_token(**claims))
        assert answer == {"type": "auth_ok", "tenant": "acme", "agent_id": "helper"}
        return agent

    async def send(self, token: str = "") -> Answer:
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": text_message("hi")}
        headers = {
            "authorization": f"Bearer {token or client_token()}",
            "content-type": "application/json",
        }
        request = Http(path=PATH, headers=headers, body=json.dumps(body).encode())
        return await self.world.http.send(request)

    def sending(self, token: str = "") -> Any:
        return self.world.relay_tasks.start(self.send(token), name="send")


@asynccontextmanager
async def open_world(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[World]:
    settings = settings or {"tenants": TENANTS}
    at_relay = replace(relay_settings(), relay_server=RelayServerSettings(**settings))
    async with open_relayed_world(monkeypatch, at_relay=at_relay, token=TOKEN) as world:
        yield World(world)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with open_world(monkeypatch) as world:
        yield world


async def test_tokens_of_older_relays_attach_and_call(world: World) -> None:
    agent = await world.attach()
    call = world.sending()
    await agent.answer(result={"kind": "task", "id": "t", "status": {"state": "completed"}})
    assert (await call).json()["result"]["id"] == "t"


async def test_the_one_secret_of_an_older_relay_counts_for_all_tenants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = SECRETS["all"]
    async with open_world(monkeypatch, jwt_secrets=(Secret(secret),)) as world:
        agent = await world.agent()
        token = signed(host_claims(NOW_MS, jti=None, iat=None), secret)
        assert (await agent.authenticate(token))["type"] == "auth_ok"
        # Clients of older relays are named by user_id.
        claims = client_claims(NOW_MS, sub=None, user_id="alice", jti=None, iat=None)
        call = world.sending(signed(claims, secret))
        await agent.answer(result={"kind": "task", "id": "t", "status": {"state": "completed"}})
        assert (await call).json()["result"]["id"] == "t"


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"role": "client", "agent_id": "helper"}, FORBIDDEN),
        ({"role": None}, NOT_AUTHENTICATED),
        ({"agent_id": None}, NOT_AUTHENTICATED),
        ({"agent_id": ["helper", "reviewer"]}, FORBIDDEN),
        ({"tenant": "other"}, NOT_AUTHENTICATED),
        ({"exp": NOW_MS // 1000 - 100}, NOT_AUTHENTICATED),
        ({"exp": NOW_MS // 1000 + 25 * 3600}, NOT_AUTHENTICATED),
    ],
    ids=str,
)
async def test_b4_the_role_of_a_token_counts(world: World, claims: Any, code: int) -> None:
    agent = await world.agent()
    answer = await agent.authenticate(agent_token(**claims))
    assert answer["type"] == "error"
    await settle()
    assert agent.close == code
    assert (await world.send()).status == 503


async def test_b11_a_session_ends_with_its_token(world: World) -> None:
    agent = await world.attach(exp=NOW_MS // 1000 + 300)
    await world.clock.advance(290)
    assert agent.end.closed is None
    # The clocks may differ by a minute.
    await world.clock.advance(90)
    assert (await agent.frame()) == {"type": "error", "message": "the token has ended"}
    assert agent.close == NOT_AUTHENTICATED
    # The next message waits for another token.
    assert (await world.send()).json()["result"]["status"]["state"] == "submitted"


async def test_b11_a_denied_token_ends_a_live_session_at_once(world: World) -> None:
    agent = await world.attach(jti="stolen")
    parts = world.world.relay.relaying.tenants
    assert parts is not None
    call = world.sending()
    await agent.frame()
    await parts.denials.add("jti", "stolen", tenant="acme")
    await settle()
    assert agent.close == NOT_AUTHENTICATED
    assert (await call).status == 502
    again = await world.agent()
    assert (await again.authenticate(agent_token(jti="stolen")))["message"] == "invalid token"


async def test_b1_an_older_connection_that_ends_late_takes_nothing_away(world: World) -> None:
    older = await world.attach()
    newer = await world.attach()
    assert (await older.frame())["message"] == "another host has its agents now"
    assert older.close == REPLACED
    # Its socket is found to be dead only now.
    older.end.cut()
    await world.clock.advance(60)
    call = world.sending()
    await newer.answer(result={"kind": "task", "id": "t", "status": {"state": "completed"}})
    assert (await call).status == 200


async def test_the_newest_of_both_protocols_has_the_agent(world: World) -> None:
    agent = await world.agent()
    token = agent_token(agent_id="scripted")
    await agent.authenticate(token)
    await settle()
    own = world.world.gateway.relaying._host
    assert own is not None
    assert own._host is not None
    assert not own._host.attached_agents
    assert agent.close is None


async def test_b6_a_request_fails_at_once_when_the_agent_leaves(world: World) -> None:
    agent = await world.attach()
    call = world.sending()
    await agent.frame()
    agent.end.cut()
    answer = await call
    assert answer.status == 502
    assert "AGENT_LOST" in answer.body.decode()


async def test_b13_sockets_without_a_token_are_bounded(world: World) -> None:
    waiting = [await world.agent() for _ in range(MAX_GREETING_PER_SOURCE)]
    await settle()
    one_more = await world.agent()
    assert "too many connections" in (await one_more.frame())["message"]
    await settle()
    assert one_more.close == OVER_LIMIT
    # One that shows its token, or leaves, makes room.
    await waiting[0].end.close()
    await settle()
    await world.attach()


async def test_a_relay_that_stops_says_so(world: World) -> None:
    agent = await world.attach()
    call = world.sending()
    request = (await agent.frame())["payload"]
    stopping = world.world.relay_tasks.start(
        world.world.relay.relaying.drain(grace_s=5), name="drain"
    )
    await settle()
    answer = {"kind": "task", "id": "t", "status": {"state": "completed"}}
    await agent.tell(type="a2a.response", payload={"id": request["id"], "result": answer})
    assert (await call).status == 200
    await world.clock.advance(6)
    await stopping
    assert agent.close == RESTART
