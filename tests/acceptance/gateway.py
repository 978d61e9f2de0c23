"""A gateway as its users have it: a process of its own, with a port and a data folder."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import trunkline

SOURCE = Path(trunkline.__file__).parent.parent
# Generous, because the machine may be busy; nothing waits this long when all is well.
DEADLINE_S = 30.0


class Gateway:
    """`python -m trunkline serve` on a configuration, started and stopped at will.

    The data folder outlives the process, so `start` after `kill` is a restart.
    """

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.url = ""
        self.environment: dict[str, str] = {}
        # The module with the command line.
        self.module = "trunkline"
        # The command that runs it, as `nohup`.
        self.before: tuple[str, ...] = ()
        self._terminal: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "trunkline.toml"
        self._config.write_text(config)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def jsonrpc_url(self) -> str:
        return f"{self.url}/a2a/jsonrpc"

    @property
    def rest_url(self) -> str:
        return f"{self.url}/a2a/rest"

    @property
    def stdout(self) -> str:
        return self._read("stdout")

    @property
    def stderr(self) -> str:
        return self._read("stderr")

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the gateway was not started"
        return self._process

    def agent_url(self, handle: str) -> str:
        return f"{self.url}/api/a2a/v1/agents/{handle}"

    def arguments(self, options: tuple[str, ...]) -> list[str]:
        data = [] if "--data" in options else ["--data", str(self.folder / "data")]
        return ["--config", str(self._config), *data]

    def launch(self, *options: str) -> None:
        """Start the process and do not wait for it."""
        assert self._process is None or self._process.poll() is not None, "it runs already"
        port = [] if "--port" in options else ["--port", "0"]
        command = [
            *self.before,
            sys.executable,
            "-m",
            self.module,
            "serve",
            *self.arguments(options),
        ]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self._process = subprocess.Popen(
                [*command, *port, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | {"PYTHONPATH": str(SOURCE)} | self.environment,
                start_new_session=self._terminal is not None,
                preexec_fn=None if self._terminal is None else self._take_terminal,
            )

    @contextmanager
    def on_terminal(self) -> Iterator[None]:
        """What is started within has a controlling terminal, which is gone afterwards."""
        ours, self._terminal = os.openpty()
        try:
            yield
        finally:
            os.close(self._terminal)
            self._terminal = None
            os.close(ours)

    def _take_terminal(self) -> None:
        assert self._terminal is not None
        fcntl.ioctl(self._terminal, termios.TIOCSCTTY, 0)

    def start(self, *options: str) -> "Gateway":
        """Start the process and wait for the screen that it prints once it listens."""
        self.launch(*options)
        return self.finish_start()

    def finish_start(self) -> "Gateway":
        """Wait for the screen of a process that was launched."""
        deadline = time.monotonic() + DEADLINE_S
        while "Stop with Ctrl+C." not in self.stdout:
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended at once:\n{self.stderr}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the gateway does not start:\n{self.stderr}")
            time.sleep(0.02)
        self.url = self._line("Gateway")
        return self

    def terminate(self) -> None:
        """Ask it to stop, as a supervisor does."""
        self.process.terminate()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the gateway does not stop:\n{self.stderr}") from None

    def stop(self) -> int:
        self.terminate()
        return self.wait()

    def kill(self) -> None:
        """End it without warning, as a power cut does."""
        self.process.kill()
        self.process.wait()

    def resident_bytes(self) -> int:
        """How much memory the process holds; only Linux tells."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def check_log(self) -> None:
        """The gateway has logged no error of its own."""
        errors = [line for line in self.stderr.splitlines() if "Traceback" in line]
        # The others look the same.
        assert not errors, f"{len(errors)} errors: {errors[0][:2000]}"

    def _line(self, label: str) -> str:
        [line] = [line for line in self.stdout.splitlines() if line.startswith(label)]
        return line.removeprefix(label).strip()

    def _read(self, name: str) -> str:
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""

    def clean_up(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


class OpenClawGateway(Gateway):
    """The same on an `openclaw.json`, with a home of its own."""

    def __init__(self, folder: Path, config: str) -> None:
        super().__init__(folder, config)
        self._config = self._config.rename(folder / "openclaw.json")
        self.environment = {"HOME": str(folder)}

    def arguments(self, options: tuple[str, ...]) -> list[str]:
        return ["--openclaw-config", str(self._config)]


@contextmanager
def held(process: "subprocess.Popen[Any]") -> Iterator[None]:
    """Keep a client from running, and so from losing its patience on a machine that is busy."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def http_client(**options: Any) -> httpx.AsyncClient:
    # Without TLS there is nothing to verify, and loading the roots takes longer than a test.
    return httpx.AsyncClient(timeout=DEADLINE_S, verify=False, **options)


@contextmanager
def gateway(folder: Path, config: str) -> Iterator[Gateway]:
    """A gateway that is not started yet, and surely ended in the end."""
    made = Gateway(folder, config)
    try:
        yield made
    finally:
        made.clean_up()
