"""The fake model as a process of its own, which can be killed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.acceptance.gateway import DEADLINE_S, SOURCE


class ModelProcess:
    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> "ModelProcess":
        """On the port that it had before, if there was one."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "trunkline.testing.fake_model", "--port", port, *options]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path.cwd(),
            env={"PYTHONPATH": str(SOURCE)},
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the fake model does not start"
        return self

    def requests(self) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = httpx.get(f"{self.url}/requests", verify=False).json()
        return asked

    def wait_for(self, **fields: str) -> dict[str, Any]:
        """The request with these fields, as soon as there is one."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for asked in self.requests():
                if all(asked[name] == value for name, value in fields.items()):
                    return asked
            time.sleep(0.02)
        raise AssertionError(f"no such request: {fields}; there are {self.requests()}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()


@contextmanager
def model_process() -> Iterator[ModelProcess]:
    model = ModelProcess()
    try:
        yield model
    finally:
        model.kill()
