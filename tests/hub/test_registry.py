"""Agents of the registry, created and changed over HTTP, as callers meet them."""

import json
from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.hub.registry_world import (
    CARD,
    ECHO,
    RPC,
    HubWorld,
    connection,
    hub_world,
    request,
    rpc_body,
)
from tests.sockets.peer import Peer


async def ask(peer: Peer, data: bytes) -> tuple[int, bytes]:
    peer.send(data)
    status, _, body = await peer.response()
    return status, body


def patch(agent: dict[str, Any], **values: Any) -> bytes:
    body = json.dumps(values).encode()
    return request("PATCH", f"/api/v1/agents/{agent['id']}", body, by="operator")


async def test_h_02_h_03_a_change_holds_for_the_next_request_on_an_open_connection() -> None:
    card = request("GET", CARD.format("acme/echo"))
    send = request("POST", RPC.format("acme/echo"), rpc_body(), by="carol")
    async with hub_world() as world, connection(world) as peer:
        unknown = [await ask(peer, card), await ask(peer, send)]
        assert [status for status, _ in unknown] == [404, 404]
        agent = await world.create()
        for _ in range(3):
            for _ in range(2):
                assert (await ask(peer, card))[0] == 200
                status, body = await ask(peer, send)
                assert (status, b"TASK_STATE_COMPLETED" in body) == (200, True)
            status, body = await ask(peer, patch(agent, status="draft"))
            assert (status, json.loads(body)["status"]) == (200, "draft")
            for _ in range(2):
                assert [await ask(peer, card), await ask(peer, send)] == unknown
            assert (await ask(peer, patch(agent, status="published")))[0] == 200
        status, _ = await ask(peer, request("GET", CARD.format("acme/echo")))
        assert status == 200
        path = f"/api/v1/agents/{agent['id']}"
        peer.send(request("DELETE", path, by="operator"))
        assert (await peer.head())[0] == 204
        assert [await ask(peer, card), await ask(peer, send)] == unknown


async def refusals(world: HubWorld, handle: str, *, by: str) -> list[tuple[int, bytes, Any]]:
    """The answers of every route and binding of an agent, without what differs by handle."""
    own = RPC.format(handle)
    headers = {"Authorization": f"Bearer {by}"} if by else {}
    json_headers = headers | {"Content-Type": "application/json"}
    requests = [
        Http(method="GET", path=CARD.format(handle), headers=headers),
        Http(method="GET", path=f"{own}/.well-known/agent-card.json", headers=headers),
        Http(method="HEAD", path=CARD.format(handle), headers=headers),
        Http(path=own, headers=json_headers, body=rpc_body()),
        Http(path=own, headers=json_headers, body=rpc_body("GetTask")),
        Http(path=own, headers=json_headers | {"A2A-Version": "0.3"}, body=rpc_body()),
        Http(path=own, headers=json_headers, body=b"not JSON"),
        Http(path=f"{own}/message:send", headers=json_headers, body=rpc_body()),
        Http(path=f"{own}/message:stream", headers=json_headers, body=rpc_body()),
        Http(method="GET", path=f"{own}/tasks", headers=headers),
        Http(method="GET", path=f"{own}/tasks/1", headers=headers),
        Http(method="GET", path=f"{own}/v1/card", headers=headers),
        Http(method="GET", path=own, headers=headers),
        Http(method="OPTIONS", path=own, headers=headers),
    ]
    answers = [await world.http.send(each) for each in requests]
    return [(a.status, a.body, sorted(a.headers.items())) for a in answers]


@pytest.mark.parametrize("by", ["", "carol", "acme", "operator", "reader", "wrong"])
async def test_draft_deleted_and_unknown_agents_are_the_same_404(by: str) -> None:
    async with hub_world(agents={"conf/one": {"name": "C", "backend": {"kind": "echo"}}}) as world:
        await world.create(slug="draft", status="draft")
        deleted = await world.create(slug="deleted")
        await world.call("DELETE", f"/agents/{deleted['id']}")
        unknown = await refusals(world, "acme/unknown", by=by)
        assert {status for status, _, _ in unknown} == {404}
        assert await refusals(world, "acme/draft", by=by) == unknown
        assert await refusals(world, "acme/deleted", by=by) == unknown


@pytest.mark.parametrize("by", ["", "carol", "wrong", "reader", "dave"])
async def test_a_private_agent_is_the_same_404_without_a_grant(by: str) -> None:
    async with hub_world() as world:
        await world.create(slug="hidden", visibility="private")
        unknown = await refusals(world, "acme/unknown", by=by)
        assert await refusals(world, "acme/hidden", by=by) == unknown


async def test_a_private_agent_serves_callers_with_a_grant_as_far_as_it_goes() -> None:
    async with hub_world() as world:
        agent = await world.create(visibility="private")
        assert (await world.card("acme/echo", by="dave")).status == 200
        assert (await world.send("acme/echo", by="dave")).status == 200
        assert (await world.card("acme/echo", by="reader")).status == 200
        denied = await world.send("acme/echo", by="reader")
        assert (denied.status, b"PERMISSION_DENIED" in denied.body) == (403, True)
        # The same caller may send while the agent is open to all who are signed in.
        await world.call("PATCH", f"/agents/{agent['id']}", {"visibility": "unlisted"})
        assert (await world.send("acme/echo", by="reader")).status == 200
        assert (await world.card("acme/echo")).status == 200
        await world.call("PATCH", f"/agents/{agent['id']}", {"visibility": "private"})
        assert (await world.send("acme/echo", by="reader")).status == 403
        assert (await world.card("acme/echo")).status == 404


async def test_the_card_has_the_block_of_the_hub() -> None:
    async with hub_world() as world:
        await world.create(tagline="Says it again", dailyBudgetQueries=7)
        card = (await world.card("acme/echo")).json()
        assert card["_trunkline"] == {
            "handle": "acme/echo",
            "ownerLogin": "acme",
            "queriesToday": 0,
            "dailyBudget": 7,
            "online": True,
            "isolated": True,
            "isolationNote": "this agent answers from its own context only; cross-session routing "
            "tools (route_to_peer / probe_peers / list_peers) are disabled while it's working on "
            "your request",
        }
        assert card["description"] == "Says it again"


async def test_the_block_is_named_after_the_style() -> None:
    async with hub_world(hub={"style": "clawborrator"}) as world:
        await world.create(isolated=False)
        card = (await world.card("acme/echo")).json()
        assert "_trunkline" not in card
        assert card["_clawborrator"]["isolated"] is False
        assert "with your rights" in card["_clawborrator"]["isolationNote"]


async def test_agents_of_the_registry_and_of_the_configuration_live_side_by_side() -> None:
    agents = {"conf/one": {"name": "Conf", "backend": {"kind": "echo"}}}
    async with hub_world(agents=agents) as world:
        await world.create()
        assert (await world.send("conf/one", by="operator")).status == 200
        listed = (await world.call("GET", "/agents")).json()["items"]
        assert [(each["handle"], each["source"]) for each in listed] == [
            ("acme/echo", "registry"),
            ("conf/one", "configuration"),
        ]
        taken = await world.call("POST", "/agents", ECHO | {"owner": "CONF", "slug": "one"})
        assert (taken.status, b"configuration" in taken.body) == (409, True)
        mine = (await world.call("GET", f"/agents/{listed[1]['id']}", by="")).json()
        assert mine["handle"] == "conf/one"
        by_handle = await world.call("GET", "/agents/by-handle/Conf/one", by="")
        assert by_handle.json()["name"] == "Conf"
        changed = await world.call("PATCH", f"/agents/{listed[1]['id']}", {"name": "x"})
        assert (changed.status, b"configuration" in changed.body) == (403, True)
