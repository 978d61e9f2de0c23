"""Cards of agents that are away, and the presence on them."""

from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OKPKey
from msgspec.structs import replace
from tests.bindings.asgi import Answer, Http
from tests.bindings.world import KEYS
from tests.relay.gateways import PATH, RelayedWorld, open_relayed_world
from tests.relay.test_mailbox import come_back, leave

from trunkline.remote.card_signatures import CardKeys

CARD = f"{PATH}/.well-known/agent-card.json"


def get(path: str = CARD, *, method: str = "GET", key: str = KEYS["alice"], **more: str) -> Http:
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    return Http(method=method, path=path, headers={"authorization": f"Bearer {key}"} | headers)


FORMS: list[dict[str, Any]] = [{}, {"a2a_version": "1.0"}, {"a2a_version": "0.3"}]


@pytest.mark.parametrize("name", [".well-known/agent-card.json", ".well-known/agent.json"])
@pytest.mark.parametrize("form", FORMS, ids=["both", "1.0", "0.3"])
async def test_the_card_is_served_byte_for_byte(
    world: RelayedWorld, form: dict[str, str], name: str
) -> None:
    """B15: no card while messages for the agent were queued."""
    there = await world.http.send(get(f"{PATH}/{name}", **form))
    assert there.headers["trunkline-presence"] == "online"
    await leave(world)
    away = await world.http.send(get(f"{PATH}/{name}", **form))
    assert (away.status, away.body) == (200, there.body)
    assert away.headers["trunkline-presence"] == "offline"
    for header in ("etag", "content-type", "content-length"):
        assert away.headers[header] == there.headers[header]


async def test_clients_that_have_the_card_get_it_once(world: RelayedWorld) -> None:
    there = await world.http.send(get())
    await leave(world)
    known = await world.http.send(get(if_none_match=there.headers["etag"]))
    assert (known.status, known.body) == (304, b"")
    assert known.headers["trunkline-presence"] == "offline"
    other = await world.http.send(get(if_none_match='"another"'))
    assert other.status == 200


async def test_presence_can_be_asked_for_alone(world: RelayedWorld) -> None:
    there = await world.http.send(get(method="HEAD"))
    await leave(world)
    away = await world.http.send(get(method="HEAD"))
    assert (there.status, away.status) == (200, 200)
    assert away.headers["trunkline-presence"] == "offline"
    assert away.headers["content-length"] == there.headers["content-length"]
    await come_back(world)
    again = await world.http.send(get(method="HEAD"))
    assert again.headers["trunkline-presence"] == "online"


async def test_a_card_is_read_and_nothing_else(world: RelayedWorld) -> None:
    await leave(world)
    answer = await world.http.send(get(method="POST"))
    assert answer.status == 405
    unknown = await world.http.send(get(a2a_version="7.0"))
    assert unknown.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("key", ["", "unknown-but-long-key", "the-token-of-the-host"])
async def test_only_callers_of_the_agent_see_its_card(world: RelayedWorld, key: str) -> None:
    there = await world.http.send(get(key=key))
    await leave(world)
    assert _told(await world.http.send(get(key=key))) == _told(there)
    assert there.status in (401, 403)


async def test_an_agent_that_was_never_here_has_no_card(world: RelayedWorld) -> None:
    own = await world.http.send(get(CARD.replace("scripted", "absent")))
    foreign = await world.http.send(get(CARD.replace("/acme/", "/other/")))
    assert own.status == 503
    assert _told(own) == _told(foreign)
    assert "trunkline-presence" not in own.headers


def _told(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    return answer.status, answer.body, answer.headers


async def test_a_signed_card_stays_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = OKPKey.generate_key("Ed25519")
    file = tmp_path / "card.pem"
    file.write_bytes(key.as_pem(private=True))
    signed = {"card_key_path": str(file)}
    keys = CardKeys((key.as_pem(private=False).decode(),), is_required=True)
    async with open_relayed_world(monkeypatch, server=signed) as world:
        await leave(world)
        card = keys.read((await world.http.send(get(a2a_version="1.0"))).body)
        assert len(card.signatures) == 1


async def test_the_card_follows_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_relayed_world(monkeypatch) as world:
        await leave(world)
        before = (await world.http.send(get())).json()
        (endpoint,) = {
            id(each): each for each in world.gateway.endpoints if each.jsonrpc_path == PATH
        }.values()
        endpoint.card = replace(endpoint.card, description="Does more")
        await come_back(world)
        await leave(world)
        after = (await world.http.send(get())).json()
        assert (before["description"], after["description"]) == ("Does as told", "Does more")
