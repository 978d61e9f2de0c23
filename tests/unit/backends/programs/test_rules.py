"""Settings of programs: what is refused, and how they reach the backend."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import problems

from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.command.backend import make
from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.kind import Resources
from trunkline.backends.programs.program import Program
from trunkline.clock import SystemClock
from trunkline.settings import effective, from_document

COMMAND = {"kind": "command", "command": ["cat"]}


def agents(**keys: Any) -> dict[str, Any]:
    return {"acme/c": {"name": "C", "backend": COMMAND | keys}}


def command(folder: Path, **keys: Any) -> CommandBackend:
    document = {"agents": agents(**keys)}
    found = from_document(document, environment={"KEY": "from-outside"}, folder=folder)
    backend = found.agents["acme/c"].backend
    assert isinstance(backend, CommandBackend)
    return backend


def test_a_command_is_all_it_needs(tmp_path: Path) -> None:
    backend = command(tmp_path)
    assert (backend.format, backend.session, backend.files) == ("text", "turn", "refuse")
    assert backend.cwd == str(tmp_path)


def test_places_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    backend = command(tmp_path, command=["./bin/agent", "./as-it-is"], cwd="work")
    assert backend.command == (str(tmp_path / "bin" / "agent"), "./as-it-is")
    assert backend.cwd == str(tmp_path / "work")


def test_limits_reach_the_program(tmp_path: Path) -> None:
    backend = command(tmp_path, timeout_s=1, max_processes=2, max_memory_bytes=3)
    limits = make(backend, Resources(clock=SystemClock(), data_dir=tmp_path)).children.settings
    assert limits.timeout_s == 1
    assert limits.max_processes == 2
    assert limits.max_memory_bytes == 3


def test_values_of_the_environment_are_secret(tmp_path: Path) -> None:
    document = {"agents": agents(env={"TOKEN": "${KEY}"}, inherit_env=[])}
    made = from_document(document, environment={"KEY": "from-outside"}, folder=tmp_path)
    shown = effective(made)["agents"]["acme/c"]["backend"]
    assert shown["env"] == {"TOKEN": "***"}
    assert "from-outside" not in repr(made)
    backend = made.agents["acme/c"].backend
    assert isinstance(backend, CommandBackend)
    assert Program(backend).environment == {"TOKEN": "from-outside"}


def test_acp(tmp_path: Path) -> None:
    table = {"kind": "acp", "command": ["agent"], "permissions": "reject"}
    document = {"agents": {"acme/a": {"name": "A", "backend": table}}}
    backend = from_document(document, environment={}, folder=tmp_path).agents["acme/a"].backend
    assert isinstance(backend, AcpBackend)
    assert backend.permissions == "reject"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"command": []}, "backend.command = []: "),
        ({"command": [" "]}, 'backend.command[0] = " ": expected a program.'),
        ({"command": "cat file"}, 'backend.command = "cat file": expected'),
        ({"cwd": "/no/such/folder"}, "no such folder"),
        ({"inherit_env": ["A B"]}, "expected the name of a variable"),
        ({"env": {"1A": "x"}}, "expected the name of a variable"),
        ({"env": ["x"]}, "expected a table of texts"),
        ({"env": {"A": 1}}, "expected a text"),
        ({"session": "session"}, "without it nobody knows where an answer ends"),
        ({"end_line": "."}, "only means something with"),
        ({"session": "session", "end_line": "a\nb"}, "expected one line"),
        ({"format": "codex", "session": "session"}, "cannot be kept"),
        ({"format": "claude", "command": ["claude", "{prompt}"]}, "{prompt} can only stand in"),
        ({"command": ["{prompt}"]}, "{prompt} can only stand in"),
        ({"format": "gemini"}, 'expected one of "text", "claude", "codex"'),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_refusals(keys: dict[str, Any], said: str) -> None:
    [problem] = problems(agents=agents(**keys))
    assert said in problem


def test_a_command_must_be_there() -> None:
    [problem] = problems(agents={"acme/c": {"name": "C", "backend": {"kind": "command"}}})
    assert "backend.command: missing" in problem


def test_a_secret_is_not_shown_in_a_problem() -> None:
    [problem] = problems({"KEY": "hush"}, agents=agents(env={"A": ["${KEY}"]}))
    assert "hush" not in problem
