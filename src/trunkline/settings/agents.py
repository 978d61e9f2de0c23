"""`AgentSettings`: one published agent, its handle, and the addresses at which it is served."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta

from trunkline.backends.python.settings import PythonBackend
from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, shown
from trunkline.engine.agent_calls import CallPolicy, Channel, Delivery
from trunkline.hub.agent_limits import AgentLimits
from trunkline.model.handles import EVERY, HANDLE, folded
from trunkline.protocol.rest_routes import RESERVED_TENANTS
from trunkline.settings.agent_card import (
    ExtendedCardSettings,
    ExtensionSettings,
    ProviderSettings,
    SkillSettings,
    extension_problems,
    mode_problems,
    skill_problems,
    url_problems,
)
from trunkline.settings.backends import BackendSettings, kind_of
from trunkline.settings.openclaw.profile import ProfileSettings
from trunkline.settings.stores import StoreSettings

TENANT = re.compile(r"[A-Za-z0-9._~-]+")
# Clients remove these segments from a path (RFC 3986 §5.2.4), and a tenant is its first segment.
STEPS = frozenset((".", ".."))
ROOT_PATHS = {
    "agent_card_path": "/.well-known/agent-card.json",
    "jsonrpc_path": "/a2a/jsonrpc",
    "rest_path": "/a2a/rest",
}
PATH = re.compile(r"/|(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+/?")
# The gateway's own addresses; an agent there would hide them.
OWN_PATHS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/version",
    "/mcp",
    "/agent",
    "/.well-known/jwks.json",
)
OWN_PREFIXES = ("/api/", "/t/", "/console/", "/.well-known/ai-catalog.json")


class AgentSettings(ProfileSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published agent. Its table is named after the handle, `[agents."owner/slug"]`.

    The keys of its profile stand beside these, in the same table.
    """

    name: Annotated[
        str,
        doc(
            "Display name. Optional with a `python` or `a2a` backend: the name, "
            "description and skills of the agent itself fill the keys that are "
            "missing here."
        ),
    ] = ""
    description: Annotated[str, doc("Purpose of the agent.")] = ""
    version: Annotated[str, doc("Version of the agent.", min_length=1)] = "1.0.0"
    default: Annotated[
        bool,
        doc(
            "Also serve it at `/.well-known/agent-card.json`, `/a2a/jsonrpc` and "
            "`/a2a/rest`. The only agent of a file is the default."
        ),
    ] = False
    profile: Annotated[
        Literal["standard", "openclaw-inbound", "openclaw-design", "hub"],
        doc("Preset of the profile. Any key of the profile may be set beside it and overrides it."),
    ] = "standard"
    backend: Annotated[
        BackendSettings,
        doc('Backend that runs the agent, for example `{ kind = "echo" }`; see its kinds.'),
    ]
    skills: Annotated[tuple[SkillSettings, ...], doc("Skills on the card.")] = ()
    input_modes: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        doc(
            "Media types that the agent accepts. Absent: the types that a Python "
            "agent or the card of the upstream agent names, else text and JSON."
        ),
    ] = None
    output_modes: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        doc("Media types that the agent produces. Absent: as for `input_modes`."),
    ] = None
    provider: Annotated[ProviderSettings | None, doc("Provider of the agent, on the card.")] = None
    documentation_url: Annotated[str, doc("URL of the documentation, on the card.")] = ""
    icon_url: Annotated[str, doc("URL of an icon, on the card.")] = ""
    isolated: Annotated[
        bool,
        doc(
            "Whether the agent answers from its own context only: the tools that call other "
            "agents are off during its turns."
        ),
    ] = False
    may_call: Annotated[
        tuple[str, ...],
        doc(
            "Agents that it may call during its turns, as patterns of `owner/slug` or "
            "`owner/slug#skill`, and targets, as patterns of `target:alias`; `*` stands for all "
            "agents of the gateway and for no target. Empty: none."
        ),
    ] = ("*",)
    response_delivery: Annotated[
        Delivery,
        doc(
            "Where the answers to its calls go: into its `session`, to its `channel`, or to both "
            "(`dual`)."
        ),
    ] = "session"
    response_channel: Annotated[
        Channel,
        doc(
            "Channel of the agent: `a2a` adds the answer to the task of the turn that asked, as a "
            "later reply, and `log` writes it to the log. With `dual` nothing is sent on `a2a` "
            "unless `origin_routing_policy` is `legacy-origin-routing`."
        ),
    ] = "a2a"
    response_starts_turn: Annotated[
        bool, doc("Whether an answer to one of its calls also begins its next turn.")
    ] = False
    tenants: Annotated[tuple[str, ...], doc("Accepted tenants. Empty: any tenant.")] = ()
    extensions: Annotated[
        tuple[ExtensionSettings, ...], doc("Protocol extensions on the card.")
    ] = ()
    extended_card: Annotated[
        ExtendedCardSettings | None,
        doc("Additions to the card for authenticated callers. Absent: no extended card."),
    ] = None
    agent_card_path: Annotated[str, doc("Path of the card. Empty: the standard address.")] = ""
    jsonrpc_path: Annotated[
        str, doc("Path of the JSON-RPC binding. Empty: the standard address.")
    ] = ""
    rest_path: Annotated[
        str, doc("Root of the HTTP+JSON binding. Empty: the standard address.")
    ] = ""
    public_url: Annotated[
        str,
        doc(
            "Base URL on the card of this agent; overrides `server.public_url`. It may have a path."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, doc("Maximum size of a request body for this agent. 0: `server.max_body_bytes`.", ge=0)
    ] = 0
    v03_protocol_version: Annotated[
        str, doc("`protocolVersion` on the 0.3 card.", min_length=1)
    ] = "0.3.0"
    unavailable: Annotated[
        str,
        doc(
            "Reason why the agent is out of service: its addresses answer 503, and "
            "its backend is not started. Empty: in service."
        ),
    ] = ""
    agent_id: Annotated[str, doc("Name of the agent in its session keys. Empty: the slug.")] = ""
    account_id: Annotated[str, doc("Account that the backend is told. Empty: the handle.")] = ""
    limits: Annotated[
        AgentLimits | None,
        doc("Budgets, rates and claims of the agent, which the hub counts. Absent: none."),
    ] = None
    store: Annotated[
        StoreSettings | None,
        doc("Store of this agent, with the keys of `[store]`. Absent: `[store]`."),
    ] = None

    @property
    def call_policy(self) -> CallPolicy:
        return CallPolicy(
            may_call=self.may_call,
            delivery=self.response_delivery,
            channel=self.response_channel,
            starts_turn=self.response_starts_turn,
            is_isolated=self.isolated,
        )


def slug(name: str) -> str:
    """The name as the last part of a handle: `Rust expert!` is `rust-expert`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "agent"


def stands_for_many(handle: str) -> bool:
    return handle.endswith(f"/{EVERY}")


def handle_of(handle: str, name: str) -> str:
    return f"{handle.partition('/')[0]}/{slug(name)}"


def agent_problems(agents: Mapping[str, AgentSettings]) -> Iterator[Problem]:
    defaults = [handle for handle, agent in agents.items() if agent.default]
    for handle in defaults[1:]:
        yield bad_value(
            ("agents", handle, "default"),
            f'"{defaults[0]}" is the default agent already',
            "Keep default = true in one agent only.",
        )
    accounts: dict[str, str] = {}
    handles: dict[str, str] = {}
    for handle, agent in agents.items():
        path = ("agents", handle)
        if (same := handles.setdefault(folded(handle), handle)) != handle:
            yield Problem(
                path,
                f'is the handle of "{same}" but for upper and lower case',
                "Give one of them another owner or slug.",
            )
        yield from _identity(handle, agent, path)
        account = agent.account_id or handle
        if account in accounts:
            yield Problem(
                (*path, "account_id"),
                f'"{accounts[account]}" has this account already',
                "Give each agent an account of its own, or leave account_id out.",
                value=shown(account),
            )
        accounts.setdefault(account, handle)
        yield from _runs_on(handle, agent, path)
        yield from _card(agent, path)
        yield from _tenants(agent, path)


def _identity(handle: str, agent: AgentSettings, path: Path) -> Iterator[Problem]:
    if not HANDLE.fullmatch(handle):
        yield Problem(
            path,
            "expected a handle owner/slug of letters, digits and hyphens, the slug in lower case",
            'Example: [agents."acme/rust-expert"].',
        )
    if not agent.name.strip() and not kind_of(agent.backend).has_own_name:
        yield Problem((*path, "name"), "missing", 'Example: name = "Echo".')


def _runs_on(handle: str, agent: AgentSettings, path: Path) -> Iterator[Problem]:
    many = stands_for_many(handle)
    own = (agent.name, agent.account_id, agent.agent_card_path, agent.jsonrpc_path, agent.rest_path)
    if many and any(own):
        yield Problem(
            path,
            "stands for several agents, so it cannot have a name, an account or paths",
            'Name one agent: a handle such as "acme/rust" and target = "file.py:rust".',
        )
    if many and not isinstance(agent.backend, PythonBackend):
        yield Problem(
            path,
            "only a python backend can stand for several agents",
            'Give the agent a slug of its own, for example "acme/echo".',
        )
    yield from kind_of(agent.backend).rules(agent.backend, (*path, "backend"))


def _card(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    yield from skill_problems(agent.skills, (*path, "skills"))
    yield from extension_problems(agent.extensions, (*path, "extensions"), set())
    yield from url_problems(agent.documentation_url, (*path, "documentation_url"))
    yield from url_problems(agent.icon_url, (*path, "icon_url"))
    if agent.provider is not None:
        yield from url_problems(agent.provider.url, (*path, "provider", "url"), required=True)
    named = {"input_modes": agent.input_modes or (), "output_modes": agent.output_modes or ()}
    for key, modes in named.items():
        yield from mode_problems(modes, (*path, key))
    card = agent.extended_card
    if card is not None:
        here = (*path, "extended_card")
        yield from skill_problems(card.skills, (*here, "skills"))
        uris = {extension.uri for extension in agent.extensions}
        yield from extension_problems(card.extensions, (*here, "extensions"), uris)
        yield from url_problems(card.documentation_url, (*here, "documentation_url"))


def _tenants(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    for i, tenant in enumerate(agent.tenants):
        here = (*path, "tenants", i)
        if tenant in RESERVED_TENANTS | STEPS:
            yield bad_value(
                here,
                "is the name of a route, so it cannot be a tenant",
                f'Rename it, for example to "{tenant.strip(".").replace(":", "-")}-1".',
            )
        elif not TENANT.fullmatch(tenant):
            yield bad_value(
                here, "cannot be a step of a path", "Use letters, digits and . _ ~ - only."
            )
        elif tenant in agent.tenants[:i]:
            yield bad_value(here, "is listed twice", "Keep one of them.")


def address_problems(agents: Mapping[str, AgentSettings], *, default: str) -> Iterator[Problem]:
    taken: dict[str, tuple[str, str]] = {}
    # The default agent goes first, so that another agent has to move from its standard address.
    for handle in sorted(agents, key=lambda handle: handle != default):
        agent = agents[handle]
        for key, standard in ROOT_PATHS.items():
            if key == "rest_path" and agent.addresses == "exact":
                continue
            path = getattr(agent, key) or (standard if handle == default else "")
            if not path:
                continue
            fault, remedy = _path_fault(path)
            bare = path.rstrip("/") or "/"
            owner = taken.setdefault(bare, (handle, key))
            if not fault and owner != (handle, key):
                fault = f'is {owner[1]} of "{owner[0]}" already'
                remedy = f'Choose another, for example {key} = "/{handle}{standard}".'
            if fault:
                yield Problem(("agents", handle, key), fault, remedy, value=shown(path))


def _path_fault(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        return "expected a path that starts with /", f'Write "/{path}".'
    if not PATH.fullmatch(path) or "." in path.split("/") or ".." in path.split("/"):
        return "expected a plain path", 'Example: "/agents/rust/rpc".'
    bare = path.rstrip("/") or "/"
    if bare in OWN_PATHS or bare.startswith(OWN_PREFIXES) or f"{bare}/" in OWN_PREFIXES:
        return "is an address of the gateway itself", f'Choose another, for example "/x{path}".'
    return "", ""
