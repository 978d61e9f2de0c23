"""Settings of a model: what is refused, and how it reaches the backend."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import KEY, made, only

from trunkline.backends.kind import Resources
from trunkline.backends.openai.backend import make
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.clock import SystemClock
from trunkline.config.secret import Secret
from trunkline.model.errors import GatewayBug
from trunkline.settings import effective

MODEL = {"kind": "openai", "base_url": "http://127.0.0.1:11434/v1", "model": "m"}
TARGETS = {"support": {"base_url": "https://support.example.com"}}


def agents(**keys: Any) -> dict[str, Any]:
    return {"acme/m": {"name": "M", "backend": MODEL | keys}}


def backend(**keys: Any) -> OpenAIBackend:
    found = made(agents=agents(**keys)).agents["acme/m"].backend
    assert isinstance(found, OpenAIBackend)
    return found


def test_a_url_and_a_model_are_all_it_needs() -> None:
    settings = backend()
    assert settings == OpenAIBackend(base_url="http://127.0.0.1:11434/v1", model="m")
    assert settings.request_headers() == {}


def test_every_key_reaches_the_model() -> None:
    keys: dict[str, Any] = {
        "system_prompt": "be brief",
        "temperature": 0.5,
        "extra_body": {"max_tokens": 5},
        "stream": False,
        "max_history_turns": 1,
        "max_history_tokens": 2,
        "images": True,
        "files": True,
        "links": True,
        "connect_s": 1.0,
        "idle_s": 2.0,
        "total_s": 3.0,
        "max_answer_bytes": 4096,
        "attempts": 5,
        "max_tool_rounds": 6,
    }
    settings = backend(api_key=KEY, headers={"X-Team": "blue"}, **keys)
    assert settings == OpenAIBackend(
        base_url="http://127.0.0.1:11434/v1",
        model="m",
        api_key=Secret(KEY),
        headers={"X-Team": Secret("blue")},
        **keys,
    )
    assert settings.request_headers() == {"X-Team": "blue", "Authorization": f"Bearer {KEY}"}


def test_a_tool_that_nobody_made_is_our_fault() -> None:
    settings = made(agents=agents(tools=["remote_agent"]), targets=TARGETS)
    found = settings.agents["acme/m"].backend
    assert isinstance(found, OpenAIBackend)
    with pytest.raises(GatewayBug, match="remote_agent"):
        make(found, Resources(clock=SystemClock(), data_dir=Path()))


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"base_url": "localhost:11434"}, "base_url"),
        (
            {"base_url": "http://x/v1/chat/completions"},
            "Leave /chat/completions out: the gateway adds it.",
        ),
        ({"api_key": ""}, "api_key: is empty. Leave api_key out for a server that needs none."),
        ({"api_key": "a\nb"}, "without line breaks"),
        ({"api_key": KEY, "headers": {"authorization": "x"}}, "Keep one of the two."),
        ({"headers": {"a b": "x"}}, "is not the name of a header"),
        ({"headers": {"Host": "x"}}, "headers.Host: is for the gateway to say"),
        ({"headers": {"X-A": "a\nb"}}, "headers.X-A: has a line break"),
        ({"headers": {"X-A": 4}}, "headers.X-A = ***: expected a text"),
        ({"extra_body": {"stream": False}}, "Use stream of this table."),
        ({"extra_body": {"messages": []}}, "extra_body.messages: is for the gateway to say"),
        ({"temperature": -1}, "temperature"),
        ({"max_history_turns": -1}, "max_history_turns"),
        ({"tools": ["hammer"]}, "tools"),
        ({"model": ""}, "model"),
        ({"tools": ["remote_agent"]}, "Add a table [targets.ALIAS] with a base_url."),
    ],
)
def test_what_is_refused(keys: dict[str, Any], problem: str) -> None:
    found = str(only(agents=agents(**keys)))
    assert found.startswith('agents."acme/m".backend.')
    assert problem in found
    assert KEY not in found


def test_a_tool_that_is_off() -> None:
    found = only(agents=agents(tools=["remote_agent"]), targets=TARGETS, remote={"enabled": False})
    assert "Set enabled = true in [remote]" in str(found)


def test_a_key_is_shown_to_nobody() -> None:
    settings = made(agents=agents(api_key=KEY, headers={"X-Key": KEY}))
    assert KEY not in repr(settings)
    assert KEY not in repr(effective(settings))
