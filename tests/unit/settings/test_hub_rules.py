"""The rules about agents, tools and limits that the hub brings."""

from typing import Any

import pytest
from tests.unit.settings.documents import agent, made, only

ECHO: dict[str, Any] = {"kind": "echo"}


def test_an_isolated_agent_has_no_tools_that_call_others() -> None:
    backend = {
        "kind": "openai",
        "base_url": "http://127.0.0.1:1/v1",
        "model": "m",
        "tools": ["remote_agent"],
    }
    targets = {"other": {"base_url": "https://other.example"}}
    problem = only(agents={"acme/a": agent(backend=backend, isolated=True)}, targets=targets)
    assert problem.path == ("agents", "acme/a", "backend", "tools")
    assert "isolated = false" in problem.remedy
    _ = made(agents={"acme/a": agent(backend=backend)}, targets=targets)


def test_limits_need_the_hub_that_counts() -> None:
    agents = {"acme/a": agent(backend=ECHO, limits={"daily_budget_queries": 5})}
    problem = only(agents=agents)
    assert problem.path == ("agents", "acme/a", "limits")
    assert "[hub]" in problem.remedy
    assert made(agents=agents, hub={}).agents["acme/a"].limits is not None


def test_owners_choose_among_kinds_that_exist() -> None:
    problem = only(agents={"acme/a": agent(backend=ECHO)}, hub={"owner_backends": ["ecko"]})
    assert problem.path == ("hub", "owner_backends", 0)
    assert "echo" in problem.remedy


@pytest.mark.parametrize("text", ["", "a*b*c*d"])
def test_texts_to_hide_are_checked_with_the_file(text: str) -> None:
    problem = only(agents={"acme/a": agent(backend=ECHO)}, hub={"audit": {"redact": [text]}})
    assert problem.path == ("hub", "audit", "redact")
