"""`trunkline session`, `trunkline calls` and tools in sessions, on a store that no gateway uses."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trunkline.app.gateway import build
from trunkline.cli.commands import app
from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Part, Role
from trunkline.settings import from_document

CODE = """\
from trunkline import agent


@agent
async def asker(turn):
    await turn.call("acme/helper", turn.text, wait=False)
    return "asked"


@agent(direct=True)
async def helper(turn):
    return turn.reply("about " + turn.text)
"""


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--data", str(self.folder)])

    def text(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.text(*words, "-o", "json"))["items"]
        return found


async def use(folder: Path) -> None:
    """What a gateway leaves in its store: alice and bob ask, and one speaks to the helper."""
    (folder / "team.py").write_text(CODE)
    agents = {
        f"acme/{name}": {"backend": {"kind": "python", "target": f"{folder}/team.py:{name}"}}
        for name in ("asker", "helper")
    }
    store = {"kind": "sqlite", "path": f"{folder}/trunkline.db"}
    gateway = build(from_document({"store": store, "agents": agents}, environment={}), base_url="")
    await gateway.open()
    for agent, caller, text in (
        ("acme/asker", "alice", "the moon\x1b[2J"),
        ("acme/asker", "bob", "mars"),
        ("acme/helper", "bob", "venus"),
    ):
        found = gateway.directory.callee(agent)
        assert found is not None
        message = Message(
            message_id=text, role=Role.USER, context_id="c1", parts=(Part(text=text),)
        )
        principal = Principal(id=caller, grants=EVERYTHING)
        await found.service.send(
            found.agent, Caller(principal=principal), SendMessageRequest(message=message)
        )
    async with asyncio.timeout(10):
        while gateway.routing.routing.counts.ended["completed"] < 2:
            await asyncio.wait(asyncio.all_tasks(), timeout=0.01)
    await gateway.close()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    asyncio.run(use(folder))
    return folder


@pytest.fixture
def shell(used: Path) -> Shell:
    return Shell(used)


def key_of(shell: Shell, caller: str) -> str:
    (found,) = shell.items("session", "ls", "--agent", "acme/asker", "--principal", caller)
    return str(found["key"])


def test_sessions_are_listed_also_those_without_a_task(shell: Shell) -> None:
    listed = shell.text("session", "ls")
    lines = listed.splitlines()
    assert lines[0].split() == ["KEY", "AGENT", "CALLER", "TASKS", "ENTRIES", "CHANGED"]
    rows = {tuple(line.split()[1:5]) for line in lines[1:-1]}
    assert ("acme/asker", "alice", "1", "1") in rows
    assert ("acme/helper", "bob", "0", "0") in rows
    assert lines[-1].endswith("sessions")
    own = shell.items("session", "ls", "--principal", "alice", "--agent", "acme/asker")
    assert [each["principal"] for each in own] == ["alice"]
    assert shell.text("session", "ls", "--agent", "acme/nobody") == "no sessions\n"


def test_a_session_is_shown_without_control_characters(shell: Shell) -> None:
    shown = shell.text("session", "show", key_of(shell, "alice"))
    lines = shown.splitlines()
    assert lines[:2] == ["  user  the moon", " agent  asked"]
    assert lines[2].startswith('answer  {"kind":"skill_response"')
    assert "about the moon" in lines[2]
    last = shell.text("session", "show", key_of(shell, "alice"), "--limit", "1")
    assert last.startswith("answer")
    whole = json.loads(shell.text("session", "show", key_of(shell, "bob"), "-o", "json"))
    assert [each["role"] for each in whole["messages"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]


def test_calls_are_listed_and_shown(shell: Shell) -> None:
    listed = shell.text("calls", "ls").splitlines()
    assert listed[0].startswith("ID ")
    assert listed[-1] == "2 calls"
    (call,) = shell.items("calls", "ls", "--principal", "bob")
    assert (call["agent"], call["callee"], call["status"]) == (
        "acme/asker",
        "acme/helper",
        "completed",
    )
    shown = shell.text("calls", "show", call["id"])
    assert "Asked    acme/helper#helper, by agent_call" in shown
    assert '"output": "about mars"' in shown
    assert shell.text("calls", "ls", "--status", "pending") == "no calls\n"


@pytest.mark.parametrize(
    "words",
    [
        ("session", "show", "agent:asker:a2a:nobody"),
        ("session", "rm", ""),
        ("calls", "show", "no-such-call"),
    ],
)
def test_what_is_not_there_ends_with_1_and_says_so(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "There is no" in done.stderr


def test_a_tool_needs_a_gateway_and_a_session(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = '{"agent": "acme/helper", "input": "pluto"}'
    without = shell.run("tool", "agent_call", arguments)
    assert (without.exit_code, "--session KEY" in without.stderr) == (2, True)
    key = key_of(shell, "alice")
    alone = shell.run("tool", "agent_call", arguments, "--session", key)
    assert (alone.exit_code, "no gateway is running" in alone.stderr) == (15, True)
    monkeypatch.setenv("TRUNKLINE_TOOLS_URL", "http://127.0.0.1:9/api/v1/tools")
    monkeypatch.setenv("TRUNKLINE_TOOLS_TOKEN", "tl_tool_hush")
    both = shell.run("tool", "agent_call", arguments, "--session", key)
    assert (both.exit_code, "Leave the option out" in both.stderr) == (2, True)
    unreachable = shell.run("tool", "agent_call", arguments)
    assert unreachable.exit_code == 1
    assert "TRUNKLINE_TOOLS_URL" in unreachable.stderr
    assert "hush" not in unreachable.output


def test_an_ended_session_is_gone(tmp_path: Path) -> None:
    asyncio.run(use(tmp_path))
    shell = Shell(tmp_path)
    key = key_of(shell, "alice")
    assert shell.text("session", "rm", key) == f"{key}: ended\n"
    assert shell.run("session", "rm", key).exit_code == 1
    left = shell.items("session", "ls", "--agent", "acme/asker")
    assert [each["principal"] for each in left] == ["bob"]
