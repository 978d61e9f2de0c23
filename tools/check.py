"""Runs every check of the project and sums up; ./check calls it in its environment."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sys.executable).parent
JAVASCRIPT = ROOT / "tests" / "acceptance" / "js"
# What @a2a-js/sdk asks for.
NODE_MAJOR = 20

Step = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    name: str
    outcome: str
    seconds: float

    @property
    def failed(self) -> bool:
        return self.outcome.startswith("FAILED")


def main() -> int:
    options = parse()
    steps = fixing() if options.fix else checking(options)
    results = [run(name, step) for name, step in steps.items()]
    print("\n== summary")
    for result in results:
        print(f"{result.name:<12}{result.seconds:7.1f} s  {result.outcome}")
    failed = [result.name for result in results if result.failed]
    total = sum(result.seconds for result in results)
    print(f"{'total':<12}{total:7.1f} s  {'FAILED: ' + ', '.join(failed) if failed else 'ok'}")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./check",
        description="Runs all checks, or those named, also when an earlier one fails.",
        epilog="Arguments after -- go to pytest: ./check tests -- tests/unit -k cancel",
    )
    names = ["format", "lint", "types", "imports", "javascript", "tests"]
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"of {', '.join(names)}; all if none is named"
    )
    parser.add_argument(
        "--fix", action="store_true", help="format, apply safe lint fixes, and stop"
    )
    parser.add_argument("--full", action="store_true", help="also run the long tests, marked full")
    parser.add_argument(
        "-j", "--jobs", type=int, default=0, metavar="N", help="run tests in N processes"
    )
    ours, pytest_arguments = split(sys.argv[1:])
    options = parser.parse_args(ours)
    if unknown := set(options.steps) - set(names):
        parser.error(f"no such step: {', '.join(sorted(unknown))} (there are {', '.join(names)})")
    options.steps = options.steps or names
    options.pytest = pytest_arguments
    return options


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def fixing() -> dict[str, Step]:
    return {
        "lint": lambda: python("-m", "ruff", "check", "--fix-only"),
        "format": lambda: python("-m", "ruff", "format"),
    }


def checking(options: argparse.Namespace) -> dict[str, Step]:
    pytest = [] if options.full else ["-m", "not full"]
    pytest += ["-n", str(options.jobs)] if options.jobs else []
    pytest += options.pytest
    steps: dict[str, Step] = {
        "format": lambda: python("-m", "ruff", "format", "--check"),
        "lint": lambda: python("-m", "ruff", "check"),
        "types": lambda: python("-m", "mypy"),
        "imports": lambda: python(SCRIPTS / "lint-imports", "--no-logo"),
        "javascript": javascript,
        "tests": lambda: python("-m", "pytest", *pytest),
    }
    return {name: step for name, step in steps.items() if name in options.steps}


def run(name: str, step: Step) -> Result:
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    outcome = step()
    return Result(name=name, outcome=outcome, seconds=time.monotonic() - started)


def python(*arguments: str | Path) -> str:
    # Through the interpreter: a script's first line names the path its environment was made at.
    return outcome_of(subprocess.run([sys.executable, *arguments], cwd=ROOT))


def javascript() -> str:
    """Installs the packages of the JavaScript interop tests, if Node.js is there to run them."""
    if reason := no_node():
        print(f"the JavaScript interop tests will be skipped: {reason}")
        return f"skipped: {reason}"
    lock, installed = (
        JAVASCRIPT / "package-lock.json",
        JAVASCRIPT / "node_modules" / "installed.json",
    )
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        print("up to date")
        return "ok"
    # A cache of our own, since the home folder may not be writable.
    cache = {"npm_config_cache": str(Path(sys.prefix) / "npm-cache")}
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    outcome = outcome_of(subprocess.run(command, cwd=JAVASCRIPT, env=os.environ | cache))
    if outcome == "ok":
        shutil.copyfile(lock, installed)
    return outcome


def no_node() -> str:
    if not shutil.which("node") or not shutil.which("npm"):
        return f"Node.js {NODE_MAJOR} or newer with npm is not on PATH"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major = re.match(r"v(\d+)\.", version)
    if not major or int(major[1]) < NODE_MAJOR:
        return f"Node.js is {version or 'broken'}, {NODE_MAJOR} or newer is needed"
    return ""


def outcome_of(process: "subprocess.CompletedProcess[bytes]") -> str:
    return "ok" if process.returncode == 0 else f"FAILED (exit code {process.returncode})"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
