"""Makes one of the project's environments; run by tools/environment.sh, standard library only.

An environment is a function of its lock file: when the lock changes it is made anew, so it
never holds a package that the lock does not name.
"""

import contextlib
import fcntl
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import tomllib
from collections import deque
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parent.parent
# Without a terminal to redraw a line on, a sign of life this often.
SIGN_OF_LIFE_S = 10.0


class Environment:
    def __init__(self, program: str, folder: str, lock: str) -> None:
        self.program = program
        self.folder = ROOT / folder
        self.lock = ROOT / "requirements" / f"{lock}.txt"
        self.pyproject = ROOT / "pyproject.toml"
        self.python = self.folder / "bin" / "python"
        # The folder says that the environment is ours, the copies in it that it is complete.
        self.marks = self.folder / "installed"
        self.installed_lock = self.marks / "lock.txt"
        self.installed_pyproject = self.marks / "pyproject.toml"

    def ensure(self) -> None:
        with self._only_one() as held:
            started = time.monotonic()
            if not (self._works() and same(self.lock, self.installed_lock)):
                self._create(held)
                self.link_project()
                self._say(f"ready in {time.monotonic() - started:.0f} s")
            elif not same(self.pyproject, self.installed_pyproject):
                self.link_project()

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[IO[str]]:
        path = self.folder.with_name(self.folder.name + ".lock")
        try:
            held = path.open("w")
        except OSError as error:
            self._fail(
                f"cannot write to {ROOT}: {error.strerror}.",
                "Make the folder writable, or work in a copy of it that is.",
            )
        with held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say(f"waiting for another process that is setting up {self.folder.name}")
                fcntl.flock(held, fcntl.LOCK_EX)
            yield held

    def _works(self) -> bool:
        # Fails when the interpreter that the environment was made from has gone.
        try:
            probe = subprocess.run([self.python, "-I", "-c", "import pip"], capture_output=True)
        except OSError:
            return False
        return probe.returncode == 0

    def _create(self, held: IO[str]) -> None:
        if find_spec("ensurepip") is None or find_spec("venv") is None:
            self._fail(
                f"{sys.executable} cannot make environments: it lacks venv or ensurepip.",
                "Install them (Debian/Ubuntu: apt install python3-venv), or name another Python: "
                "PYTHON=/path/to/python3",
            )
        if self.folder.exists() and not self.marks.exists():
            self._fail(
                f"{self.folder} is there already and was not made by this command.",
                "Move it away, then run this again.",
            )
        self._say(f"creating environment ({self.folder.name})")
        try:
            self._discard()
            self.marks.mkdir(parents=True)
            # The resolved name has the minor version in it. A plain "python3" would start to mean
            # another version when the system is upgraded, and the environment would be empty.
            base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
            self._run(
                [base, "-I", "-m", "venv", str(self.folder)],
                held,
                "Check free space and permissions, then run this again.",
            )
            count = len(re.findall(r"^[\w.-]+==", self.lock.read_text(), re.MULTILINE))
            self._say(f"installing packages (requirements/{self.lock.name})")
            pip = [str(self.python), "-I", "-m", "pip", "install", "--require-hashes", "--no-input"]
            pip += ["--disable-pip-version-check", "--progress-bar=off", "-r", str(self.lock)]
            self._run(
                pip,
                held,
                "Check the network (behind a proxy set HTTPS_PROXY, with a mirror PIP_INDEX_URL), "
                "then run this again.",
                total=count,
            )
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        # Renamed first: an interrupted removal leaves nothing behind that looks like ours.
        old = self.folder.with_name(self.folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if self.folder.exists():
            self.folder.rename(old)
            shutil.rmtree(old, ignore_errors=True)

    def _run(self, command: list[str], held: IO[str], remedy: str, total: int = 0) -> None:
        # pip settings that send packages elsewhere would leave the environment empty.
        settings = {
            k: v for k, v in os.environ.items() if k not in {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"}
        }
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=settings | {"PIP_USER": "0"},
            # The child keeps the lock: if this process is killed, nobody else starts before
            # the child, which still writes to the folder, is done.
            pass_fds=[held.fileno()],
        )
        assert process.stdout is not None
        tail: deque[str] = deque(maxlen=15)
        try:
            with Progress(total) as progress:
                for line in process.stdout:
                    tail.append(line.rstrip())
                    progress.feed(line)
        except BaseException:
            # Interrupted: nothing may write to the folder when it is discarded.
            process.kill()
            process.wait()
            raise
        if process.wait() != 0:
            for line in tail:
                print(f"  {line}", file=sys.stderr)
            if any("DO NOT MATCH THE HASHES" in line for line in tail):
                remedy = (
                    "A package is not the one that was locked: do not trust where it came from."
                )
            self._fail(f"could not set up {self.folder.name}: see the last lines above.", remedy)

    def link_project(self) -> None:
        """Makes the checkout importable, as an editable install would, without a build backend."""
        project = tomllib.loads(self.pyproject.read_text())["project"]
        (packages,) = self.folder.glob("lib/python3.*/site-packages")
        for old in packages.glob(f"{project['name']}-*.dist-info"):
            shutil.rmtree(old)
        version = runpy.run_path(str(ROOT / "src" / project["name"] / "version.py"))["VERSION"]
        info = packages / f"{project['name']}-{version}.dist-info"
        info.mkdir()
        # With its extras, so that `pip install 'trunkline[mcp]'` adds them to the environment.
        lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}"]
        for extra, needed in project["optional-dependencies"].items():
            lines.append(f"Provides-Extra: {extra}")
            lines += [f'Requires-Dist: {package}; extra == "{extra}"' for package in needed]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "INSTALLER").write_text("tools/bootstrap.py\n")
        # Relative, so that a checkout that moves takes its environment along.
        source = os.path.relpath(ROOT / "src", packages)
        (packages / f"{project['name']}.pth").write_text(source + "\n")
        shutil.copyfile(self.pyproject, self.installed_pyproject)
        shutil.copyfile(self.lock, self.installed_lock)

    def _say(self, text: str) -> None:
        # stderr: the output of the command that follows may be piped.
        print(f"{self.program}: {text}", file=sys.stderr, flush=True)

    def _fail(self, text: str, remedy: str) -> NoReturn:
        self._say(text)
        print(f"  {remedy}", file=sys.stderr)
        sys.exit(1)


class Progress:
    """Counts the packages pip has collected, on one redrawn line or as a line now and then."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._redraw = sys.stderr.isatty()
        self._shown = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._redraw and self._total:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def feed(self, line: str) -> None:
        if line.startswith("Ignoring "):
            # Locked for another platform or Python.
            self._total -= 1
        elif line.startswith("Collecting "):
            self._done += 1
            self._show(f"  {self._done}/{self._total} {line.split()[1]}")
        elif line.startswith("Installing collected packages"):
            self._show("  unpacking")

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if self._redraw:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._shown > SIGN_OF_LIFE_S:
            print(text, file=sys.stderr, flush=True)
            self._shown = now


def same(left: Path, right: Path) -> bool:
    return right.exists() and left.read_bytes() == right.read_bytes()


if __name__ == "__main__":
    try:
        Environment(*sys.argv[1:]).ensure()
    except KeyboardInterrupt:
        sys.exit(130)
