"""The list of configured targets with their cards, and the choice among them by tag or skill."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.card import AgentCard, AgentSkill
from trunkline.model.timestamps import format_timestamp
from trunkline.remote.target import Target
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.failures import Code, ToolFailure

Json = dict[str, Any]
Spelling: TypeAlias = Callable[[str], str]


class RefreshedCard(Struct, frozen=True, kw_only=True):
    """The last card of a target, and why there is no newer one."""

    card: AgentCard | None = None
    at_ms: int = 0
    error: ToolFailure | None = None


def entry_summary(target: Target, seen: RefreshedCard) -> Json:
    card = seen.card
    entry: Json = {
        "target_alias": target.alias,
        "target_url": target.url,
        "default": target.default,
        "tags": list(target.tags),
        "examples": list(target.examples),
        "target_name": (card.name or None) if card else None,
        "description": target.description or (card.description if card else "") or None,
        "streaming_supported": card.capabilities.streaming if card else None,
        "peer_card": _card(card, _snake),
        "last_refresh_error": _error(seen.error),
    }
    return _named(entry)


def entry_raw(target: Target, seen: RefreshedCard) -> Json:
    card = seen.card
    shown: Json = {
        "baseUrl": target.url,
        "cardPath": target.card_path,
        "preferredTransports": list(target.transports),
        "alias": target.alias,
        "displayName": (card.name or None) if card else None,
        "description": target.description or (card.description if card else "") or None,
        "streamingSupported": card.capabilities.streaming if card else None,
    }
    entry: Json = {
        "target": _named(shown),
        "configuredDescription": target.description or None,
        "default": target.default,
        "tags": list(target.tags),
        "examples": list(target.examples),
        "card": _card(card),
        "lastRefreshError": _error(seen.error),
    }
    if card is not None:
        entry["card"] = {
            "displayName": card.name,
            "description": card.description,
            **entry["card"],
            "lastRefreshedAt": format_timestamp(seen.at_ms),
        }
    return _named(entry)


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _card(card: AgentCard | None, spell: Spelling = str) -> Json:
    """The lists of a peer that was never reached are empty."""
    if card is None:
        modes: Json = {"defaultInputModes": [], "defaultOutputModes": []}
        return _named(
            {"additionalInterfaces": [], "capabilities": {}, **modes, "skills": []}, spell
        )
    offered = card.capabilities
    interfaces = dict.fromkeys((one.protocol_binding, one.url) for one in card.supported_interfaces)
    capabilities = {
        "streaming": offered.streaming,
        "pushNotifications": offered.push_notifications,
        "stateTransitionHistory": offered.state_transition_history,
        "extendedAgentCard": offered.extended_agent_card,
        "extensions": [msgspec.to_builtins(one) for one in offered.extensions] or None,
    }
    shown: Json = {
        "preferredTransport": next((binding for binding, _ in interfaces), None),
        "additionalInterfaces": [{"transport": binding, "url": url} for binding, url in interfaces],
        "capabilities": _named(capabilities, spell),
        "defaultInputModes": list(card.default_input_modes),
        "defaultOutputModes": list(card.default_output_modes),
        "skills": [_skill(skill, spell) for skill in card.skills],
    }
    return _named(shown, spell)


def _skill(skill: AgentSkill, spell: Spelling) -> Json:
    shown: Json = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description or skill.name,
        "tags": list(skill.tags),
        "examples": list(skill.examples) or None,
        "inputModes": list(skill.input_modes) or None,
        "outputModes": list(skill.output_modes) or None,
    }
    return _named(shown, spell)


def _named(shown: Json, spell: Spelling = str) -> Json:
    """Without the fields that are None."""
    return {spell(key): value for key, value in shown.items() if value is not None}


def _error(why: ToolFailure | None) -> Json | None:
    return None if why is None else {"code": str(why.code), "message": why.message}


def tagged(config: ToolConfig, tags: Sequence[str]) -> tuple[Target, ...]:
    """The targets that have all the tags, the default before the others."""
    wanted = {tag.lower() for tag in tags}
    found = [one for one in config.targets if wanted <= {tag.lower() for tag in one.tags}]
    return tuple(sorted(found, key=lambda target: not target.default))


def choose(
    candidates: Sequence[Target],
    cards: Sequence[AgentCard | None],
    *,
    tags: Sequence[str],
    skill: str,
) -> tuple[Target, str]:
    """The first suitable candidate, and why; their `cards` matter for a skill only."""
    found = [
        target
        for target, card in zip(candidates, cards, strict=True)
        if not skill or (card is not None and has_skill(card, skill))
    ]
    wanted = " and ".join(
        [
            *([f"tags {', '.join(tags)}"] if tags else []),
            *([f'skill "{skill}"'] if skill else []),
        ]
    )
    if not found:
        pairs = zip(candidates, cards, strict=True)
        unread = [target.alias for target, card in pairs if skill and card is None]
        more = f"; the card of {', '.join(unread)} could not be read" if unread else ""
        raise ToolFailure(
            Code.TARGET_RESOLUTION,
            f"no configured target has {wanted}{more}",
            {
                "reason": "no_matching_target",
                "target_tags": list(tags),
                "skill": skill,
                **({"unread_cards": unread} if unread else {}),
                "suggested_action": "list_targets",
            },
        )
    chosen, others = found[0], [target.alias for target in found[1:]]
    reason = f'"{chosen.alias}" has {wanted}'
    if others:
        why = "it is the default" if chosen.default else "it is configured first"
        reason += f"; so have {', '.join(others)}, but {why}"
    return chosen, reason


def has_skill(card: AgentCard, wanted: str) -> bool:
    return any(wanted.lower() in (skill.id.lower(), skill.name.lower()) for skill in card.skills)
