"""What an agent says of itself, where the settings say nothing."""

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.card import AgentCard, AgentExtension, AgentProvider, AgentSkill


class Own(Protocol):
    """The Python agent of a `python` backend is one, and `Described` is another."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def skills(self) -> tuple[AgentSkill, ...]: ...

    @property
    def input_modes(self) -> tuple[str, ...]: ...

    @property
    def output_modes(self) -> tuple[str, ...]: ...

    @property
    def extensions(self) -> tuple[AgentExtension, ...]: ...

    @property
    def documentation_url(self) -> str: ...


class Described(Struct, frozen=True, kw_only=True):
    """What the card of another agent says that holds for ours as well."""

    name: str
    description: str
    version: str
    skills: tuple[AgentSkill, ...]
    input_modes: tuple[str, ...]
    output_modes: tuple[str, ...]
    extensions: tuple[AgentExtension, ...]
    documentation_url: str
    provider: AgentProvider | None
    icon_url: str | None


def described_by(card: AgentCard) -> Described:
    """Its addresses, its security and its signatures are its own affair."""
    return Described(
        name=card.name,
        description=card.description,
        version=card.version,
        skills=tuple(replace(skill, security_requirements=()) for skill in card.skills),
        input_modes=card.default_input_modes,
        output_modes=card.default_output_modes,
        extensions=card.capabilities.extensions,
        documentation_url=card.documentation_url or "",
        provider=card.provider,
        icon_url=card.icon_url,
    )
