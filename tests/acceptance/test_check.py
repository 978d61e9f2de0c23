"""`./check` in a small checkout: which files it reads, when it stops, when it shows a failure."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "pyproject.toml",
    "tools/check.py",
    "tools/coverage_floors.py",
    "tools/tracked.py",
    "tests/failures_at_once.py",
)
CONFTEST = """from tests.failures_at_once import pytest_configure

__all__ = ["pytest_configure"]
"""
BADLY_FORMATTED = "import os\nx = {  'a':1 }\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in COPIED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    return tmp_path


def git(checkout: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=checkout, check=True)


def check(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.check", *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=100)


def test_an_agent_saved_in_the_checkout_is_not_checked(checkout: Path) -> None:
    (checkout / "trip.py").write_text(BADLY_FORMATTED)
    ran = check(checkout, "format", "lint", "types")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    hint, *_ = ran.stdout.splitlines()
    assert hint == (
        "not checked, because git does not track it: trip.py (git add -N FILE includes a file)"
    )


def test_a_file_that_git_was_told_of_is_checked(checkout: Path) -> None:
    (checkout / "trip.py").write_text(BADLY_FORMATTED)
    git(checkout, "add", "-N", "trip.py")
    ran = check(checkout, "format", "lint")
    assert ran.returncode == 1
    assert "== lint: FAILED (exit code 1)" in ran.stdout
    assert "FAILED: format, lint" in ran.stdout
    assert "does not track" not in ran.stdout


def test_short_steps_run_side_by_side_and_show_their_output_apart(checkout: Path) -> None:
    (checkout / "bad.py").write_text(BADLY_FORMATTED)
    git(checkout, "add", "--all")
    ran = check(checkout, "-j", "3", "lint", "types", "format")
    assert ran.returncode == 1
    steps, _, summary = ran.stdout.partition("\n== summary\n")
    shown = {text.partition("\n")[0]: text for text in steps.split("\n== ")[1:]}
    assert "1 file would be reformatted" in shown["format"]
    assert "--> bad.py:1:8" in shown["lint"]
    assert "Success: no issues found" in shown["types"]
    assert [line.split()[0] for line in summary.splitlines()] == [
        "format",
        "lint",
        "types",
        "total",
    ]
    assert "FAILED: format, lint" in summary


def test_an_untracked_test_runs_only_when_named(checkout: Path) -> None:
    (checkout / "tests" / "test_kept.py").write_text("def test_kept() -> None:\n    pass\n")
    git(checkout, "add", "--all")
    (checkout / "tests" / "test_draft.py").write_text("def test_draft() -> None:\n    assert 0\n")
    assert check(checkout, "tests", "-j", "1").returncode == 0
    assert check(checkout, "tests", "--", "tests/test_draft.py").returncode == 1


def test_it_stops_at_the_first_failed_step_on_request(checkout: Path) -> None:
    (checkout / "bad.py").write_text(BADLY_FORMATTED)
    git(checkout, "add", "--all")
    ran = check(checkout, "-x", "tests", "lint", "format")
    assert ran.returncode == 1
    summary = ran.stdout.partition("== summary\n")[2].splitlines()
    assert [line.split(" s  ")[1] for line in summary] == [
        "FAILED (exit code 1)",
        "not run",
        "not run",
        "FAILED: format",
    ]


def test_a_failed_test_is_shown_before_the_others_are_done(checkout: Path) -> None:
    seen = checkout / "seen"
    (checkout / "tests" / "test_a.py").write_text("def test_a() -> None:\n    assert 1 == 2\n")
    (checkout / "tests" / "test_b.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "def test_b() -> None:\n"
        f"    seen = Path({str(seen)!r})\n"
        "    for _ in range(600):\n"
        "        if seen.exists():\n"
        "            return\n"
        "        time.sleep(0.1)\n"
        "    raise AssertionError('nobody saw the failure of the other test')\n"
    )
    git(checkout, "add", "--all")
    command = [sys.executable, "-m", "tools.check", "tests", "-j", "2"]
    with subprocess.Popen(
        command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        shown = []
        for line in running.stdout:
            shown.append(line)
            if "assert 1 == 2" in line:
                seen.touch()
    text = "".join(shown)
    assert "FAILED tests/test_a.py::test_a (call)\n    tests/test_a.py:2: AssertionError\n" in text
    assert "1 failed, 1 passed" in text
