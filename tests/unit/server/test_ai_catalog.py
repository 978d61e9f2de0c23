"""The AI Catalog and the standing of agents: what memory says, and what the store says of late."""

import json
from typing import Any

import pytest
from msgspec import Struct, field
from tests.bindings.asgi import Answer, Asgi, Http
from tests.unit.protocol.test_ai_catalog import card

from trunkline.model.errors import RouteNotFound, StoreUnusable
from trunkline.ports.directory import Listing
from trunkline.server.ai_catalog import AiCatalog

BASE = "https://agents.example.com"


class Registered(Struct):
    """A standing whose memory is old until it asks the store."""

    is_listed: bool = True
    is_fresh: bool = True
    is_private: bool = False
    is_open: bool = True
    # What the store says: listed, not listed, or an error.
    stored: bool | Exception = True
    asked: int = 0

    async def renew(self) -> None:
        self.asked += 1
        if isinstance(self.stored, Exception):
            raise self.stored
        self.is_listed = self.stored

    async def card_block(self) -> None:
        return None


class Agents(Struct):
    listings: list[Listing] = field(default_factory=list)

    def add(self, handle: str, standing: Registered | None = None) -> None:
        path = f"/api/a2a/v1/agents/{handle}"
        listing = Listing(
            handle=handle,
            card=card(("a tag",)),
            card_path=f"{path}/agent-card.json",
            jsonrpc_path=path,
            card_url=f"{BASE}{path}/agent-card.json",
            standing=standing,
        )
        self.listings.append(listing)


async def ask(http: Asgi, method: str = "GET", **headers: str) -> Answer:
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.send(Http(method=method, path="/.well-known/ai-catalog.json", headers=own))


def handles(answer: Answer) -> list[str]:
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/ai-catalog+json"
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return [":".join(entry["identifier"].split(":")[-2:]) for entry in entries]


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def http(agents: Agents) -> Asgi:
    return Asgi(AiCatalog(lambda: agents.listings, lambda: BASE))


async def test_agents_of_the_configuration_and_listed_ones_are_named(
    http: Asgi, agents: Agents
) -> None:
    agents.add("own/one")
    agents.add("acme/public", Registered())
    agents.add("acme/unlisted", Registered(is_listed=False))
    assert handles(await ask(http)) == ["own:one", "acme:public"]
    agents.listings.pop(0)
    assert handles(await ask(http)) == ["acme:public"]


async def test_old_memory_is_not_trusted(http: Asgi, agents: Agents) -> None:
    gone = Registered(is_fresh=False, stored=RouteNotFound("It is a draft now"))
    hidden = Registered(is_fresh=False, stored=False)
    stays = Registered(is_fresh=False)
    never = Registered(is_fresh=False, is_listed=False)
    for slug, standing in (("a", gone), ("b", hidden), ("c", stays), ("d", never)):
        agents.add(f"acme/{slug}", standing)
    assert handles(await ask(http)) == ["acme:c"]
    # An agent that memory does not list needs no look at the store.
    assert (gone.asked, hidden.asked, stays.asked, never.asked) == (1, 1, 1, 0)


async def test_a_store_that_is_away_names_no_agent(http: Asgi, agents: Agents) -> None:
    agents.add("acme/a", Registered(is_fresh=False, stored=StoreUnusable("/var/lib/x.db is gone")))
    answer = await ask(http)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert b"x.db" not in answer.body


async def test_a_cache_asks_before_each_use(http: Asgi, agents: Agents) -> None:
    agents.add("own/one")
    first = await ask(http)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = await ask(http, If_None_Match=known)
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    agents.add("own/two")
    changed = await ask(http, If_None_Match=tag)
    assert handles(changed) == ["own:one", "own:two"]


async def test_a_new_card_is_a_new_entry(http: Asgi, agents: Agents) -> None:
    agents.add("own/one")
    assert json.loads((await ask(http)).body)["entries"][0]["tags"] == ["a tag"]
    old = agents.listings.pop()
    newer = Listing(
        handle=old.handle, card=card(("another",)), card_path=old.card_path,
        jsonrpc_path=old.jsonrpc_path, card_url="https://other.example.com/card.json",
    )  # fmt: skip
    agents.listings.append(newer)
    (entry,) = json.loads((await ask(http)).body)["entries"]
    assert (entry["tags"], entry["url"]) == (["another"], "https://other.example.com/card.json")


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
async def test_the_catalog_is_only_read(http: Asgi, method: str) -> None:
    answer = await ask(http, method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
