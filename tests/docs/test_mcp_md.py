"""docs/guides/mcp.md does what it says, as far as it is ours."""

import re
import tomllib
from pathlib import Path

import pyjson5
import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app
from trunkline.settings import load

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCKS if found == kind]


def test_the_files_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("TRUNKLINE_KEY", "fedcba9876543210")
    targets, _, gateway = blocks("toml")
    file = tmp_path / "trunkline.toml"
    file.write_text(targets)
    assert list(load(file).targets) == ["support"]
    file.write_text(targets + gateway)
    settings = load(file)
    assert (settings.remote.mcp, settings.agents) == (True, {})


def test_hosts_are_told_of_a_command_that_exists() -> None:
    codex = tomllib.loads(blocks("toml")[1])["mcp_servers"]["trunkline"]
    [file] = blocks("json5")
    openclaw = pyjson5.decode(file)["mcp"]["servers"]["trunkline"]
    for server in (codex, openclaw):
        assert (server["command"], server["args"][0]) == ("trunkline", "mcp")
        # The option is known, and it is the file that is not there.
        result = CliRunner().invoke(app, server["args"])
        assert result.exit_code == 2
        assert f"{server['args'][2]}: no such file" in result.stderr
