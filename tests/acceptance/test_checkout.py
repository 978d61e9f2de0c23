"""The command `./trunkline` of a checkout, and the environment that it makes."""

import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

from tools.bootstrap import Environment

ROOT = Path(__file__).parents[2]


def test_lines_to_copy_name_the_command_of_the_checkout(tmp_path: Path) -> None:
    for name in ("trunkline", "pyproject.toml", "requirements/runtime.txt", "tools/environment.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    installed = tmp_path / ".venv" / "installed"
    installed.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", installed / "pyproject.toml")
    shutil.copy(ROOT / "requirements" / "runtime.txt", installed / "lock.txt")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    shown = subprocess.run(
        ["./trunkline", "serve", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert "Usage: ./trunkline serve " in shown.stdout, shown.stderr


def test_the_environment_knows_what_the_extras_need(tmp_path: Path) -> None:
    environment = Environment("trunkline", str(tmp_path), "runtime")
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for folder in (packages, environment.marks):
        folder.mkdir(parents=True)
    environment.link_project()
    (info,) = packages.glob("*.dist-info")
    project = Distribution.at(info)
    assert project.metadata.get_all("Provides-Extra") == [
        "hub",
        "mcp",
        "openclaw",
        "postgres",
        "signatures",
    ]
    assert project.requires is not None
    assert any(line.startswith("mcp>=") and 'extra == "mcp"' in line for line in project.requires)
