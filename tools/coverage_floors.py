"""Floors for the share of lines that tests run, per package; the step `coverage` of ./check.

The pure packages are proven by their own unit tests alone. The others are measured in the run of
all tests that need no second process, so a floor below 100 does not say that a line is untested.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".cache" / "coverage"

# By their own tests: tests/unit/<package>, which run one after the other, beside all others.
OWN_FLOORS = {"protocol": 98, "engine": 98, "model": 98}
# By all tests in IN_PROCESS: what they have, rounded down. Raise one when it can be raised.
FLOORS = {
    "api": 95,
    "app": 83,
    "backends": 83,
    "cli": 78,
    "console": 95,
    "ports": 100,
    "relay": 91,
    "remote": 66,
    "runtime": 96,
    "server": 69,
    "settings": 99,
    "stores": 95,
    "testing": 85,
}
IN_PROCESS = ("unit", "contract", "runtime", "cluster", "postgres", "relay", "console")


def check(jobs: int, arguments: list[str]) -> str:
    """Runs the tests in IN_PROCESS. Returns "ok", or what is wrong."""
    DATA.mkdir(parents=True, exist_ok=True)
    folders = [f"tests/{folder}" for folder in IN_PROCESS]
    # Those run by themselves.
    folders += [f"--ignore=tests/unit/{package}" for package in OWN_FLOORS]
    with ThreadPoolExecutor(1) as pool:
        running = {package: pool.submit(_run_own, package) for package in OWN_FLOORS}
        if jobs == 1:
            wait(running.values())
        passed = _run("all", "trunkline", [*arguments, *parallel(jobs), *folders]).returncode == 0
        own = {package: future.result() for package, future in running.items()}
    for package, ran in own.items():
        print(ran.stdout, end="", flush=True)
        if ran.returncode:
            return f"FAILED: tests of {package}"
    found = _shares("all") | {package: _shares(package)[package] for package in own}
    low = []
    for package, floor in sorted({**FLOORS, **OWN_FLOORS}.items()):
        by = "own tests" if package in OWN_FLOORS else "tests"
        print(f"{package:<10} {found[package]:6.2f} % of lines by its {by}, floor {floor}")
        if found[package] < floor:
            low.append(package)
    if not passed:
        return "FAILED: tests"
    return f"FAILED: too few lines of {', '.join(low)} are tested" if low else "ok"


def parallel(jobs: int) -> list[str]:
    """The options of pytest for several processes: the tests of a file stay together, since they
    share the servers that it starts, and the files keep the order of tests/conftest.py."""
    if jobs == 1:
        return []
    return ["-n", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"]


def _run_own(package: str) -> "subprocess.CompletedProcess[str]":
    source = f"trunkline.{package}"
    return _run(package, source, ["--quiet", f"tests/unit/{package}"], is_captured=True)


def _run(
    name: str, source: str, arguments: list[str], *, is_captured: bool = False
) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"COVERAGE_FILE": str(DATA / name)}
    # Without a report: pytest-cov reads all sources twice for one.
    options = [f"--cov={source}", "--cov-report="]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE if is_captured else None,
        stderr=subprocess.STDOUT if is_captured else None,
        text=True,
    )


def _shares(name: str) -> dict[str, float]:
    """The share of lines that ran, by package."""
    measured = Coverage(data_file=DATA / name, config_file=ROOT / "pyproject.toml")
    measured.load()
    lines: dict[str, list[int]] = {}
    for path in measured.get_data().measured_files():
        _, statements, _, missing, _ = measured.analysis2(path)
        parts = Path(path).parts
        of_package = lines.setdefault(parts[parts.index("trunkline") + 1], [0, 0])
        of_package[0] += len(statements) - len(missing)
        of_package[1] += len(statements)
    return {package: 100 * ran / max(1, all_) for package, (ran, all_) in lines.items()}
