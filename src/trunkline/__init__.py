"""Trunkline: a durable gateway for the Agent2Agent protocol.

What you need to write an agent is here; `docs/guides/agents.md` teaches it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.backends.python import Agent, Turn, TurnEnd, agent
    from trunkline.model.card import AgentSkill as Skill
    from trunkline.model.values import Artifact, Message, Part, Role, text_of

__all__ = [
    "Agent",
    "Artifact",
    "Message",
    "Part",
    "Role",
    "Skill",
    "Turn",
    "TurnEnd",
    "agent",
    "text_of",
]

_HOMES = {
    "Agent": ("trunkline.backends.python", "Agent"),
    "Artifact": ("trunkline.model.values", "Artifact"),
    "Message": ("trunkline.model.values", "Message"),
    "Part": ("trunkline.model.values", "Part"),
    "Role": ("trunkline.model.values", "Role"),
    "Skill": ("trunkline.model.card", "AgentSkill"),
    "Turn": ("trunkline.backends.python", "Turn"),
    "TurnEnd": ("trunkline.backends.python", "TurnEnd"),
    "agent": ("trunkline.backends.python", "agent"),
    "text_of": ("trunkline.model.values", "text_of"),
}


def __getattr__(name: str) -> object:
    # Every import of any of our modules runs this file, so it imports nothing itself.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
