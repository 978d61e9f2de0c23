"""The real Claude Code and Codex, and both through ACP, with a fake model: the same trials.

`./check --claude` and `./check --codex` install them and run this.
"""

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway
from tests.acceptance.model_process import ModelProcess, model_process
from tests.acceptance.raw import send
from tests.acceptance.trials import Subject, Trial, cases, text_of

from trunkline.backends.acp.updates import DENIED

PACKAGES = Path(__file__).parents[2] / ".cache" / "npm"
NODE = PACKAGES / "node@24" / "node_modules" / ".bin"
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code@2.1.325",
    "claude-agent-acp": "@agentclientprotocol/claude-agent-acp@0.99.1",
    "codex": "@openai/codex@0.166.0",
    "codex-acp": "@zed-industries/codex-acp@0.16.0",
}

SLOW = "SLOW 400 50"
BASH = 'TOOL Bash {"command": "echo hi", "description": "greet"}'
# Permission is needed for what is not merely read.
TOUCH = 'TOOL Bash {"command": "touch made", "description": "make"}'
SHELL = 'TOOL exec_command {"cmd": "echo hi"}'
MODEL_FAILED = "its model answered with an error"

CLAUDE = {
    "claude": Subject(
        agent="real/claude",
        slow=SLOW,
        fail="FAIL 400",
        reason=MODEL_FAILED,
        tool=BASH,
        tool_name="Bash",
    ),
    "claude-kept": Subject(
        agent="real/claude-kept",
        slow=SLOW,
        fail="FAIL 400",
        reason=MODEL_FAILED,
        tool=BASH,
        tool_name="Bash",
    ),
    "claude-acp": Subject(
        agent="real/claude-acp",
        slow=SLOW,
        fail="FAIL 400",
        reason=MODEL_FAILED,
        tool=BASH,
        tool_name="Bash",
        ask=TOUCH,
    ),
}
CODEX = {
    "codex": Subject(
        agent="real/codex",
        slow=SLOW,
        # It tells its answers whole.
        begins=False,
        fail="FAIL 400",
        reason=MODEL_FAILED,
        tool=SHELL,
        tool_name="shell",
    ),
    "codex-acp": Subject(
        agent="real/codex-acp",
        slow=SLOW,
        fail="FAIL 400",
        reason=MODEL_FAILED,
        ask='TOOL exec_command {"cmd": "touch made"}',
        # A no ends the turn.
        answers=("1",),
    ),
}

CODEX_CONFIG = """
model = "fake-1"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def config(model: ModelProcess, home: Path) -> str:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=model.url))
    work = home / "work"
    work.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": f"{NODE}:{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "fake-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "FAKE_KEY": "fake-key",
    }

    def agent(name: str, kind: str, command: list[str], **keys: Any) -> str:
        program = PACKAGES / PROGRAMS[command[0]] / "node_modules" / ".bin" / command[0]
        table = {"kind": kind, "command": [str(program), *command[1:]], "cwd": str(work)}
        table |= {"inherit_env": [], **keys}
        pairs = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        own = ", ".join(f"{key} = {json.dumps(value)}" for key, value in environment.items())
        backend = ", ".join([*pairs, f"env = {{ {own} }}"])
        return f'[agents."real/{name}"]\nname = "{name}"\nbackend = {{ {backend} }}\n'

    claude = ["claude", "--allowedTools", "Bash"]
    codex = ["codex", "exec", "-s", "read-only", "--skip-git-repo-check"]
    tools = ["agent_call"]
    made = "".join(
        [
            agent("claude", "command", claude, format="claude", tools=tools),
            agent(
                "claude-kept", "command", claude, format="claude", session="session", tools=tools
            ),
            agent("claude-acp", "acp", ["claude-agent-acp"], tools=tools),
            agent("codex", "command", codex, format="codex", tools=tools),
            agent(
                "codex-acp", "acp", ["codex-acp", "-c", "approval_policy=untrusted"], tools=tools
            ),
            '[agents."real/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n',
        ]
    )
    assert len(tomllib.loads(made)["agents"]) == 6
    return made


@pytest.fixture(scope="module")
def model() -> Iterator[ModelProcess]:
    with model_process() as model:
        yield model.start()


@pytest.fixture(scope="module")
def gateway(
    gateways: Make, model: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    made = gateways(agents=config(model, tmp_path_factory.mktemp("home"))).start()
    yield made
    print(made.stderr)
    made.clean_up()


@pytest.mark.claude
@pytest.mark.parametrize(("subject", "trial"), cases(CLAUDE))
async def test_claude(gateway: Gateway, subject: Subject, trial: Trial) -> None:
    await trial(gateway, subject)


@pytest.mark.codex
@pytest.mark.parametrize(("subject", "trial"), cases(CODEX))
async def test_codex(gateway: Gateway, subject: Subject, trial: Trial) -> None:
    await trial(gateway, subject)


@pytest.mark.claude
@pytest.mark.parametrize("subject", CLAUDE.values(), ids=CLAUDE.keys())
async def test_claude_remembers(gateway: Gateway, model: ModelProcess, subject: Subject) -> None:
    await remembers(gateway, model, subject)


@pytest.mark.codex
@pytest.mark.parametrize("subject", CODEX.values(), ids=CODEX.keys())
async def test_codex_remembers(gateway: Gateway, model: ModelProcess, subject: Subject) -> None:
    await remembers(gateway, model, subject)


ASK = {"agent": "real/echo", "input": "who is there", "wait": True}


@pytest.mark.claude
@pytest.mark.parametrize("subject", CLAUDE.values(), ids=CLAUDE.keys())
async def test_claude_asks_another_agent(gateway: Gateway, subject: Subject) -> None:
    await asks(gateway, subject, "mcp__trunkline__agent_call")


@pytest.mark.codex
@pytest.mark.parametrize("subject", CODEX.values(), ids=CODEX.keys())
async def test_codex_asks_another_agent(gateway: Gateway, subject: Subject) -> None:
    await asks(gateway, subject, "mcp__trunkline/agent_call")


async def asks(gateway: Gateway, subject: Subject, tool: str) -> None:
    """By MCP, with the token of the turn."""
    text = f"TOOL {tool} {json.dumps(ASK)}"
    task = await send(gateway, text, agent=subject.agent)
    if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
        task = await send(gateway, subject.answers[0], agent=subject.agent, taskId=task["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    told = text_of(task).replace("\\", "")
    assert '"skill_response"' in told
    assert '"status":"completed"' in told


@pytest.mark.codex
async def test_codex_gives_up_without_permission(gateway: Gateway) -> None:
    subject = CODEX["codex-acp"]
    asked = await send(gateway, subject.ask, agent=subject.agent)
    task = await send(gateway, "No", agent=subject.agent, taskId=asked["id"])
    assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_FAILED", DENIED)


async def remembers(gateway: Gateway, model: ModelProcess, subject: Subject) -> None:
    """A session goes on over turns, and over a gateway that was killed in between."""
    context = f"context-of-{subject.agent}"
    first = await send(gateway, "the word is marmalade", agent=subject.agent, contextId=context)
    assert "marmalade" in text_of(first)
    await send(gateway, "and then", agent=subject.agent, contextId=context)
    gateway.kill()
    gateway.start()
    await send(gateway, "what was it", agent=subject.agent, contextId=context)
    asked = [request for request in model.requests() if request["text"].endswith("what was it")]
    assert "marmalade" in json.dumps(asked[-1]["body"])
    other = await send(gateway, "another context", agent=subject.agent)
    assert other["status"]["state"] == "TASK_STATE_COMPLETED"
    asked = [request for request in model.requests() if request["text"] == "another context"]
    assert "marmalade" not in json.dumps(asked[-1]["body"])
