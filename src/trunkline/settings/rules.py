"""`find_problems`: all rules of a configuration. Those between tables are here, those of one
table are beside its struct."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config.problems import Path, Problem, bad_value, did_you_mean, one_of, shown
from trunkline.config.urls import web_url_fault
from trunkline.engine.agent_calls import target_name
from trunkline.hub.credential_settings import certificate_problems, jwt_problems
from trunkline.hub.sign_in_settings import sign_in_problems
from trunkline.settings.agents import address_problems, agent_problems
from trunkline.settings.auth import key_problems
from trunkline.settings.backends import KIND_NAMES
from trunkline.settings.cluster import NODE_URL_EXAMPLE, cluster_problems
from trunkline.settings.hub_audit import hub_audit_problems
from trunkline.settings.profiles import profile_problems
from trunkline.settings.relay import relay_problems
from trunkline.settings.relay_server import relay_server_problems
from trunkline.settings.root import Settings
from trunkline.settings.routing import route_problems
from trunkline.settings.server import (
    is_loopback_host,
    is_loopback_url,
    is_wildcard_host,
    server_problems,
)
from trunkline.settings.stores import StoreSettings, store_problems
from trunkline.settings.targets import target_problems

ADD_A_KEY = """\
add a key to the configuration file, \
and put it in the environment (export TRUNKLINE_KEY=$(openssl rand -hex 24)):
    [auth.keys.me]
    key = "${TRUNKLINE_KEY}\""""


def find_problems(settings: Settings, misfits: list[Problem]) -> Iterator[Problem]:
    """Broken rules, without those that only follow from a value that the decoder refused."""
    bad = [problem.path for problem in misfits]
    for problem in _problems(settings):
        if any(_starts_with(problem.path, path) for path in bad):
            continue
        if any(_starts_with(path, read) for read in problem.reads for path in bad):
            continue
        yield _with_value(problem, settings) if problem.wants_value else problem


def _starts_with(path: Path, start: Path) -> bool:
    return path[: len(start)] == start


def _with_value(problem: Problem, settings: Settings) -> Problem:
    value: Any = settings
    for step in problem.path:
        value = getattr(value, str(step)) if isinstance(value, Struct) else value[step]
    return replace(problem, value=shown(value))


def _problems(settings: Settings) -> Iterator[Problem]:
    yield from server_problems(settings.server)
    yield from _public_url_problems(settings)
    yield from key_problems(settings.auth.keys)
    yield from _access_problems(settings)
    is_for_others = settings.calls_others() or settings.as_relay is not None
    if not settings.agents and not is_for_others and settings.hub is None:
        yield Problem(
            ("agents",),
            "no agent is configured",
            'Add one:\n    [agents."demo/echo"]\n    name = "Echo"\n'
            '    backend = { kind = "echo" }\n'
            "or, to call agents elsewhere:\n    [targets.support]\n"
            '    base_url = "https://support.example.com"',
            reads=(("agents",), ("targets",), ("remote",)),
        )
    yield from agent_problems(settings.agents)
    yield from profile_problems(settings.agents)
    yield from address_problems(settings.agents, default=settings.default_agent())
    yield from store_problems(_stores(settings), principals=settings.auth.keys)
    yield from cluster_problems(settings.cluster)
    yield from _relay_problems(settings)
    yield from _hub_problems(settings)
    yield from target_problems(settings.targets, settings.remote)
    targets = {alias: name for alias in settings.targets if (name := target_name(alias))}
    known = [*settings.agents, *targets, *targets.values()]
    yield from route_problems(settings.routes, known)
    yield from _tool_problems(settings)
    yield from _limit_problems(settings)
    if settings.hub is not None:
        yield from sign_in_problems(settings.hub.sign_in, ("hub", "sign_in"))
        yield from jwt_problems(settings.hub.jwt, ("hub", "jwt"))
        if settings.hub.client_certificates is not None:
            yield from certificate_problems(
                settings.hub.client_certificates, ("hub", "client_certificates")
            )


def _public_url_problems(settings: Settings) -> Iterator[Problem]:
    for path, url in settings.public_urls().items():
        fault = web_url_fault(url)
        parts = None if fault else urlsplit(url)
        if parts and (parts.query or parts.fragment or url.endswith(("?", "#"))):
            fault = "expected a URL without query and fragment"
        if fault:
            yield bad_value(path, fault, 'Example: public_url = "https://agents.example.com".')


def _access_problems(settings: Settings) -> Iterator[Problem]:
    server, auth = settings.server, settings.auth
    reads = (("auth",),)
    has_credentials = bool(auth.keys) or settings.hub is not None or settings.as_relay is not None
    if auth.anonymous == "always" and has_credentials and not is_loopback_host(server.host):
        yield bad_value(
            ("auth", "anonymous"),
            f"is for a proxy on this machine, and host = {shown(server.host)} lets "
            "every caller bypass the proxy",
            'Listen on loopback with host = "127.0.0.1", or leave anonymous out.',
            reads=(*reads, ("server", "host")),
        )
    if has_credentials:
        return
    if not is_loopback_host(server.host):
        yield bad_value(
            ("server", "host"),
            "other machines could call the gateway, and no key is configured",
            f'Listen on loopback with host = "127.0.0.1", or {ADD_A_KEY}',
            reads=reads,
        )
    elif auth.anonymous != "always" and settings.is_exposed():
        for path, url in settings.public_urls().items():
            if not is_loopback_url(url) and not web_url_fault(url):
                yield bad_value(
                    path,
                    "other machines are to call the gateway, and no key is configured",
                    f"To let callers in, {ADD_A_KEY}",
                    reads=reads,
                )
    elif auth.anonymous == "never":
        yield bad_value(
            ("auth", "anonymous"),
            "nobody could call, because no key is configured",
            f"To let callers in, {ADD_A_KEY}",
            reads=reads,
        )


def _relay_problems(settings: Settings) -> Iterator[Problem]:
    if settings.relay is not None:
        yield from relay_problems(
            settings.relay, agents=settings.agents, default_agent=settings.default_agent()
        )
    if settings.relay_server is not None:
        yield from relay_server_problems(settings.relay_server)
    is_shared, host = settings.store.kind == "postgres", settings.server.host
    needs_url = settings.as_relay is not None and is_shared and not settings.cluster.node_url
    if needs_url and is_wildcard_host(host):
        yield Problem(
            ("cluster", "node_url"),
            "is missing: relays on one database pass requests on to each other, and host = "
            f"{shown(host)} is no address to reach this one at",
            f"Set the address of this machine in [cluster]. {NODE_URL_EXAMPLE}",
            reads=(("server", "host"), ("store", "kind")),
        )


def _stores(settings: Settings) -> Iterator[tuple[Path, StoreSettings]]:
    owns = {handle: agent.store for handle, agent in settings.agents.items()}
    if not owns or None in owns.values() or settings.needs_main_store:
        yield ("store",), settings.store
    for handle, store in owns.items():
        if store is not None:
            yield ("agents", handle, "store"), store


def _limit_problems(settings: Settings) -> Iterator[Problem]:
    for handle, agent in settings.agents.items():
        if agent.limits is None:
            continue
        path = ("agents", handle, "limits")
        if settings.hub is None:
            yield Problem(
                path,
                "the hub counts what callers use, and it is off",
                "Add the table [hub], or remove the limits.",
                reads=(("hub",),),
            )
        elif agent.max_concurrency:
            yield Problem(
                ("agents", handle, "max_concurrency"),
                f"limits.concurrency_cap = {agent.limits.concurrency_cap} replaces it",
                "Remove it, and set concurrency_cap.",
                reads=((*path, "concurrency_cap"),),
            )


def _hub_problems(settings: Settings) -> Iterator[Problem]:
    for i, name in enumerate(settings.hub.owner_backends if settings.hub is not None else ()):
        if name not in KIND_NAMES:
            yield bad_value(
                ("hub", "owner_backends", i),
                "is no kind of backend",
                f"{did_you_mean(name, KIND_NAMES)}Known: {one_of(KIND_NAMES)}.",
            )
    if settings.hub is not None:
        yield from hub_audit_problems(settings.hub.audit)


# Those that call agents elsewhere, so that they need targets.
_REMOTE_TOOLS = ("remote_agent", "a2a_send")


def _tool_problems(settings: Settings) -> Iterator[Problem]:
    """A tool that calls other agents must be on, and needs an agent to call."""
    remote = settings.remote
    for handle, agent in settings.agents.items():
        backend = agent.backend
        if not isinstance(backend, OpenAIBackend | ProgramSettings) or not backend.tools:
            continue
        path, first = ("agents", handle, "backend", "tools"), backend.tools[0]
        if agent.isolated:
            yield Problem(
                path,
                f"{first} calls other agents, and this agent is isolated",
                "Set isolated = false, or remove it from tools.",
                reads=(("agents", handle, "isolated"),),
            )
            continue
        of_remote = [name for name in backend.tools if name in _REMOTE_TOOLS]
        off = [name for name in of_remote if not remote.enabled or name not in remote.tools]
        if not of_remote:
            continue
        first = of_remote[0]
        if off:
            on = "enabled = true" if not remote.enabled else f'tools = ["{off[0]}", …]'
            yield Problem(
                path, f"{off[0]} is off", f"Set {on} in [remote], or remove it from tools."
            )
        elif not settings.targets and not remote.allow_target_url:
            yield Problem(
                path,
                f"{first} has nobody to call",
                "Add a table [targets.ALIAS] with a base_url.",
                reads=(("targets",),),
            )
