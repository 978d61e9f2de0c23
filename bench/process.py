"""One server process: start, wait until it answers, CPU time and memory, stop."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench import cores

START_S = 30.0
STOP_S = 5.0
# Linux, MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED): nanoseconds on the CPU, user and system, of
# all threads of a process, those that have ended included. /proc/<pid>/stat has the same in 10 ms.
CPUCLOCK_SCHED = 2


class DidNotStart(Exception):
    """The server ended or stayed silent; the message has the end of its log."""


class Process:
    def __init__(
        self,
        command: Sequence[str],
        *,
        port: int,
        env: Mapping[str, str],
        log: Path,
        core: int,
        cwd: Path,
    ) -> None:
        self.port = port
        self._log = log
        with log.open("wb") as output, cores.inherited_by_children(core):
            # A session of its own: Ctrl-C reaches the benchmark, which then stops its servers.
            self._child = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait_until_up(self, health: str | None) -> None:
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            if self._child.poll() is not None:
                raise DidNotStart(f"exit code {self._child.returncode}: {self.log_end()}")
            if self._answers(health):
                return
            time.sleep(0.05)
        raise DidNotStart(f"not up after {START_S:g} s: {self.log_end()}")

    def _answers(self, health: str | None) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.connect()
            if health is None:
                return True
            connection.request("GET", health)
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log_end(self, lines: int = 5) -> str:
        text = self._log.read_text(errors="replace")
        return " | ".join(text.strip().splitlines()[-lines:])

    def kill(self) -> None:
        """End this child without warning."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        """End this child and no other; harmless when it has already ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._child.send_signal(number)
            try:
                self._child.wait(STOP_S)
                return
            except subprocess.TimeoutExpired:
                continue


def cpu_s(pid: int) -> float:
    """The seconds that a process has been on the CPU."""
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:  # it has just ended
        return 0.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
