"""Skills of a card, from as little as a word."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from trunkline.model.card import AgentSkill

SkillLike: TypeAlias = str | Mapping[str, Any] | AgentSkill


def skills_of(
    skills: Iterable[SkillLike], *, of: str, slug: str, description: str
) -> tuple[AgentSkill, ...]:
    """A card needs at least one skill: an agent that names none has itself as one."""
    if isinstance(skills, str):
        raise TypeError(f"skills is a list: write skills=[{skills!r}]")
    given = tuple(_skill(skill, agent=of, description=description) for skill in skills)
    return given or (AgentSkill(id=slug, name=of, description=description, tags=(slug,)),)


def _skill(skill: SkillLike, *, agent: str, description: str) -> AgentSkill:
    if isinstance(skill, AgentSkill):
        return skill
    if isinstance(skill, str):
        skill = {"id": skill}
    if not isinstance(skill, Mapping):
        raise TypeError(f"a skill is a word, a dict or a Skill, not {type(skill).__name__}")
    if not (identity := skill.get("id") or _slug(str(skill.get("name", "")))):
        raise ValueError("a skill needs an id or a name")
    fields = {_camel(key): value for key, value in skill.items()}
    fields["id"] = identity
    fields.setdefault("name", identity.replace("-", " ").replace("_", " ").capitalize())
    fields.setdefault("description", description if fields["name"] == agent else fields["name"])
    # A2A: tags is required, and a required array holds at least one element.
    fields.setdefault("tags", [identity])
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise ValueError(f"skill {identity!r} has unknown fields: {', '.join(sorted(unknown))}")
    return msgspec.convert(fields, AgentSkill)


_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(AgentSkill))


def _slug(name: str) -> str:
    return "-".join(name.lower().split())


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
