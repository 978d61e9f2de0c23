"""`AgentRow`: an agent of the registry as its record holds it, and the rules about it.

Everything here is pure. `hub/registry.py` keeps the rows.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from trunkline.config.secret import Secret
from trunkline.engine.access import reaches
from trunkline.hub.agent_limits import AgentLimits, LimitsBody
from trunkline.model.errors import FieldViolation, InvalidParams
from trunkline.model.handles import OWNER, SLUG, folded
from trunkline.model.principal import Principal, manages
from trunkline.ports.records import Key, Put, Record

KIND: Final = "agent.1"
MAX_NAME_CHARS: Final = 80
MAX_TAGLINE_CHARS: Final = 160
MAX_DESCRIPTION_BYTES: Final = 4096
MAX_HANDLE_PART: Final = 64

Status: TypeAlias = Literal["draft", "published", "deleted"]
Visibility: TypeAlias = Literal["public", "unlisted", "private"]
Preset: TypeAlias = Literal["standard", "openclaw-inbound", "openclaw-design", "hub"]


class Skill(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A skill on the card of an agent."""

    id: Annotated[str, Meta(min_length=1, max_length=80)]
    name: Annotated[str, Meta(max_length=80)] = ""
    description: Annotated[str, Meta(max_length=1024)] = ""
    tags: Annotated[tuple[Annotated[str, Meta(max_length=80)], ...], Meta(max_length=32)] = ()
    examples: Annotated[tuple[Annotated[str, Meta(max_length=1024)], ...], Meta(max_length=32)] = ()
    input_modes: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    output_modes: Annotated[tuple[str, ...], Meta(max_length=32)] = ()


Skills: TypeAlias = Annotated[tuple[Skill, ...], Meta(max_length=64)]


class AgentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    owner: str
    slug: str
    name: str
    status: Status
    tagline: str = ""
    description: str = ""
    visibility: Visibility = "public"
    skills: tuple[Skill, ...] = ()
    limits: AgentLimits = AgentLimits()
    # Whether it answers from its own context alone, without tools that reach other sessions.
    isolated: bool = True
    profile: Preset = "standard"
    # JSON of the tables `backend` and `settings`, as they were given. It may hold credentials.
    tables: Secret
    # The same tables with their secrets masked, and the kind of the backend.
    shown_backend: dict[str, Any]
    shown_settings: dict[str, Any] = {}
    kind: str
    created_ms: int
    updated_ms: int
    # The id of the principal that changed it last.
    updated_by: str
    # Of the record; 0 for a row that is not stored.
    version: int = 0

    @property
    def handle(self) -> str:
        return f"{self.owner}/{self.slug}"

    @property
    def key(self) -> str:
        return folded(self.handle)

    @property
    def is_published(self) -> bool:
        return self.status == "published"


def record_key(key: str) -> Key:
    """The key of the record of an agent, by the `key` of its row."""
    owner, _, slug = key.partition("/")
    return Key(KIND, owner, slug)


def put(row: AgentRow, *, expected: int) -> Put:
    """The change that stores a row in place of the version `expected`."""
    body = msgspec.json.encode(replace(row, version=0), enc_hook=_unseal)
    return Put(key=record_key(row.key), body=body, expected=expected)


def row_of(record: Record) -> AgentRow:
    row = _decode(record.body)
    return replace(row, version=record.version)


def _unseal(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError


def _seal(kind: type, value: object) -> Secret:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError


_decode: Final = msgspec.json.Decoder(AgentRow, dec_hook=_seal).decode


def is_same_agent(one: AgentRow, other: AgentRow) -> bool:
    """Whether both rows are published in the same form. The rest of a row is asked at each
    request, such as who may see the agent."""
    return _basis(one) == _basis(other)


def _basis(row: AgentRow) -> object:
    return (
        row.handle,
        row.name,
        row.description or row.tagline,
        row.skills,
        row.profile,
        row.limits.profile_keys(),
        row.tables,
    )


class AgentValues(Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of an agent that a request may set. Those that are absent keep their value."""

    name: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] | UnsetType = UNSET
    tagline: Annotated[str, Meta(max_length=MAX_TAGLINE_CHARS)] | UnsetType = UNSET
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION_BYTES)] | UnsetType = UNSET
    status: Literal["draft", "published"] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    skills: Skills | UnsetType = UNSET
    limits: LimitsBody | UnsetType = UNSET
    # The same as in `limits`.
    daily_budget_queries: int | UnsetType = UNSET
    concurrency_cap: int | UnsetType = UNSET
    isolated: bool | UnsetType = UNSET
    # The preset of its profile.
    profile: Preset | UnsetType = UNSET
    # The table of the backend, such as `{"kind": "echo"}`, with the keys of the configuration.
    backend: dict[str, Any] | UnsetType = UNSET
    # Further keys of an agent's table in the configuration.
    settings: dict[str, Any] | UnsetType = UNSET


_PLAIN_VALUES: Final = (
    "name",
    "tagline",
    "description",
    "status",
    "visibility",
    "skills",
    "isolated",
    "profile",
)


def changed_row(row: AgentRow, values: AgentValues) -> AgentRow:
    """The row with the values that are given, except for its tables. Raises InvalidParams."""
    given = {name: value for name in _PLAIN_VALUES if (value := getattr(values, name)) is not UNSET}
    made = replace(row, **given, limits=_changed_limits(row.limits, values))
    faults = list(_faults(made))
    if faults:
        raise InvalidParams(
            "; ".join(f"{each.field}: {each.description}" for each in faults),
            violations=tuple(faults),
        )
    return made


def _changed_limits(limits: AgentLimits, values: AgentValues) -> AgentLimits:
    if values.limits is not UNSET:
        limits = values.limits.applied_to(limits)
    short = LimitsBody(
        daily_budget_queries=values.daily_budget_queries, concurrency_cap=values.concurrency_cap
    )
    return short.applied_to(limits)


def _faults(row: AgentRow) -> Iterator[FieldViolation]:
    if not row.name.strip():
        yield FieldViolation("name", "is empty; give the agent a name")
    for field, text in (("name", row.name), ("tagline", row.tagline)):
        if not text.isprintable():
            yield FieldViolation(field, "has control characters or line breaks; remove them")
    if len(row.description.encode()) > MAX_DESCRIPTION_BYTES:
        yield FieldViolation(
            "description", f"is longer than {MAX_DESCRIPTION_BYTES} bytes of UTF-8"
        )
    if not row.description.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        yield FieldViolation("description", "has control characters; remove them")
    ids = [skill.id for skill in row.skills]
    for index, skill_id in enumerate(ids):
        if skill_id in ids[:index]:
            yield FieldViolation(f"skills[{index}].id", "another skill of the agent has this id")


def check_handle(owner: str, slug: str) -> None:
    """Raises InvalidParams for a handle that no agent can have."""
    for field, text, pattern, letters in (
        ("owner", owner, OWNER, "letters"),
        ("slug", slug, SLUG, "lower-case letters"),
    ):
        if not pattern.fullmatch(text) or len(text) > MAX_HANDLE_PART:
            raise InvalidParams.at(
                field,
                f"must be 1 to {MAX_HANDLE_PART} ASCII {letters}, digits and hyphens, and not "
                "begin with a hyphen",
            )


def may_know(row: AgentRow, principal: Principal | None) -> bool:
    """Whether the caller may learn that the agent exists."""
    if principal is not None and manages(principal, row.owner):
        return True
    if not row.is_published:
        return False
    return row.visibility != "private" or has_grant(row, principal)


def is_listed(row: AgentRow, principal: Principal | None) -> bool:
    """Whether lists show the agent to the caller, who may know it."""
    if principal is not None and manages(principal, row.owner):
        return True
    return row.visibility == "public" or has_grant(row, principal)


def has_grant(row: AgentRow, principal: Principal | None) -> bool:
    return principal is not None and reaches(principal, row.handle, is_open=False)


def restricts(before: AgentRow | None, after: AgentRow) -> bool:
    """Whether a change may take something away from callers, so that it must hold at every node
    when the call returns."""
    return before is not None and before.is_published and before != after


def fits(row: AgentRow, words: str) -> bool:
    """Whether all words of a search occur in the agent."""
    text = f"{row.handle} {row.name} {row.tagline} {row.description}".casefold()
    skills = " ".join(f"{s.id} {s.name} {' '.join(s.tags)}" for s in row.skills).casefold()
    return all(word in text or word in skills for word in words.casefold().split())


_ISOLATED_NOTE: Final = (
    "this agent answers from its own context only; cross-session routing tools (route_to_peer / "
    "probe_peers / list_peers) are disabled while it's working on your request"
)
_COMPOSABLE_NOTE: Final = (
    "this agent may call other agents while it's working on your request; it does so with your "
    "rights, never with those of its owner"
)


def isolation_note(row: AgentRow) -> str:
    return _ISOLATED_NOTE if row.isolated else _COMPOSABLE_NOTE
