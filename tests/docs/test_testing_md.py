"""docs/guides/testing.md does what it says."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.transcripts import Example, examples_in

from trunkline import testing
from trunkline.backends.scripted.script import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("example", examples_in(TEXT), ids=lambda example: f"line-{example.line}")
async def test_example(example: Example) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example.code, f"{PAGE.name}:{example.line}", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        if "check" in inspect.signature(test).parameters:
            for check in testing.BACKEND_CHECKS:
                await test(check)
        elif inspect.isawaitable(result := test()):
            await result


def test_every_command_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| `([\w-]+)", TEXT, re.MULTILINE))
    assert documented == set(COMMANDS)


def test_everything_shipped_is_in_the_index() -> None:
    index = testing.__doc__ or ""
    assert [name for name in testing.__all__ if f"`{name}`" not in index] == []
