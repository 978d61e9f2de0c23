import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

KEY = "0123456789abcdef0123"
AGENT = '[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
GOOD = f'[store]\npath = "x.db"\n[auth.keys.ci]\nkey = "${{CI_KEY}}"\n{AGENT}'

run = CliRunner().invoke


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CI_KEY", KEY)
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    return file


def test_check_says_what_the_file_holds(good: Path) -> None:
    result = run(app, ["config", "check", str(good)])
    assert result.exit_code == 0
    assert result.stdout == f"ok: 1 agent, sqlite at {good.parent}/x.db\n"


def test_check_names_the_folder_of_json_files(good: Path) -> None:
    good.write_text(GOOD.replace('"x.db"', '"/x"\nkind = "json-file"'))
    result = run(app, ["config", "check", str(good)])
    assert result.stdout == "ok: 1 agent, json-file at /x\n"


def test_check_counts_agents_and_names_the_memory(good: Path) -> None:
    good.write_text(f'[store]\nkind = "memory"\n{AGENT}{AGENT.replace("/echo", "/b")}')
    assert run(app, ["config", "check", str(good)]).stdout == "ok: 2 agents, in memory\n"


def test_check_counts_targets(good: Path) -> None:
    target = '[targets.support]\nbase_url = "https://support.example"\n'
    good.write_text(target)
    assert run(app, ["config", "check", str(good)]).stdout == "ok: 1 target\n"
    good.write_text(f'[store]\nkind = "memory"\n{AGENT}{target}')
    assert run(app, ["config", "check", str(good)]).stdout == "ok: 1 agent, in memory; 1 target\n"


def test_check_prints_a_document_for_programs(good: Path) -> None:
    good.write_text(f'{GOOD}[targets.support]\nbase_url = "https://support.example"\n')
    result = run(app, ["config", "check", str(good), "-o", "json"])
    assert json.loads(result.stdout) == {
        "ok": True,
        "agents": ["acme/echo"],
        "stores": [f"sqlite at {good.parent}/x.db"],
        "targets": ["support"],
        "notes": [],
    }


def test_check_takes_the_file_from_the_environment(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(app, ["config", "check"]).exit_code == 2
    monkeypatch.setenv("TRUNKLINE_CONFIG", str(good))
    assert run(app, ["config", "check"]).exit_code == 0


def test_check_prints_all_problems_on_stderr(good: Path) -> None:
    good.write_text(f"[server]\nport = 70000\nprot = 1\n{AGENT}")
    result = run(app, ["config", "check", str(good)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {good} has 2 problems:\n- server.prot: unknown key.")
    assert "- server.port = 70000: expected a whole number <= 65535." in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--debug", "config", "check", "none"], ["config", "check", "none", "--debug"]]
)
def test_debug_shows_the_traceback(arguments: list[str]) -> None:
    result = run(app, arguments)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "error: none: no such file" in result.stderr


def test_show_masks_secrets(good: Path) -> None:
    result = run(app, ["config", "show", str(good)])
    assert result.exit_code == 0
    assert KEY not in result.stdout
    shown = tomllib.loads(result.stdout)
    assert shown["auth"]["keys"]["ci"] == {"key": "***", "attach": []}
    assert shown["server"]["port"] == 8642
    assert shown["store"]["path"] == str(good.parent / "x.db")
    same = run(app, ["config", "show", str(good), "-o", "json"])
    assert json.loads(same.stdout) == shown


def test_show_without_a_file_is_the_demo(good: Path) -> None:
    result = run(app, ["config", "show", "-o", "json"])
    assert list(json.loads(result.stdout)["agents"]) == ["demo/echo"]


def test_schema_is_json() -> None:
    result = run(app, ["config", "schema"])
    assert json.loads(result.stdout)["title"] == "Trunkline configuration"


OPENCLAW = '{channels: {a2a: {accounts: {main: {publicBaseUrl: "https://a.example"}, b: {}}}}}'


def test_an_openclaw_file_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    file = tmp_path / "openclaw.json"
    file.write_text(OPENCLAW.replace("b: {}", "b: {agentCardPath: '/b', jsonRpcPath: '/c'}"))
    result = run(app, ["config", "check", "--openclaw-config", str(file)])
    assert result.exit_code == 0, result.output
    ok, *notes = result.stdout.splitlines()
    assert ok == "ok: 2 agents, in memory"
    message = "publicBaseUrl is required to advertise a valid agent card."
    assert f'note: account "b" does not run. {message}' in notes


def test_what_is_wrong_with_an_openclaw_file_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    file = tmp_path / "openclaw.json"
    file.write_text(OPENCLAW)
    result = run(app, ["config", "check", "--openclaw-config", str(file)])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"error: {file}: channels.a2a.accounts.main reuses route path "
        '"/.well-known/agent-card.json" already assigned to account "b"',
        'channels.a2a.accounts.main reuses route path "/a2a/jsonrpc" already assigned to '
        'account "b"',
    ]


def test_an_openclaw_file_is_shown_as_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    file, same = tmp_path / "openclaw.json", tmp_path / "same.toml"
    file.write_text(OPENCLAW.replace(", b: {}", ""))
    shown = run(app, ["config", "show", "--openclaw-config", str(file)]).stdout
    same.write_text(shown)
    # What is shown can be kept instead of the file.
    assert run(app, ["config", "show", str(same)]).stdout == shown
