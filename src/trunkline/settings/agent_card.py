"""Settings of an agent card: skills, provider, extensions, and the extended card."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.urls import is_absolute_uri, web_url_fault

DEFAULT_MODES = ("text/plain", "application/json")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(\s*;.*)?")


class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A skill on the agent card."""

    id: Annotated[str, doc("Unique within the agent.", min_length=1)]
    name: Annotated[str, doc("Display name. Empty: the id.")] = ""
    description: Annotated[str, doc("What the skill does. Empty: the name.")] = ""
    tags: Annotated[tuple[str, ...], doc("Keywords.")] = ()
    examples: Annotated[tuple[str, ...], doc("Example prompts.")] = ()
    input_modes: Annotated[
        tuple[str, ...], doc("Media types that it accepts. Empty: those of the agent.")
    ] = ()
    output_modes: Annotated[
        tuple[str, ...], doc("Media types that it produces. Empty: those of the agent.")
    ] = ()


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provider of the agent."""

    organization: Annotated[str, doc("Name of the organization.", min_length=1)]
    url: Annotated[str, doc("Web site, http or https.")]


class ExtensionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol extension that the agent declares."""

    uri: Annotated[str, doc("Absolute URI that identifies the extension.")]
    description: Annotated[str, doc("How the agent uses it.")] = ""
    required: Annotated[bool, doc("Refuse requests that do not declare the extension.")] = False
    params: Annotated[dict[str, Any] | None, doc("Parameters of the extension, in any form.")] = (
        None
    )


class ExtendedCardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Card for authenticated callers; empty keys keep the public value."""

    name: Annotated[str, doc("Replaces the public name.")] = ""
    description: Annotated[str, doc("Replaces the public description.")] = ""
    skills: Annotated[
        tuple[SkillSettings, ...],
        doc("Additional skills. A skill with the id of a public skill replaces it."),
    ] = ()
    extensions: Annotated[tuple[ExtensionSettings, ...], doc("Additional extensions.")] = ()
    documentation_url: Annotated[str, doc("Replaces the public URL.")] = ""


def skill_problems(skills: Iterable[SkillSettings], path: Path) -> Iterator[Problem]:
    taken: set[str] = set()
    for i, skill in enumerate(skills):
        if skill.id in taken:
            yield bad_value(
                (*path, i, "id"),
                "another skill of the agent has this id",
                "Give each skill an id of its own.",
            )
        taken.add(skill.id)
        yield from mode_problems(skill.input_modes, (*path, i, "input_modes"))
        yield from mode_problems(skill.output_modes, (*path, i, "output_modes"))


def extension_problems(
    extensions: Iterable[ExtensionSettings], path: Path, taken: set[str]
) -> Iterator[Problem]:
    for i, extension in enumerate(extensions):
        here = (*path, i, "uri")
        if not is_absolute_uri(extension.uri):
            yield bad_value(
                here,
                "expected an absolute URI",
                'Example: uri = "https://example.com/extensions/citations/v1".',
            )
        elif extension.uri in taken:
            yield bad_value(here, "the agent declares this extension twice", "Keep one of them.")
        taken.add(extension.uri)


def mode_problems(modes: Iterable[str], path: Path) -> Iterator[Problem]:
    for i, mode in enumerate(modes):
        if not MEDIA_TYPE.fullmatch(mode):
            yield bad_value(
                (*path, i),
                "expected a media type",
                'Examples: "text/plain", "application/json", "image/*".',
            )


def url_problems(url: str, path: Path, *, required: bool = False) -> Iterator[Problem]:
    fault = web_url_fault(url) if url or required else ""
    if fault:
        yield bad_value(path, fault, f'Example: {path[-1]} = "https://example.com/docs".')
