"""docs/guides/openclaw.md does what it says."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app
from trunkline.settings.openclaw.a2a_section import CARD_KEYS
from trunkline.settings.openclaw.load import load_openclaw

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "openclaw.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(kind: str) -> str:
    return str(next(body for found, body in BLOCKS if found == kind))


def test_the_outbound_plugin_is_enough_to_call_others(tmp_path: Path) -> None:
    [_, plugin] = [body for found, body in BLOCKS if found == "json5"]
    (tmp_path / "openclaw.json").write_text(plugin)
    settings = load_openclaw(tmp_path / "openclaw.json").settings
    assert settings.targets["support"].default
    assert settings.remote.enabled
    result = CliRunner().invoke(app, ["serve", "--openclaw-config", f"{tmp_path}/openclaw.json"])
    assert result.exit_code == 2
    assert "there is nothing to serve" in result.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, and what they ask of the environment."""
    (tmp_path / "openclaw.json").write_text(block("json5"))
    (tmp_path / "openclaw.yaml").write_text(block("yaml"))
    (tmp_path / "trunkline.toml").write_text(block("toml"))
    (tmp_path / "claw.py").write_text(block("python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARTNER_KEY", "0123456789abcdef")
    monkeypatch.setenv("A2A_API_KEY", "fedcba9876543210")
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    return tmp_path


def test_the_check_prints_what_is_shown(folder: Path) -> None:
    command = next(body for kind, body in BLOCKS if kind == "sh" and "config check" in body)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0
    for line, shown in zip(result.stdout.splitlines(), block("text").splitlines(), strict=True):
        assert line.startswith(shown.removesuffix("…"))


def test_the_commands_serve_what_the_page_says(folder: Path) -> None:
    commands = [body for kind, body in BLOCKS if kind == "sh" and "trunkline serve" in body]
    plain, keyed = (shlex.split(command) for command in commands)
    assert plain == ["trunkline", "serve", "claw.py", "--openclaw-config", "openclaw.json"]
    assert keyed == [*plain, "--config", "trunkline.toml"]
    found = load_openclaw("openclaw.json", target="claw.py")
    assert found.settings.allows_anonymous()
    locked = load_openclaw("openclaw.json", target="claw.py", config="trunkline.toml")
    assert [*locked.settings.auth.keys] == ["partner"]
    assert not locked.settings.allows_anonymous()
    assert '[agents."openclaw/default"]' in PAGE
    assert [*locked.settings.agents] == ["openclaw/default"]


def test_the_section_is_served_with_its_key(folder: Path) -> None:
    settings = load_openclaw("openclaw.yaml").settings
    assert [*settings.auth.keys] == ["openclaw"]
    assert settings.agents["openclaw-design/main"].jsonrpc_path == "/a2a"


def test_the_page_names_what_a_card_may_override() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `a2a.agentCard`"))
    named = {key for key in CARD_KEYS if f"`{key}`" in row}
    assert {"defaultInputModes", "defaultOutputModes", "skills"} == set(CARD_KEYS) - named
