"""The cards of an OpenClaw (inbound.md I-5) and of its design (channel.md D-14 to D-18)."""

from typing import Any

import pytest
from tests.bindings.asgi import Answer, Asgi, Http
from tests.bindings.shapes import Json
from tests.bindings.world import HANDLE
from tests.inbound.peer import preset_world

from trunkline.app.gateway import build
from trunkline.settings import Settings, from_document
from trunkline.settings.profiles import PRESETS
from trunkline.version import VERSION

WELL_KNOWN = "/.well-known/agent-card.json"
MODES = ["text/plain", "application/json"]


def document(preset: str, **agent: Any) -> Settings:
    table = {"name": "Support", "profile": preset, "backend": {"kind": "echo"}} | agent
    return from_document({"agents": {"acme/claw": table}}, environment={})


async def card_of(settings: Settings, path: str = WELL_KNOWN) -> Json:
    gateway = build(settings, base_url="https://gw.example")
    answer = await Asgi(gateway.application).send(Http(method="GET", path=path))
    assert answer.status == 200, answer.body
    card: Json = answer.json()
    return card


async def test_i5_the_card_has_exactly_these_fields() -> None:
    settings = document(
        "openclaw-inbound",
        description="Helps.",
        skills=[
            {"id": "chat", "name": "Chat", "tags": ["talk"], "examples": ["hi"]},
            {"id": "sum", "name": "Sum", "description": "Adds.", "tags": ["math"]},
        ],
    )
    url = "https://gw.example/a2a/jsonrpc"
    modes = {"inputModes": MODES, "outputModes": MODES}
    assert await card_of(settings) == {
        "protocolVersion": "0.3.0",
        "name": "Support",
        "description": "Helps.",
        "version": VERSION,
        "url": url,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": url, "transport": "JSONRPC"}],
        "capabilities": {
            "pushNotifications": False,
            "streaming": True,
            "stateTransitionHistory": False,
        },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [
            {"id": "chat", "name": "Chat", "description": "Chat", "tags": ["talk"]}
            | {"examples": ["hi"]}
            | modes,
            {"id": "sum", "name": "Sum", "description": "Adds.", "tags": ["math"]} | modes,
        ],
    }


async def test_i5_the_url_keeps_the_path_of_the_base() -> None:
    """The original drops it."""
    settings = document("openclaw-inbound", public_url="http://localhost:9/claw/")
    assert (await card_of(settings))["url"] == "http://localhost:9/claw/a2a/jsonrpc"


async def test_i5_modes_of_a_skill_and_a_version_of_its_own_stay() -> None:
    skill = {"id": "see", "name": "See", "input_modes": ["image/png"]}
    card = await card_of(document("openclaw-inbound", version="2.1.0", skills=[skill]))
    assert card["version"] == "2.1.0"
    assert card["skills"][0]["inputModes"] == ["image/png"]
    assert card["skills"][0]["outputModes"] == MODES


async def test_i1_an_openclaw_is_served_at_two_paths() -> None:
    async with preset_world("openclaw-inbound") as world:

        async def get(path: str, method: str = "GET") -> Answer:
            return await world.http.send(Http(method=method, path=path))

        assert (await get(WELL_KNOWN)).status == 200
        assert (await get("/a2a/jsonrpc", "POST")).status == 401
        own = f"/api/a2a/v1/agents/{HANDLE}"
        for path in (own, f"{own}/agent-card.json", "/a2a/rest/tasks", f"{own}/v1/tasks"):
            assert (await get(path)).status == 404


async def test_i1_the_two_paths_may_be_chosen() -> None:
    settings = document("openclaw-inbound", agent_card_path="/x/card.json", jsonrpc_path="/x/rpc")
    card = await card_of(settings, "/x/card.json")
    assert card["url"] == "https://gw.example/x/rpc"
    endpoints = build(settings, base_url="https://gw.example").endpoints
    assert [(each.card_paths, each.jsonrpc_path, each.rest_path) for each in endpoints] == [
        (("/x/card.json",), "/x/rpc", None)
    ]


async def test_d16_the_card_of_the_design() -> None:
    card = await card_of(document("openclaw-design", skills=[{"id": "search", "name": "Search"}]))
    assert card["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "stateTransitionHistory": True,
    }
    assert card["defaultInputModes"] == card["defaultOutputModes"] == ["text"]
    assert card["version"] == "1.0.0"
    # D-14: the id is the name unless there is one for people.
    assert [(skill["id"], skill["name"]) for skill in card["skills"]] == [("search", "Search")]
    assert "authentication" not in card


async def test_d16_streaming_is_as_configured() -> None:
    card = await card_of(document("openclaw-design", streaming=False))
    assert card["capabilities"]["streaming"] is False


async def test_d16_modes_that_are_set_are_shown() -> None:
    card = await card_of(document("openclaw-design", input_modes=["text/markdown"]))
    assert card["defaultInputModes"] == ["text/markdown"]


async def test_d17_d18_the_card_announces_how_to_authenticate_the_new_way_and_the_old() -> None:
    async with preset_world("openclaw-design") as world:
        card = (await world.http.send(Http(method="GET", path=WELL_KNOWN))).json()
    assert set(card["securitySchemes"]) == {"bearer", "apiKey"}
    assert card["security"] == [{"bearer": []}, {"apiKey": []}]
    assert card["authentication"] == {"schemes": ["bearer", "apiKey"]}


@pytest.mark.parametrize("preset", ["standard", "hub"])
async def test_d18_other_cards_have_nothing_of_it(preset: str) -> None:
    card = await card_of(document(preset))
    assert "stateTransitionHistory" not in card["capabilities"]
    assert "authentication" not in card
    assert not PRESETS[preset].get("card_style", "").startswith("openclaw")
