from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import made

from trunkline.app.tools import definitions, describe_remote_agent, open_tools
from trunkline.remote.tool import anthropic_tool, openai_tool

TARGETS = {"support": {"base_url": "https://support.example"}}


def test_a_definition_is_that_of_the_tool() -> None:
    definition, _ = definitions(made(targets=TARGETS))
    assert definition.as_openai() == openai_tool(("support",))
    assert definition.as_anthropic() == anthropic_tool(("support",))
    assert definition.as_json()["name"] == "remote_agent"


def test_the_tools_that_are_offered_can_be_chosen() -> None:
    every = [each.name for each in definitions(made(targets=TARGETS))]
    assert every == ["remote_agent", "a2a_send"]
    one = made(targets=TARGETS, remote={"tools": ["a2a_send"]})
    [definition] = definitions(one)
    assert definition.input_schema["properties"]["agent"]["enum"] == ["support"]


async def test_what_is_off_is_neither_defined_nor_opened() -> None:
    off = made(targets=TARGETS, remote={"enabled": False})
    assert definitions(off) == []
    async with open_tools(off) as tools:
        assert tools == {}


async def test_an_open_tool_can_be_called(tmp_path: Path) -> None:
    settings = made(remote={"handles_path": str(tmp_path / "h.db")})
    async with open_tools(settings) as tools:
        result = await tools["remote_agent"].run({"action": "list_targets"})
        sent = await tools["a2a_send"].run({"message": "hi"})
    assert result["ok"]
    assert sent["error"]["details"]["tool"] == "a2a_send"


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        ({"target_alias": "a", "target_url": "u"}, "a"),
        ({"target_url": "u", "continuation": {"task": {"status": "working"}}}, "u: working"),
        ({"target_url": "u", "message_text": "one\n\ntwo"}, "u: one two"),
        ({"target_url": "u", "message_text": "x" * 300}, f"u: …{'x' * 200}"),
    ],
)
def test_an_update_is_said_in_a_few_words(summary: dict[str, Any], words: str) -> None:
    assert describe_remote_agent({"summary": summary}) == words
