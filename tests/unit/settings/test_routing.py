"""The tools of programs, and the routes of the configuration."""

from typing import Any

import pytest
from tests.unit.settings.documents import agent, made, only

from trunkline.settings.routing import RouteSettings

AGENTS = {f"acme/{name}": agent(backend={"kind": "echo"}) for name in ("writer", "reviewer")}
ROUTE: dict[str, Any] = {
    "name": "review",
    "agent": "acme/writer",
    "on": "completed",
    "call": "acme/reviewer",
}


@pytest.mark.parametrize("kind", ["command", "acp"])
def test_an_isolated_agent_has_no_tools_that_ask_others(kind: str) -> None:
    backend = {"kind": kind, "command": ["agent"], "tools": ["agent_call"]}
    problem = only(agents={"acme/a": agent(backend=backend, isolated=True)})
    assert problem.path == ("agents", "acme/a", "backend", "tools")
    assert "isolated = false" in problem.remedy
    _ = made(agents={"acme/a": agent(backend=backend)})


def test_a_tool_that_does_not_exist_is_named() -> None:
    backend = {"kind": "command", "command": ["agent"], "tools": ["agent_cal"]}
    problem = only(agents={"acme/a": agent(backend=backend)})
    assert problem.path[:4] == ("agents", "acme/a", "backend", "tools")


def test_a_route_is_taken_as_it_is_written() -> None:
    (route,) = made(agents=AGENTS, routes=[ROUTE | {"timeout_s": 1.5}]).route_list
    assert (route.name, route.call, route.timeout_ms) == ("review", "acme/reviewer", 1500)
    assert RouteSettings(name="x", agent="acme/writer", on="failed").route.timeout_ms == 0


@pytest.mark.parametrize(
    ("routes", "path"),
    [
        ([ROUTE, ROUTE], ("routes", 1, "name")),
        ([ROUTE | {"call": ""}], ("routes", 0)),
        ([ROUTE | {"call": "acme/nobody"}], ("routes", 0, "call")),
    ],
    ids=["same-name", "nowhere", "unknown"],
)
def test_a_route_that_leads_nowhere_is_a_problem(routes: list[Any], path: tuple[Any, ...]) -> None:
    assert only(agents=AGENTS, routes=routes).path == path
