"""Rules of the paths that agents are served at."""

import re
from collections.abc import Iterator

from trunkline.config.problems import Problem, shown
from trunkline.settings.agents import AgentSettings
from trunkline.settings.root import Settings

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
OWN_PREFIXES = ("/api/", "/t/", "/.well-known/ai-catalog.json")


def address_problems(settings: Settings) -> Iterator[Problem]:
    taken: dict[str, tuple[str, str]] = {}
    default = settings.default_agent()
    # The default agent goes first: where its standard address is taken, the other one moves.
    for handle in sorted(settings.agents, key=lambda handle: handle != default):
        agent = settings.agents[handle]
        for key, standard in ROOT_PATHS.items():
            if key == "rest_path" and agent.addresses == "exact":
                continue
            given = _given(agent, key)
            path = given or (standard if handle == default else "")
            if not path:
                continue
            fault, remedy = _fault(path)
            bare = path.rstrip("/") or "/"
            owner = taken.setdefault(bare, (handle, key))
            if not fault and owner != (handle, key):
                fault = f'is {owner[1]} of "{owner[0]}" already'
                remedy = f'Choose another, for example {key} = "/{handle}{standard}".'
            if fault:
                yield Problem(
                    path=("agents", handle, key), value=shown(path), what=fault, remedy=remedy
                )


def _given(agent: AgentSettings, key: str) -> str:
    match key:
        case "agent_card_path":
            return agent.agent_card_path
        case "jsonrpc_path":
            return agent.jsonrpc_path
        case _:
            return agent.rest_path


def _fault(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        return "expected a path that starts with /", f'Write "/{path}".'
    if not PATH.fullmatch(path) or "." in path.split("/") or ".." in path.split("/"):
        return "expected a plain path", 'Example: "/agents/rust/rpc".'
    bare = path.rstrip("/") or "/"
    if bare in OWN_PATHS or bare.startswith(OWN_PREFIXES) or f"{bare}/" in OWN_PREFIXES:
        return "is an address of the gateway itself", f'Choose another, for example "/x{path}".'
    return "", ""
