"""What operators see of a relay over HTTP."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.relay.mailboxes import MailboxProcess, Taker, letter, process
from tests.relay.world import AGENT

from trunkline.api.api import PREFIX, Api
from trunkline.app.gateway import build
from trunkline.clock import Uuid7Ids
from trunkline.model.principal import OPERATOR, Principal
from trunkline.relay.attached_agents import AttachedAgent, attached_agents
from trunkline.relay.mailbox.commands import MailCommands
from trunkline.relay.operator_api import RelayApi
from trunkline.relay.policies import AgentPolicies
from trunkline.settings import from_document
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

CALLERS = {
    "operator": Principal(id="user:operator", roles=(OPERATOR,)),
    "other": Principal(id="user:other"),
}


@pytest.fixture
async def relay() -> AsyncIterator[MailboxProcess]:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    async with process(store, clock) as relay:
        yield relay


async def get(
    relay: MailboxProcess, path: str, *, by: str = "operator", **query: Any
) -> tuple[int, dict[str, Any]]:
    async def identify(request: Any) -> Principal | None:
        return CALLERS.get(request.headers.get("authorization", ""))

    async def attached() -> list[AttachedAgent]:
        return [*await attached_agents(relay.world.relay, ())]

    mail = MailCommands(
        mailboxes=relay.mailboxes, policies=AgentPolicies(), clock=relay.clock, ids=Uuid7Ids()
    )
    api = Api(identify=identify, realm="test")
    api.add(*RelayApi(attached, mail).routes())
    http = Http(
        method="GET",
        path=f"{PREFIX}{path}",
        query=urlencode(query),
        headers={"Authorization": by},
    )

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await api(scope, receive, send)

    answer = await Asgi(application).send(http)
    return answer.status, answer.json()


async def test_attached_agents_come_in_pages(relay: MailboxProcess) -> None:
    assert await get(relay, "/relay/agents") == (200, {"items": [], "nextPageToken": ""})
    await relay.world.attach(Taker())
    _, found = await get(relay, "/relay/agents", pageSize=1)
    (agent,) = found["items"]
    assert (agent["agent"], agent["state"], agent["requests"]) == (AGENT, "attached", 0)
    assert found["nextPageToken"] == ""
    _, rest = await get(relay, "/relay/agents", pageToken=AGENT)
    assert rest["items"] == []


async def test_mailboxes_and_their_dead_letters(relay: MailboxProcess) -> None:
    assert (await get(relay, "/relay/mailboxes"))[1]["items"] == []
    taker = Taker()
    taker.answers += [409, 409]
    for name in ("1", "2"):
        await relay.put(letter(name, context="c", now_ms=relay.clock.now_ms(), principal="bob"))
    host = await relay.world.attach(taker)
    await relay.clock.advance(2)
    await host.close()
    _, boxes = await get(relay, "/relay/mailboxes")
    (box,) = boxes["items"]
    assert (box["agent"], box["waiting"], box["dead"]) == (AGENT, 0, 2)
    _, first = await get(relay, "/relay/dead-letters", agent=AGENT, pageSize=1)
    _, second = await get(
        relay, "/relay/dead-letters", agent=AGENT, pageSize=1, pageToken=first["nextPageToken"]
    )
    assert [each["task"] for each in (*first["items"], *second["items"])] == ["1", "2"]
    assert second["nextPageToken"] == ""
    assert "409" in first["items"][0]["reason"]
    # A name without a mailbox opens none.
    _, none = await get(relay, "/relay/dead-letters", agent="acme/unknown")
    assert none["items"] == []


async def test_only_operators_see_the_relay(relay: MailboxProcess) -> None:
    for path in ("/relay/agents", "/relay/mailboxes", "/relay/dead-letters"):
        assert (await get(relay, path, by="other"))[0] == 403
        assert (await get(relay, path, by=""))[0] == 401


@pytest.mark.parametrize("is_relay", [True, False])
async def test_the_routes_are_there_where_the_gateway_is_a_relay(*, is_relay: bool) -> None:
    tables: dict[str, Any] = {"store": {"kind": "memory"}}
    if is_relay:
        tables["relay_server"] = {}
    else:
        tables["agents"] = {
            "acme/echo": {"name": "Echo", "default": True, "backend": {"kind": "echo"}}
        }
    gateway = build(from_document(tables, environment={}), base_url="http://gateway.example")
    names = [route.name for route in gateway.relaying.routes()]
    assert bool(names) == is_relay
