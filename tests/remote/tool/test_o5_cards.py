"""O-5: the cards of peers, and the list of targets."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.remote.tool.world import (
    BILLING,
    HELLO,
    SUPPORT,
    World,
    card,
    document,
    message,
    skill,
    supported,
    target,
)

from trunkline.model.card import AgentCapabilities, AgentExtension, AgentInterface
from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.tool.config import parse_config
from trunkline.testing import settle

DOWN = PeerUnreachable("no connection to billing.example")


def two() -> World:
    return World(document(target(default=True), target("billing", BILLING)))


async def listed(world: World) -> list[dict[str, Any]]:
    result = await world(action="list_targets")
    assert result["ok"], result
    assert len(result["raw"]) == len(result["summary"]["targets"])
    found: list[dict[str, Any]] = result["summary"]["targets"]
    return found


async def test_o5_targets_are_hydrated_in_parallel() -> None:
    world, gate = two(), asyncio.Event()
    for url in (SUPPORT, BILLING):
        world.peers.says(url, "card", gate, card(url=url))
    work = asyncio.gather(listed(world))
    await settle()
    assert [asked.target.alias for asked in world.peers.asked] == ["support", "billing"]
    gate.set()
    assert [one["target_alias"] for one in (await work)[0]] == ["support", "billing"]


async def test_o5_who_asks_at_the_same_time_shares_the_request() -> None:
    world, gate = World(), asyncio.Event()
    world.peers.says(SUPPORT, "card", gate, card())
    work = asyncio.gather(listed(world), listed(world))
    await settle()
    gate.set()
    first, second = await work
    assert first == second
    assert world.peers.requests() == ["card"]


async def test_o5_who_joined_a_request_that_is_called_off_asks_again() -> None:
    world, gate, signal = World(), asyncio.Event(), asyncio.Event()
    world.peers.says(SUPPORT, "card", gate, card())
    first = asyncio.gather(world(action="list_targets", signal=signal))
    await settle()
    second = asyncio.gather(listed(world))
    await settle()
    signal.set()
    assert (await first)[0]["error"]["details"]["aborted"] is True
    await settle()
    gate.set()
    assert (await second)[0][0]["target_name"] == "Support Agent"
    assert world.peers.requests() == ["card", "card"]


async def test_o5_every_list_refreshes_the_cards() -> None:
    world = World()
    world.peers.says(SUPPORT, "card", card("Old"), card("New"))
    assert (await listed(world))[0]["target_name"] == "Old"
    assert (await listed(world))[0]["target_name"] == "New"
    assert [asked.value for asked in world.peers.asked] == [True, True]  # fresh


async def test_o5_an_unreachable_peer_is_listed_with_the_reason() -> None:
    world = two()
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(BILLING, "card", DOWN)
    support, billing = await listed(world)
    assert "last_refresh_error" not in support
    assert billing == {
        "target_alias": "billing",
        "target_url": BILLING,
        "default": False,
        "tags": [],
        "examples": [],
        "peer_card": {
            "additional_interfaces": [],
            "capabilities": {},
            "default_input_modes": [],
            "default_output_modes": [],
            "skills": [],
        },
        "last_refresh_error": {
            "code": "A2A_SDK_ERROR",
            "message": "no connection to billing.example",
        },
    }


async def test_o5_a_failed_refresh_keeps_the_last_card() -> None:
    world = World()
    world.peers.says(SUPPORT, "card", card(), DOWN, card())
    (before,), (failed,), (after,) = [await listed(world) for _ in range(3)]
    assert failed["peer_card"] == before["peer_card"] != {}
    assert failed["last_refresh_error"]["code"] == "A2A_SDK_ERROR"
    assert after == before


async def test_o5_a_silent_peer_does_not_keep_the_list_for_long() -> None:
    world = two()
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(BILLING, "card", asyncio.Event())
    work = asyncio.gather(listed(world))
    await world.clock.wait_until_sleeping(2)
    await world.clock.advance(15)
    support, billing = (await work)[0]
    assert support["target_name"] == "Support Agent"
    assert billing["last_refresh_error"]["message"] == "request timed out"


async def test_o5_the_snapshot_of_a_card() -> None:
    base = card(skills=(skill("triage", "Incident Triage", input_modes=("application/json",)),))
    jsonrpc = base.supported_interfaces[0]
    rest = AgentInterface(
        url=f"{SUPPORT}rest", protocol_binding="HTTP+JSON", protocol_version="1.0"
    )
    older = replace(jsonrpc, protocol_version="0.3")
    world = World()
    world.peers.says(
        SUPPORT,
        "card",
        replace(
            base,
            supported_interfaces=(jsonrpc, rest, older),
            capabilities=AgentCapabilities(
                streaming=True,
                push_notifications=False,
                extensions=(
                    AgentExtension(uri="urn:x"),
                    AgentExtension(uri="urn:y", description="Y", required=True, params={"a": [1]}),
                ),
            ),
        ),
    )
    (entry,) = await listed(world)
    assert entry["description"] == "Answers questions."
    assert entry["peer_card"] == {
        "preferred_transport": "JSONRPC",
        "additional_interfaces": [
            {"transport": "JSONRPC", "url": f"{SUPPORT}a2a/jsonrpc"},
            {"transport": "HTTP+JSON", "url": f"{SUPPORT}rest"},
        ],
        "capabilities": {
            "streaming": True,
            "push_notifications": False,
            "extensions": [
                {"uri": "urn:x"},
                {"uri": "urn:y", "description": "Y", "required": True, "params": {"a": [1]}},
            ],
        },
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain"],
        "skills": [
            {
                "id": "triage",
                "name": "Incident Triage",
                "description": "Incident Triage",  # it has none of its own
                "tags": [],
                "input_modes": ["application/json"],
            }
        ],
    }


@pytest.mark.parametrize("streaming", [True, False, None])
async def test_o5_an_entry_says_whether_its_agent_streams(streaming: bool | None) -> None:
    world = World()
    world.peers.says(SUPPORT, "card", card(streaming=streaming))
    (entry,) = await listed(world)
    assert entry.get("streaming_supported") is streaming


async def test_o5_what_a_target_says_twice_is_listed_once() -> None:
    named = target(tags=["b", "a", " b "], examples=["x", "x", "y"])
    policy = {"acceptedOutputModes": ["text/plain", "image/png", "text/plain"]}
    world = World(document(named, policy=policy))
    world.peers.says(SUPPORT, "card", card())
    (entry,) = await listed(world)
    assert (entry["tags"], entry["examples"]) == (["b", "a"], ["x", "y"])
    assert parse_config(document(named, policy=policy)).policy.accepted_output_modes == (
        "text/plain",
        "image/png",
    )


async def test_o5_a_configured_description_wins() -> None:
    world = World(document(target(description="Primary support lane")))
    world.peers.says(SUPPORT, "card", card())
    assert (await listed(world))[0]["description"] == "Primary support lane"


async def test_o5_no_targets_are_an_empty_list() -> None:
    world = World({"enabled": True})
    assert await listed(world) == []


async def test_o5_a_send_uses_the_card_that_is_known() -> None:
    world = supported(send=message("hi"))
    await world(action="send", parts=HELLO)
    asked = world.peers.asked[0]
    assert (asked.method, asked.value) == ("card", False)


async def test_o5_the_transports_of_the_target_reach_the_client() -> None:
    world = World(document(target(default=True, preferredTransports=["HTTP+JSON"])))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", message("hi"))
    await world(action="send", parts=HELLO)
    assert {one.target.transports for one in world.peers.asked} == {("HTTP+JSON",)}
