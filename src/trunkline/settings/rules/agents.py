"""Rules of each agent."""

import re
from collections.abc import Iterable, Iterator

from trunkline.config.problems import Path, Problem, shown
from trunkline.config.urls import is_absolute_uri, web_url_fault
from trunkline.protocol.rest_routes import RESERVED_TENANTS
from trunkline.settings.agents import (
    AgentSettings,
    ExtensionSettings,
    SkillSettings,
)
from trunkline.settings.backends import PythonBackend, kind_of
from trunkline.settings.root import Settings
from trunkline.settings.target import EVERY

HANDLE = re.compile(r"[a-z0-9][a-z0-9-]*/([a-z0-9][a-z0-9-]*|\*)")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+*-]+/[A-Za-z0-9!#$&^_.+*-]+(\s*;.*)?")
TENANT = re.compile(r"[A-Za-z0-9._~-]+")
# Clients take these out of a path, in which a tenant is the first step.
STEPS = frozenset((".", ".."))


def agent_problems(settings: Settings) -> Iterator[Problem]:
    if not settings.agents and not settings.calls_others():
        yield Problem(
            path=("agents",),
            what="no agent is configured",
            remedy='Add one:\n    [agents."demo/echo"]\n    name = "Echo"\n'
            '    backend = { kind = "echo" }\n'
            "or, to call agents elsewhere:\n    [targets.support]\n"
            '    base_url = "https://support.example.com"',
            reads=(("agents",), ("targets",), ("remote",)),
        )
    defaults = [handle for handle, agent in settings.agents.items() if agent.default]
    for handle in defaults[1:]:
        yield Problem(
            path=("agents", handle, "default"),
            value="true",
            what=f'"{defaults[0]}" is the default agent already',
            remedy="Keep default = true in one agent only.",
        )
    accounts: dict[str, str] = {}
    for handle, agent in settings.agents.items():
        path = ("agents", handle)
        yield from _identity(handle, agent, path)
        account = agent.account_id or handle
        if account in accounts:
            yield Problem(
                path=(*path, "account_id"),
                value=shown(account),
                what=f'"{accounts[account]}" has this account already',
                remedy="Give each agent an account of its own, or leave account_id out.",
            )
        accounts.setdefault(account, handle)
        yield from _runs_on(handle, agent, path)
        yield from _card(agent, path)
        yield from _tenants(agent, path)


def _identity(handle: str, agent: AgentSettings, path: Path) -> Iterator[Problem]:
    if not HANDLE.fullmatch(handle):
        yield Problem(
            path=path,
            what="expected a handle owner/slug of lower-case letters, digits and hyphens",
            remedy='Example: [agents."acme/rust-expert"].',
        )
    if not agent.name.strip() and not kind_of(agent.backend).has_own_name:
        yield Problem(path=(*path, "name"), what="missing", remedy='Example: name = "Echo".')


def _runs_on(handle: str, agent: AgentSettings, path: Path) -> Iterator[Problem]:
    many = handle.endswith(f"/{EVERY}")
    own = (agent.name, agent.account_id, agent.agent_card_path, agent.jsonrpc_path, agent.rest_path)
    if many and any(own):
        yield Problem(
            path=path,
            what="stands for several agents, so it cannot have a name, an account or paths",
            remedy='Name one agent: a handle such as "acme/rust" and target = "file.py:rust".',
        )
    if many and not isinstance(agent.backend, PythonBackend):
        yield Problem(
            path=path,
            what="only a python backend can stand for several agents",
            remedy='Give the agent a slug of its own, for example "acme/echo".',
        )
    yield from kind_of(agent.backend).rules(agent.backend, (*path, "backend"))


def _card(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    yield from _skills(agent.skills, (*path, "skills"), set())
    yield from _extensions(agent.extensions, (*path, "extensions"), set())
    yield from _url(agent.documentation_url, (*path, "documentation_url"))
    yield from _url(agent.icon_url, (*path, "icon_url"))
    if agent.provider is not None:
        yield from _url(agent.provider.url, (*path, "provider", "url"), required=True)
    named = {"input_modes": agent.input_modes or (), "output_modes": agent.output_modes or ()}
    for key, modes in named.items():
        yield from _modes(modes, (*path, key))
    card = agent.extended_card
    if card is not None:
        here = (*path, "extended_card")
        yield from _skills(card.skills, (*here, "skills"), set())
        uris = {extension.uri for extension in agent.extensions}
        yield from _extensions(card.extensions, (*here, "extensions"), uris)
        yield from _url(card.documentation_url, (*here, "documentation_url"))


def _skills(skills: Iterable[SkillSettings], path: Path, taken: set[str]) -> Iterator[Problem]:
    for i, skill in enumerate(skills):
        if skill.id in taken:
            yield Problem(
                path=(*path, i, "id"),
                value=shown(skill.id),
                what="another skill of the agent has this id",
                remedy="Give each skill an id of its own.",
            )
        taken.add(skill.id)
        yield from _modes(skill.input_modes, (*path, i, "input_modes"))
        yield from _modes(skill.output_modes, (*path, i, "output_modes"))


def _extensions(
    extensions: Iterable[ExtensionSettings], path: Path, taken: set[str]
) -> Iterator[Problem]:
    for i, extension in enumerate(extensions):
        here = (*path, i, "uri")
        if not is_absolute_uri(extension.uri):
            yield Problem(
                path=here,
                value=shown(extension.uri),
                what="expected an absolute URI",
                remedy='Example: uri = "https://example.com/extensions/citations/v1".',
            )
        elif extension.uri in taken:
            yield Problem(
                path=here,
                value=shown(extension.uri),
                what="the agent declares this extension twice",
                remedy="Keep one of them.",
            )
        taken.add(extension.uri)


def _modes(modes: Iterable[str], path: Path) -> Iterator[Problem]:
    for i, mode in enumerate(modes):
        if not MEDIA_TYPE.fullmatch(mode):
            yield Problem(
                path=(*path, i),
                value=shown(mode),
                what="expected a media type",
                remedy='Examples: "text/plain", "application/json", "image/*".',
            )


def _url(url: str, path: Path, *, required: bool = False) -> Iterator[Problem]:
    fault = web_url_fault(url) if url or required else ""
    if fault:
        yield Problem(
            path=path,
            value=shown(url),
            what=fault,
            remedy=f'Example: {path[-1]} = "https://example.com/docs".',
        )


def _tenants(agent: AgentSettings, path: Path) -> Iterator[Problem]:
    for i, tenant in enumerate(agent.tenants):
        here = (*path, "tenants", i)
        if tenant in RESERVED_TENANTS | STEPS:
            yield Problem(
                path=here,
                value=shown(tenant),
                what="is the name of a route, so it cannot be a tenant",
                remedy=f'Rename it, for example to "{tenant.strip(".").replace(":", "-")}-1".',
            )
        elif not TENANT.fullmatch(tenant):
            yield Problem(
                path=here,
                value=shown(tenant),
                what="cannot be a step of a path",
                remedy="Use letters, digits and . _ ~ - only.",
            )
        elif tenant in agent.tenants[:i]:
            yield Problem(
                path=here, value=shown(tenant), what="is listed twice", remedy="Keep one of them."
            )
