import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

run = CliRunner().invoke

TARGETS = """\
[store]
kind = "memory"
[targets.support]
base_url = "https://support.example"
[remote]
handles_path = "handles.db"
"""


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    file = tmp_path / "trunkline.toml"
    file.write_text(TARGETS)
    return str(file)


def test_the_tools_are_listed(config: str) -> None:
    result = run(app, ["tool", "--list", "--config", config])
    assert result.exit_code == 0
    assert result.stdout.startswith("remote_agent  Delegate work")


def test_schemas_know_the_aliases_of_the_file(config: str) -> None:
    plain = run(app, ["tool", "remote_agent", "--schema", "json", "--config", config])
    schema = json.loads(plain.stdout)["inputSchema"]
    assert schema["properties"]["target_alias"]["enum"] == ["support"]
    openai = json.loads(run(app, ["tool", "--schema", "openai", "-c", config]).stdout)
    assert openai[0]["function"]["parameters"] == schema
    anthropic = json.loads(run(app, ["tool", "--schema", "anthropic", "-c", config]).stdout)
    assert anthropic[0]["input_schema"] == schema
    assert openai[0]["function"]["name"] == anthropic[0]["name"] == "remote_agent"


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        ([], "", "error: name a tool and give it a request: trunkline tool remote_agent"),
        (["remote_agnt", "{}"], "", 'error: there is no tool "remote_agnt". Did you mean'),
        (["remote_agnt", "--schema", "json"], "", 'error: there is no tool "remote_agnt".'),
        (["remote_agent"], " ", "error: there is no request. Give it as JSON"),
        (["remote_agent", "-"], "", "error: there is no request."),
        (["remote_agent", "{"], "", "error: the request is not JSON: "),
        (["remote_agent", "-"], "{]", "error: the request is not JSON: "),
    ],
)
def test_wrong_use_says_what_is_right(
    config: str, arguments: list[str], given: str, message: str
) -> None:
    result = run(app, ["tool", *arguments, "--config", config], input=given)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stdout == ""


def test_a_tool_that_is_off_is_not_there(config: str) -> None:
    Path(config).write_text(f"{TARGETS}enabled = false\n")
    result = run(app, ["tool", "remote_agent", "{}", "--config", config])
    assert result.exit_code == 2
    assert result.stderr == (
        'error: there is no tool "remote_agent". There is agent_call, agent_poll, '
        "agent_call_batch, debate_call.\n"
    )


def test_without_a_file_nobody_is_configured(config: str) -> None:
    result = run(app, ["tool", "remote_agent", '{"action":"list_targets"}'])
    assert json.loads(result.stdout)["summary"] == {"targets": []}
    sent = (
        '{"action":"send","target_url":"http://127.0.0.1:9","parts":[{"kind":"text","text":"x"}]}'
    )
    refused = run(app, ["tool", "remote_agent", sent])
    assert refused.exit_code == 2
    [error] = json.loads(refused.stdout)["error"]["details"]["errors"]
    assert error["message"] == "must resolve to a configured target or be allowed by policy"


def test_handles_go_to_the_folder_that_is_named(config: str, tmp_path: Path) -> None:
    Path(config).write_text('[targets.support]\nbase_url = "https://support.example"\n')
    request = '{"action":"status","task_handle":"rah_1"}'
    options = ["--config", config, "--data", str(tmp_path / "own")]
    result = run(app, ["tool", "remote_agent", request, *options])
    assert result.exit_code == 1
    assert (tmp_path / "own" / "handles.db").exists()


def test_mcp_says_what_to_install_where_it_is_missing(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.server.mcp.find_spec", lambda _: None)
    missing = (
        "error: MCP needs the package mcp, which is not installed. "
        f"Install it: {sys.executable} -m pip install 'trunkline[mcp]'\n"
    )
    result = run(app, ["mcp", "--config", config])
    assert (result.exit_code, result.stderr) == (2, missing)
    Path(config).write_text(f"{TARGETS}mcp = true\n")
    result = run(app, ["serve", "--port", "0", "--config", config])
    assert (result.exit_code, result.stderr) == (2, missing)
