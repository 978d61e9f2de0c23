"""The command line as its users have it: a process with pipes, or with a terminal."""

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from msgspec import Struct
from tests.acceptance.gateway import DEADLINE_S, SOURCE


class Ended(Struct, frozen=True):
    code: int
    out: str
    err: str


class Shell:
    """`python -m trunkline` with a data folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TRUNKLINE_")
        } | {
            "PYTHONPATH": str(SOURCE),
            "XDG_DATA_HOME": str(folder / "data"),
            "PYTHONWARNINGS": "error",
            "TERM": "xterm-256color",
            "COLUMNS": "80",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "trunkline", *arguments]

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ended:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environment | environment,
            cwd=self.folder,
            timeout=DEADLINE_S,
        )
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in ended.err, ended.err
        return ended

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Goes on in the background, and surely ends with the block."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.folder,
            text=True,
        )
        try:
            with process:
                try:
                    yield process
                finally:
                    if process.poll() is None:
                        process.kill()
        finally:
            process.wait()

    def typed(self, lines: str, *, expects_traceback: bool = False) -> str:
        """What a plain terminal shows of some lines for the shell."""
        python = shlex.join(self.command())
        script = f'trunkline() {{ {python} "$@"; }}\n{lines}'
        with self._on_terminal(["bash", "-c", script], TERM="dumb") as terminal:
            terminal.end()
        shown = terminal.shown.decode().replace("\r\n", "\n")
        assert ("Traceback" in shown) is expects_traceback, shown
        return shown

    def on_terminal(
        self, *arguments: str, **environment: str
    ) -> AbstractContextManager["Terminal"]:
        return self._on_terminal(self.command(*arguments), **environment)

    @contextmanager
    def _on_terminal(self, command: list[str], **environment: str) -> Iterator["Terminal"]:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            command,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=self.environment | environment,
            cwd=self.folder,
            start_new_session=True,
        )
        os.close(follower)
        try:
            yield Terminal(process, leader)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(leader)


class Terminal:
    """What a process writes to its terminal, raw."""

    def __init__(self, process: "subprocess.Popen[bytes]", leader: int) -> None:
        self._process = process
        self._leader = leader
        self.shown = b""

    def until(self, words: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while words.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), f"it ended with {self.shown!r}"

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Its exit code, when all was read."""
        while self._read():
            pass
        return self._process.wait(DEADLINE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._leader], [], [], DEADLINE_S)
        assert ready, f"nothing comes after {self.shown!r}"
        try:
            piece = os.read(self._leader, 65536)
        except OSError:
            # So Linux says that nobody has the other end any more.
            return False
        self.shown += piece
        return bool(piece)
