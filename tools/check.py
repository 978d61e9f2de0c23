"""Runs every check of the project, the quick ones first; ./check calls it in its environment."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from tools import coverage_floors
from tools.tracked import tracked_files, untracked_hint

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sys.executable).parent
JAVASCRIPT = ROOT / "tests" / "acceptance" / "js"
SDK03 = ROOT / "tests" / "acceptance" / "sdk03"
# @a2a-js/sdk needs it.
NODE_MAJOR = 20
# With more processes the run takes as long as its longest file.
MAX_JOBS = 4

# Packages from npm that the suites run against, and the Node.js that runs those.
PACKAGES = ROOT / ".cache" / "npm"
NODE = "node@24"

Step = Callable[[], str]

# Steps of one process, which run side by side: seconds first, then installs.
SHORT_STEPS = ("format", "lint", "imports", "types", "docs", "javascript", "peers")
# Steps that use every core, and take minutes.
LONG_STEPS = ("coverage", "tests")
STEPS = SHORT_STEPS + LONG_STEPS

# The file for the output of a step that runs beside others; None for the terminal.
_output: ContextVar[IO[str] | None] = ContextVar("output", default=None)


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests against real programs, which run only with the option of that name.

    Their marker has the same name; pyproject.toml and tests/conftest.py list it.
    """

    against: str
    packages: tuple[str, ...]


SUITES = {
    "openclaw": Suite("the real OpenClaw", ("openclaw@2026.9.6", "openclaw@2026.5.28")),
    "claude": Suite(
        "the real Claude Code, and by its ACP adapter",
        ("@anthropic-ai/claude-code@2.1.325", "@agentclientprotocol/claude-agent-acp@0.99.1"),
    ),
    "codex": Suite(
        "the real Codex, and by its ACP adapter",
        ("@openai/codex@0.166.0", "@zed-industries/codex-acp@0.16.0"),
    ),
}


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
    if not options.fix and (hint := untracked_hint(ROOT)):
        print(hint, flush=True)
    started = time.monotonic()
    results = run_all(steps, jobs=options.jobs, stops_early=options.fail_fast)
    total = time.monotonic() - started
    print("\n== summary")
    for result in results:
        print(f"{result.name:<12}{result.seconds:7.1f} s  {result.outcome}")
    failed = [result.name for result in results if result.failed]
    print(f"{'total':<12}{total:7.1f} s  {'FAILED: ' + ', '.join(failed) if failed else 'ok'}")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./check",
        description="Runs all steps, or only those named, on the files that git tracks. "
        "A failed step does not stop the later ones unless -x is given.",
        epilog="Arguments after -- go to pytest: ./check tests -- tests/unit -k cancel. "
        "The tests of the page, tests/browser, need Chromium on PATH, and are skipped without.",
    )
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"one of {', '.join(STEPS)} (default: all)"
    )
    parser.add_argument(
        "-x", "--fail-fast", action="store_true", help="stop at the first failed step or test"
    )
    parser.add_argument(
        "--fix", action="store_true", help="format, apply safe lint fixes, and stop"
    )
    parser.add_argument("--full", action="store_true", help="also run the long tests, marked full")
    parser.add_argument(
        "--frameworks",
        action="store_true",
        help="install and test LangGraph, pydantic-ai and Google ADK; nothing else unless named",
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        metavar="N",
        help=f"number of test processes (default: one per core, at most {MAX_JOBS})",
    )
    for name, suite in SUITES.items():
        parser.add_argument(
            f"--{name}",
            action="store_true",
            help=f"install and test {suite.against} with a fake model; nothing else unless named",
        )
    ours, pytest_arguments = split(sys.argv[1:])
    options = parser.parse_args(ours)
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))} (there are {', '.join(STEPS)})")
    options.suites = [name for name in SUITES if getattr(options, name)]
    is_suite_alone = options.suites or options.frameworks
    options.steps = options.steps or ([] if is_suite_alone else list(STEPS))
    if pytest_arguments:
        # Some of the tests cannot run most of the lines.
        options.steps = [step for step in options.steps if step != "coverage"]
    options.pytest = pytest_arguments
    # With one process, pytest shows the output of the named tests as they run.
    options.jobs = options.jobs or (1 if pytest_arguments else min(os.cpu_count() or 1, MAX_JOBS))
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
    sources = tracked_files(ROOT, "*.py", "*.pyi") or []
    docs, tests = test_files(options)
    quick = pytest_arguments(options, jobs=1)
    # Many of these tests wait for other processes: one more keeps the cores busy meanwhile.
    slow = pytest_arguments(options, jobs=options.jobs + (options.jobs > 1))
    steps: dict[str, Step] = {
        "format": lambda: python("-m", "ruff", "format", "--check", *sources),
        "lint": lambda: python("-m", "ruff", "check", *sources),
        "imports": lambda: python(SCRIPTS / "lint-imports", "--no-logo"),
        "types": lambda: python("-m", "mypy", *sources),
        "docs": lambda: python("-m", "pytest", "--quiet", *quick, *docs),
        "javascript": javascript,
        "peers": peers,
        "coverage": lambda: coverage_floors.check(options.jobs, pytest_arguments(options, jobs=1)),
        "tests": lambda: python("-m", "pytest", *slow, *tests),
    }
    chosen = {name: step for name, step in steps.items() if name in options.steps}
    for name in options.suites:
        chosen[name] = partial(run_suite, name, options.pytest)
    if options.frameworks:
        chosen["frameworks"] = lambda: frameworks(options.pytest)
    return chosen


def test_files(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The tests of the steps `docs` and `tests`; tests named after -- replace the latter."""
    found = tracked_files(ROOT, ":(glob)tests/**/test_*.py")
    if found is None:
        found = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")]
    # Those run in an environment of their own, when they are asked for.
    found = [name for name in found if not name.startswith("tests/frameworks/")]
    docs = [name for name in found if name.startswith("tests/docs/")]
    if any((ROOT / word.partition("::")[0]).exists() for word in options.pytest):
        return docs, options.pytest
    # The steps `docs` and `coverage` ran theirs before.
    done = [f"tests/{name}/" for name in coverage_floors.IN_PROCESS if "coverage" in options.steps]
    done += ["tests/docs/"] if "docs" in options.steps else []
    rest = [name for name in found if not name.startswith(tuple(done))]
    return docs, [*rest, *options.pytest]


def pytest_arguments(options: argparse.Namespace, *, jobs: int) -> list[str]:
    arguments = [] if options.full else ["-m", "not full"]
    arguments += ["--exitfirst"] if options.fail_fast else []
    arguments += ["--durations", "20", "--durations-min", "1"]
    return arguments + coverage_floors.parallel(jobs)


def frameworks(pytest_arguments: list[str]) -> str:
    """Runs the tests of our adapters in an environment with the packages themselves."""
    folder = ".venv-frameworks"
    outcome = python("-I", ROOT / "tools" / "bootstrap.py", "check", folder, "frameworks")
    if outcome != "ok":
        return outcome
    interpreter = ROOT / folder / "bin" / "python"
    tests = ["-m", "pytest", "-m", "frameworks", *(pytest_arguments or ["tests/frameworks"])]
    return call([interpreter, *tests])


def run_suite(name: str, pytest_arguments: list[str]) -> str:
    """Installs the packages of the suite and runs it, one test at a time: they are heavy."""
    if reason := no_node():
        return f"FAILED: {reason}"
    for package in (NODE, *SUITES[name].packages):
        outcome = install(package)
        if outcome != "ok":
            return outcome
    return python("-m", "pytest", "-m", name, *(pytest_arguments or ["tests"]))


def install(package: str) -> str:
    """A package of npm in a folder of its own, once."""
    folder = PACKAGES / package
    done = folder / "installed"
    if done.exists():
        print(f"{package} is installed")
        return "ok"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}")
    node = PACKAGES / NODE / "node_modules" / ".bin"
    environment = {
        "npm_config_cache": str(PACKAGES / "cache"),
        "PATH": f"{node}{os.pathsep}{os.environ['PATH']}",
    }
    command: list[str | Path] = ["npm", "install", "--no-audit", "--no-fund", package]
    print(f"installing {package}", flush=True)
    outcome = call(command, cwd=folder, env=environment)
    if outcome == "ok":
        done.touch()
    return outcome


def run_all(steps: dict[str, Step], *, jobs: int, stops_early: bool) -> list[Result]:
    short = [name for name in steps if name in SHORT_STEPS]
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(jobs) as pool:
        beside: dict[str, Future[Result]] = {}
        if jobs > 1 and len(short) > 1 and not stops_early:
            beside = {name: pool.submit(run_in_file, name, steps[name]) for name in short}
        # mypy has one core, and takes longer than the other short steps together.
        wait(future for name, future in beside.items() if name != "types")
        for name, step in steps.items():
            if name in beside:
                continue
            if stops_early and any(result.failed for result in results.values()):
                results[name] = Result(name=name, outcome="not run", seconds=0)
            else:
                print(f"\n== {name}", flush=True)
                results[name] = run(name, step)
                show_failure(results[name])
        results |= {name: future.result() for name, future in beside.items()}
    return [results[name] for name in steps]


def run_in_file(name: str, step: Step) -> Result:
    """Runs a step beside others, and shows its output when it ends."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        _output.set(file)
        result = run(name, step)
        file.seek(0)
        failure = f"== {name}: {result.outcome}\n" if result.failed else ""
        # At once, so that the outputs of two steps stay apart.
        sys.stdout.write(f"\n== {name}\n{file.read()}{failure}")
        sys.stdout.flush()
    return result


def run(name: str, step: Step) -> Result:
    started = time.monotonic()
    outcome = step()
    return Result(name=name, outcome=outcome, seconds=time.monotonic() - started)


def show_failure(result: Result) -> None:
    if result.failed:
        print(f"== {result.name}: {result.outcome}", flush=True)


def python(*arguments: str | Path) -> str:
    # Through the interpreter: a script's first line names the path its environment was made at.
    return call([sys.executable, *arguments])


def call(command: list[str | Path], *, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    output = _output.get()
    process = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | (env or {}),
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
    )
    return "ok" if process.returncode == 0 else f"FAILED (exit code {process.returncode})"


def say(text: str) -> None:
    print(text, file=_output.get(), flush=True)


def javascript() -> str:
    """Installs the packages of the JavaScript interop tests, if Node.js is there to run them."""
    if reason := no_node():
        say(f"the JavaScript interop tests will be skipped: {reason}")
        return f"skipped: {reason}"
    lock, installed = (
        JAVASCRIPT / "package-lock.json",
        JAVASCRIPT / "node_modules" / "installed.json",
    )
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        say("up to date")
        return "ok"
    # A cache of our own, since the home folder may not be writable.
    cache = {"npm_config_cache": str(Path(sys.prefix) / "npm-cache")}
    command: list[str | Path] = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    outcome = call(command, cwd=JAVASCRIPT, env=cache)
    if outcome == "ok":
        shutil.copyfile(lock, installed)
    return outcome


def peers() -> str:
    """Installs the agents of other releases that the bridge tests run, each in its own place."""
    lock, place = SDK03 / "requirements.txt", SDK03 / ".venv"
    installed = place / "installed.txt"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        say("up to date")
        return "ok"
    venv.create(place, clear=True, with_pip=True)
    python = place / "bin" / "python"
    pip = ("-m", "pip", "install", "--quiet", "--require-hashes")
    outcome = call([python, *pip, "-r", lock])
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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
