"""Item 4: choosing a target by tags or skill."""

from typing import Any

from tests.remote.tool.world import (
    BILLING,
    HELLO,
    SUPPORT,
    World,
    card,
    document,
    errors_of,
    message,
    skill,
    target,
)

from trunkline.remote.errors import PeerUnreachable


def market(*, default: str = "") -> World:
    targets = [
        target("support", SUPPORT, tags=["people", "fast"], default=default == "support"),
        target("billing", BILLING, tags=["people", "money"], default=default == "billing"),
    ]
    world = World(document(*targets))
    world.peers.says(SUPPORT, "card", card(skills=(skill("triage", "Incident Triage"),)))
    world.peers.says(BILLING, "card", card("Billing", url=BILLING, skills=(skill("refund"),)))
    for url in (SUPPORT, BILLING):
        world.peers.says(url, "send", message("hi"))
    return world


async def chosen(world: World, **how: Any) -> tuple[str, str]:
    result = await world(action="send", parts=HELLO, **how)
    assert result["ok"], result
    return result["summary"]["target_alias"], result["summary"]["target_reason"]


async def test_choice_by_tags() -> None:
    world = market()
    assert await chosen(world, target_tags=["Money"]) == ("billing", '"billing" has tags Money')
    assert world.peers.requests() == ["card", "send"]


async def test_choice_needs_all_tags() -> None:
    assert (await chosen(market(), target_tags=["people", "money"]))[0] == "billing"


async def test_choice_by_skill_reads_the_cards() -> None:
    assert await chosen(market(), skill="refund") == ("billing", '"billing" has skill "refund"')
    assert (await chosen(market(), skill="incident triage"))[0] == "support"


async def test_choice_by_tags_and_skill() -> None:
    alias, reason = await chosen(market(), target_tags=["people"], skill="refund")
    assert (alias, reason) == ("billing", '"billing" has tags people and skill "refund"')


async def test_choice_among_several_is_the_first_or_the_default() -> None:
    assert await chosen(market(), target_tags=["people"]) == (
        "support",
        '"support" has tags people; so have billing, but it is configured first',
    )
    assert await chosen(market(default="billing"), target_tags=["people"]) == (
        "billing",
        '"billing" has tags people; so have support, but it is the default',
    )


async def test_choice_beats_a_default_that_does_not_match() -> None:
    assert (await chosen(market(default="support"), target_tags=["money"]))[0] == "billing"


async def test_choice_without_a_match_is_an_error() -> None:
    world = market()
    result = await world(action="send", parts=HELLO, target_tags=["people"], skill="fly")
    assert result["error"] == {
        "code": "TARGET_RESOLUTION_ERROR",
        "message": 'no configured target has tags people and skill "fly"',
        "details": {
            "reason": "no_matching_target",
            "target_tags": ["people"],
            "skill": "fly",
            "suggested_action": "list_targets",
        },
    }
    assert "send" not in world.peers.requests()


async def test_choice_passes_over_a_peer_that_is_down() -> None:
    world = World(document(target(), target("billing", BILLING)))
    world.peers.says(SUPPORT, "card", PeerUnreachable("down"))
    world.peers.says(BILLING, "card", card(url=BILLING, skills=(skill("triage"),)))
    world.peers.says(BILLING, "send", message("hi"))
    assert (await chosen(world, skill="triage"))[0] == "billing"


async def test_choice_is_not_for_who_names_a_target() -> None:
    world = market()
    result = await world(
        action="send", parts=HELLO, target_alias="support", target_tags=["x"], skill="y"
    )
    assert errors_of(result) == [
        ("not", f"/{name}", f'send does not allow "{name}" when a target is named')
        for name in ("target_tags", "skill")
    ]


async def test_choice_says_whose_card_could_not_be_read() -> None:
    world = World(document(target(), target("billing", BILLING)))
    world.peers.says(SUPPORT, "card", PeerUnreachable("down"))
    world.peers.says(BILLING, "card", card(url=BILLING))
    result = await world(action="send", parts=HELLO, skill="fly")
    assert result["error"]["message"] == (
        'no configured target has skill "fly"; the card of support could not be read'
    )
    assert result["error"]["details"]["unread_cards"] == ["support"]
