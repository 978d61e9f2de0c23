"""Rules of `kind = "openclaw"`."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.address import openclaw_address
from trunkline.backends.openclaw.rules import openclaw_problems
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.config.secret import Secret
from trunkline.testing import FakeClock

RESOURCES = Resources(clock=FakeClock(), data_dir=Path())


def problems(**keys: Any) -> list[str]:
    return [str(problem) for problem in openclaw_problems(OpenClawBackend(**keys), ("backend",))]


def test_the_defaults_are_right() -> None:
    assert problems() == []


@pytest.mark.parametrize("url", ["ws://10.0.0.1:1/x", "wss://claw.test", "http://[::1]:18789"])
def test_urls(url: str) -> None:
    assert problems(url=url) == []


@pytest.mark.parametrize("url", ["", "claw.test", "ftp://x", "ws://", "ws://u:p@x", "ws://a b"])
def test_what_is_no_url(url: str) -> None:
    [problem] = problems(url=url)
    assert "backend.url" in problem
    assert 'url = "ws://127.0.0.1:18789"' in problem


@pytest.mark.parametrize("agent_id", ["a:b", "../x", "ä", "-x", "x" * 65])
def test_what_is_no_agent(agent_id: str) -> None:
    [problem] = problems(agent_id=agent_id)
    assert "openclaw agents list" in problem


@pytest.mark.parametrize(
    ("template", "what"),
    [
        # Trap 3: with several agents, keys must name theirs.
        ("br-{context}", "begin with their agent"),
        ("agent:main:br-{context}", "begin with their agent"),
        # Trap 2: the channel of OpenClaw's own A2A.
        ("agent:{agent_id}:a2a:{context}", "keeps a2a: for itself"),
        ("agent:{agent_id}:A2A:{context}", "keeps A2A: for itself"),
        ("agent:{agent_id}:cron:{context}", "keeps cron: for itself"),
        ("agent:{agent_id}:br", "would share a session"),
        ("agent:{agent_id}:{context}{context}", "would share a session"),
        ("agent:{agent_id}:{principal}-{context}", "only {agent_id} and {context}"),
        ("agent:{agent_id}:my {context}", "without spaces"),
    ],
)
def test_trap_2_and_3_keys_that_openclaw_takes_amiss(template: str, what: str) -> None:
    [problem] = problems(session_key=template)
    assert what in problem


def test_private_addresses_can_be_allowed_for_development() -> None:
    settings = OpenClawBackend(public_only=True)
    assert openclaw_address(settings, RESOURCES).public_only
    allowed = replace(RESOURCES, allow_private=True)
    assert not openclaw_address(settings, allowed).public_only


def test_a_device_is_of_no_use_over_http() -> None:
    [problem] = problems(surface="http", device_identity=True)
    assert "device_identity" in problem


def test_the_url_fits_the_surface() -> None:
    over_http = OpenClawBackend(url="wss://claw.test", surface="http")
    assert openclaw_address(over_http, RESOURCES).url == "https://claw.test"
    over_socket = OpenClawBackend(url="http://127.0.0.1:18789", token=Secret("t"))
    assert openclaw_address(over_socket, RESOURCES).url == "ws://127.0.0.1:18789"


def test_the_token_shows_nowhere() -> None:
    settings = OpenClawBackend(token=Secret("very-secret"))
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in repr(openclaw_address(settings, RESOURCES))
