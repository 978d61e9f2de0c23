"""Agents that are programs, behind a gateway: every kind through the same trials."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway
from tests.acceptance.trials import Subject, Trial, cases

PROGRAMS = Path(__file__).parents[1] / "programs"

SUBJECTS = {
    "text": Subject(agent="test/text", slow="hang", fail="exit 3", reason="exit code 3"),
    "text-kept": Subject(agent="test/text-kept", slow="hang", fail="exit 3", reason="exit code 3"),
    "claude": Subject(
        agent="test/claude",
        slow="hang",
        fail="fail",
        reason="its model answered with an error",
        tool="tool",
        tool_name="Bash",
        history="history",
    ),
    "claude-kept": Subject(
        agent="test/claude-kept",
        slow="hang",
        fail="exit 4",
        reason="exit code 4",
        tool="tool",
        tool_name="Bash",
        history="history",
    ),
    "codex": Subject(
        agent="test/codex",
        slow="hang",
        fail="fail",
        reason="its model answered with an error",
        tool="tool",
        tool_name="shell",
        history="history",
    ),
    "acp": Subject(
        agent="test/acp",
        slow="hang",
        fail="fail",
        reason="its model answered with an error",
        tool="tool",
        tool_name="Bash",
        ask="ask",
        history="history",
    ),
}


def config(home: Path) -> str:
    def agent(name: str, kind: str, script: str, *words: str, **keys: object) -> str:
        command = [sys.executable, str(PROGRAMS / script), *words]
        table = {"kind": kind, "command": command, "stop_grace_s": 1.0} | keys
        pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        home_of = f"env = {{ HOME = {json.dumps(str(home))} }}"
        return f'[agents."test/{name}"]\nname = "{name}"\nbackend = {{ {pairs}, {home_of} }}\n'

    return "".join(
        [
            agent("text", "command", "talk.py"),
            agent(
                "text-kept",
                "command",
                "talk.py",
                "--end",
                "--- end ---",
                session="session",
                end_line="--- end ---",
            ),
            agent("claude", "command", "fake_claude.py", format="claude"),
            agent("claude-kept", "command", "fake_claude.py", format="claude", session="session"),
            agent("codex", "command", "fake_codex.py", "exec", format="codex"),
            agent("acp", "acp", "fake_acp.py"),
        ]
    )


@pytest.fixture(scope="module")
def gateway(gateways: Make, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = gateways(agents=config(tmp_path_factory.mktemp("home"))).start()
    yield made
    made.clean_up()


@pytest.mark.parametrize(("subject", "trial"), cases(SUBJECTS))
async def test_program(gateway: Gateway, subject: Subject, trial: Trial) -> None:
    await trial(gateway, subject)
