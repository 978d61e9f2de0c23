"""`/.well-known/ai-catalog.json` of a gateway: the agents that everyone may know."""

import json
from typing import Any

from tests.bindings.asgi import Http
from tests.bindings.world import HANDLE, KEYS, open_world
from tests.hub.registry_world import HubWorld, connection, hub_world, request

PATH = "/.well-known/ai-catalog.json"
CONFIGURED: dict[str, Any] = {"own/one": {"name": "One", "backend": {"kind": "echo"}}}


async def urls(world: HubWorld, *, by: str = "") -> list[str]:
    headers = {"Authorization": f"Bearer {by}"} if by else {}
    answer = await world.http.send(Http(method="GET", path=PATH, headers=headers))
    assert answer.status == 200
    return [entry["url"] for entry in answer.json()["entries"]]


def card(handle: str) -> str:
    return f"https://gateway.example/api/a2a/v1/agents/{handle}/agent-card.json"


async def test_public_agents_are_listed_and_no_others_for_any_caller() -> None:
    async with hub_world(agents=CONFIGURED) as world:
        await world.create(slug="public")
        await world.create(slug="unlisted", visibility="unlisted")
        await world.create(slug="private", visibility="private")
        await world.create(slug="draft", status="draft")
        gone = await world.create(slug="gone")
        await world.call("DELETE", f"/agents/{gone['id']}")
        one, public = await urls(world)
        assert one == "https://gateway.example/.well-known/agent-card.json"
        assert public == card("acme/public")
        for caller in ("operator", "acme", "carol"):
            assert await urls(world, by=caller) == [one, public]


async def test_every_url_is_that_of_a_card_that_everyone_may_read() -> None:
    async with hub_world(agents=CONFIGURED) as world:
        await world.create(slug="public")
        for url in await urls(world):
            path = url.removeprefix("https://gateway.example")
            answer = await world.http.send(Http(method="GET", path=path))
            assert (answer.status, answer.json()["name"] != "") == (200, True)


async def test_a_change_shows_at_the_next_request_on_an_open_connection() -> None:
    async with hub_world() as world, connection(world) as peer:

        async def listed(tag: str) -> tuple[int, list[str], str]:
            lines = (f"If-None-Match: {tag}",) if tag else ()
            peer.send(request("GET", PATH, headers=lines))
            status, headers = await peer.head()
            if status == 304:
                return status, [], headers["etag"]
            body = await peer.exactly(int(headers["content-length"]))
            entries = json.loads(body)["entries"]
            return status, [entry["url"] for entry in entries], headers["etag"]

        agent = await world.create(slug="echo")
        for values in (
            {"status": "draft"},
            {"visibility": "private"},
            {"visibility": "unlisted"},
        ):
            status, found, tag = await listed("")
            assert (status, found) == (200, [card("acme/echo")])
            assert (await listed(tag))[0] == 304
            await world.call("PATCH", f"/agents/{agent['id']}", values)
            assert (await listed(tag))[:2] == (200, [])
            back = {"status": "published", "visibility": "public"}
            await world.call("PATCH", f"/agents/{agent['id']}", back)
            assert (await listed(""))[1] == [card("acme/echo")]
        await world.call("DELETE", f"/agents/{agent['id']}")
        assert (await listed(""))[1] == []


async def test_a_gateway_without_a_hub_lists_its_agents_whoever_asks() -> None:
    async with open_world() as world:
        for headers in ({}, {"Authorization": f"Bearer {KEYS['alice']}"}):
            answer = await world.http.send(Http(method="GET", path=PATH, headers=headers))
            (entry,) = answer.json()["entries"]
            assert entry["url"] == "https://gateway.example/.well-known/agent-card.json"
            owner, _, slug = HANDLE.partition("/")
            assert entry["identifier"] == f"urn:air:gateway.example:agent:{owner}:{slug}"
        await world.gateway.directory.withdraw(HANDLE, grace_s=0)
        empty = await world.http.send(Http(method="GET", path=PATH))
        assert empty.json()["entries"] == []


async def test_an_agent_with_an_address_of_its_own_is_listed_there() -> None:
    async with open_world(public_url="https://other.example/x/") as world:
        answer = await world.http.send(Http(method="GET", path=PATH))
        (entry,) = answer.json()["entries"]
        assert entry["url"] == "https://other.example/x/.well-known/agent-card.json"
        assert entry["identifier"].startswith("urn:air:other.example:agent:")
