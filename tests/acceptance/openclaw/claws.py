"""OpenClaws for the tests, each a process of its own: the fake, and the real one from npm."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.acceptance.gateway import DEADLINE_S, SOURCE
from tests.acceptance.remote import free_port

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / ".cache" / "npm"
TOKEN = "the-token-of-this-openclaw"
NEW, OLD = "2026.9.6", "2026.5.28"
START_S = 180.0


class Claw:
    """`start` after `kill` or `stop` is a restart: port and state stay."""

    is_real = False
    # How long the first turn may take, and how long a restart.
    slow_s = 20.0

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def has_questions(self) -> bool:
        return self.version == NEW

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def launch(self, *options: str) -> None:
        raise NotImplementedError

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"OpenClaw does not start:\n{self.log()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to stop, and do not wait."""
        assert self._process is not None
        self._process.terminate()

    def kill(self) -> None:
        """End it and all that it started, without warning."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait(60)

    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def _run(self, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as got:
                return bool(got.status == 200)
        except (urllib.error.URLError, OSError):
            return False


class FakeClaw(Claw):
    def launch(self, *options: str) -> None:
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.acceptance.openclaw.fake", "--token", TOKEN]
        command += ["--port", str(self.port), "--state", str(self.folder)]
        paths = os.pathsep.join((str(SOURCE), str(ROOT)))
        self._run(
            [*command, "--version", self.version, *options], os.environ | {"PYTHONPATH": paths}
        )

    def asked(self, method: str) -> list[Any]:
        """The parameters of all requests of a kind, since it started."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/_fake/asked", timeout=DEADLINE_S
        ) as got:
            return [one["params"] for one in json.load(got) if one["method"] == method]


class RealClaw(Claw):
    is_real = True
    slow_s = 60.0

    def __init__(self, version: str, folder: Path, model_url: str) -> None:
        super().__init__(version, folder)
        self._model_url = model_url

    @staticmethod
    def is_installed(version: str) -> bool:
        return (PACKAGES / f"openclaw@{version}" / "installed").exists()

    def launch(self, *options: str) -> None:
        for name in ("home", "state", "main", "helper", "guest"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        config = self.folder / "openclaw.json"
        config.write_text(json.dumps(self._config()))
        binaries = [
            str(PACKAGES / package / "node_modules" / ".bin")
            for package in ("node@24", f"openclaw@{self.version}")
        ]
        environment = {
            "PATH": os.pathsep.join((*binaries, os.environ["PATH"])),
            "HOME": str(self.folder / "home"),
            "OPENCLAW_STATE_DIR": str(self.folder / "state"),
            "OPENCLAW_CONFIG_PATH": str(config),
            "OPENCLAW_DISABLE_BONJOUR": "1",
            "OPENCLAW_NO_RESPAWN": "1",
            "OPENCLAW_EXEC_SHELL_SNAPSHOT": "0",
            "OPENCLAW_NO_AUTO_UPDATE": "1",
        }
        command = ["openclaw", "gateway", "run", "--port", str(self.port), "--bind", "loopback"]
        self._run([str(Path(binaries[1]) / command[0]), *command[1:]], environment)

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "token", "token": TOKEN},
                "controlUi": {"enabled": False},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
            "models": {"mode": "replace", "providers": {"fake": self._provider()}},
            "plugins": {"slots": {"memory": "none"}},
        }
        defaults = {
            "model": {"primary": "fake/fake-1"},
            "workspace": str(self.folder / "main"),
            "skipBootstrap": True,
            "heartbeat": {"every": "0m"},
        }
        helper = {"workspace": str(self.folder / "helper")}
        guest = {"workspace": str(self.folder / "guest"), "tools": {"deny": ["*"]}}
        if self.version == OLD:
            agents = [{"id": "main", "default": True}, {"id": "helper"} | helper]
            config["agents"] = {"defaults": defaults, "list": [*agents, {"id": "guest"} | guest]}
            return config
        config["agents"] = {
            "ownership": "explicit",
            "defaults": defaults | {"systemAgent": {"agentId": "main"}},
            "entries": {"main": {}, "helper": helper, "guest": guest},
        }
        config["plugins"]["allow"] = ["a2a"]
        config["tools"] = {"toolSearch": False}
        return config

    def _provider(self) -> dict[str, Any]:
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": "fake-1", "name": "Fake", "reasoning": False, "input": ["text", "image"]}
        model |= {"cost": cost, "contextWindow": 128000, "maxTokens": 4096}
        return {
            "baseUrl": self._model_url,
            "apiKey": "fake-local",
            "api": "openai-completions",
            "models": [model],
        }
