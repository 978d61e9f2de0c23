import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from trunkline.backends.python.loader import load
from trunkline.model.errors import ConfigError

Write: TypeAlias = Callable[[str, str], str]

TWO = """
from trunkline import agent

@agent
async def first(turn):
    return "1"

@agent(name="Second one")
def second(turn):
    return "2"

alias = first

async def plain(turn):
    return "3"

class holder:
    inner = second

number = 3
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def refusal(target: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(target)
    return caught.value.message


def test_all_agents_of_a_file_in_order(write: Write) -> None:
    assert [agent.name for agent in load(write("two.py", TWO))] == ["First", "Second one"]


@pytest.mark.parametrize(
    ("attribute", "name"),
    [("second", "Second one"), ("plain", "Plain"), ("holder.inner", "Second one")],
)
def test_one_by_name(write: Write, attribute: str, name: str) -> None:
    (agent,) = load(f"{write('two.py', TWO)}:{attribute}")
    assert agent.name == name


def test_a_module_beside_us(write: Write) -> None:
    write("two_by_module.py", TWO)
    assert len(load("two_by_module")) == 2
    assert [agent.slug for agent in load("two_by_module:second")] == ["second"]


def test_a_file_runs_once_and_shadows_no_module(write: Write) -> None:
    path = write("json.py", TWO)
    assert load(f"{path}:first") == load(f"{path}:alias")
    assert not hasattr(sys.modules["json"], "first")


def test_a_file_may_import_what_lies_beside_it(write: Write) -> None:
    write("beside_it.py", TWO)
    assert len(load(write("importing.py", "from beside_it import first, second"))) == 2


def test_a_missing_file(write: Write) -> None:
    assert "There is no file" in refusal("nowhere.py")


def test_a_missing_module_names_the_file_form(write: Write) -> None:
    message = refusal("no_such_module_here:x")
    assert "no module 'no_such_module_here'" in message
    assert "no_such_module_here.py" in message


def test_a_failing_import_shows_their_line_and_none_of_ours(write: Write) -> None:
    write("their_helper.py", "def check():\n    raise KeyError('TOKEN')\n")
    message = refusal(write("failing.py", "import their_helper\n\ntheir_helper.check()\n"))
    assert "failing.py, line 3: their_helper.check()" in message
    assert "their_helper.py, line 2: raise KeyError('TOKEN')" in message
    assert "KeyError: 'TOKEN'" in message
    assert "trunkline" not in message
    assert "importlib" not in message


def test_an_import_that_is_not_installed(write: Write) -> None:
    message = refusal(write("needs.py", "import not_installed_anywhere.sub\n"))
    assert "needs.py, line 1: import not_installed_anywhere.sub" in message
    assert "Install not_installed_anywhere" in message
    write("needs_as_module.py", "import not_installed_anywhere.sub\n")
    assert "Install not_installed_anywhere" in refusal("needs_as_module")


def test_a_syntax_error_shows_the_spot(write: Write) -> None:
    message = refusal(write("broken.py", "def rust(turn:\n"))
    assert "broken.py" in message
    assert "line 1" in message


def test_a_script_that_exits(write: Write) -> None:
    assert "__main__" in refusal(write("exits.py", "raise SystemExit(1)\n"))


def test_a_failed_import_is_tried_again(write: Write) -> None:
    path = write("mended.py", "raise ValueError\n")
    refusal(path)
    write("mended.py", TWO + "# longer than before, so that the cached bytecode is stale\n")
    assert len(load(path)) == 2


def test_an_unknown_name_lists_what_is_there(write: Write) -> None:
    message = refusal(f"{write('two.py', TWO)}:third")
    assert "no 'third'" in message
    assert "first, second, alias" in message


def test_a_name_that_is_no_agent(write: Write) -> None:
    assert "is int, not an agent" in refusal(f"{write('two.py', TWO)}:number")


def test_no_agent_shows_what_to_write(write: Write) -> None:
    message = refusal(write("empty.py", "x = 1\n"))
    assert "has no agent" in message
    assert "@agent(name=" in message
    assert "@agent above rust" in refusal(write("bare.py", "async def rust(turn): ...\n"))


def test_two_agents_with_one_slug(write: Write) -> None:
    twice = "from trunkline import agent\n" + "a = agent(slug='x')(lambda turn: 1)\n" * 2
    message = refusal(write("twice.py", twice.replace("a =", "b =", 1)))
    assert "2 agents with the slug 'x'" in message
