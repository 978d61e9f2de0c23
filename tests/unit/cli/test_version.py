import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app
from trunkline.version import VERSION

run = CliRunner().invoke
SRC = Path(__file__).parents[3] / "src"


def test_the_version_is_printed() -> None:
    assert run(app, ["version"]).stdout == f"trunkline {VERSION}\n"
    assert run(app, ["--version"]).stdout == f"trunkline {VERSION}\n"
    assert json.loads(run(app, ["version", "-o", "json"]).stdout)["version"] == VERSION


def test_no_arguments_print_help() -> None:
    result = run(app, [])
    assert result.exit_code == 0
    for word in ("serve", "config", "version", "Exit codes"):
        assert word in result.stdout


def test_an_unknown_command_is_wrong_use() -> None:
    assert run(app, ["sevre"]).exit_code == 2


@pytest.mark.parametrize("argument", ["version", "--help"])
def test_it_runs_as_a_module_and_imports_no_more_than_it_needs(argument: str) -> None:
    code = (
        f"import sys; sys.argv = ['trunkline', '{argument}']\n"
        "from trunkline.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('trunkline.settings', 'trunkline.app', 'uvicorn', 'asyncio', 'rich', 'ssl',\n"
        "         'sqlite3')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SRC)},
        check=True,
    )
    first, *_, loaded = done.stdout.splitlines()
    assert first.startswith(f"trunkline {VERSION}" if argument == "version" else "Usage: ")
    assert loaded == "[]"
