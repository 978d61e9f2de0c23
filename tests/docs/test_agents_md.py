"""docs/guides/agents.md does what it says."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.docs.transcripts import Example, examples_in, replay

from trunkline import Turn
from trunkline.backends.python import Agent

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "agents.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples_in(TEXT)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line-{example.line}")
async def test_example(example: Example) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example.code, f"{PAGE.name}:{example.line}", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    (agent,) = [value for value in names.values() if isinstance(value, Agent)]
    assert example.transcript or tests, "an example shows what comes of it"
    if example.transcript:
        assert await replay(agent, example.transcript) == example.transcript
    for test in tests:
        await test()


async def test_a_wrong_transcript_is_noticed() -> None:
    (example,) = examples_in(
        "```python\nfrom trunkline import agent\nrust = agent(lambda turn: turn.text)\n```\n"
        "```text\n> hi\nho\n```\n"
    )
    names: dict[str, Any] = {}
    exec(example.code, names)
    assert await replay(names["rust"], example.transcript) == "> hi\nhi\n"
    assert len(EXAMPLES) > 15


def test_everything_a_turn_offers_is_taught() -> None:
    public = [name for name in dir(Turn) if not name.startswith("_")]
    assert [name for name in public if f"turn.{name}" not in TEXT and f"`{name}" not in TEXT] == []


def test_every_argument_of_the_decorator_is_taught() -> None:
    arguments = [name for name in inspect.signature(Agent).parameters if name != "fn"]
    assert [name for name in arguments if f"`{name}`" not in TEXT] == []
