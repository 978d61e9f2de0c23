"""Where the figures come from: machine, runtimes, versions. Nothing that names the machine."""

import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.servers import NODE_PEER, ROOT, Server

PACKAGES = ("a2a-sdk", "fasta2a", "uvicorn", "uvloop", "httptools", "starlette", "aiosqlite")

_ASK = f"""
import json, platform
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try: return version(name)
    except PackageNotFoundError: return None
print(json.dumps([platform.python_version(), {{n: of(n) for n in {PACKAGES!r}}}]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    python: str
    node: str | None
    packages: dict[str, str]
    commit: str
    cpu: str
    cores: int
    kernel: str
    date: str
    # Cores that other processes used during the run, on average.
    others: float | None = None

    def noise(self) -> str:
        if self.others is None:
            return "What else the machine did meanwhile was not recorded."
        return f"Other processes used {self.others:.1f} of {self.cores} cores meanwhile."

    def runtime(self, server: Server) -> str:
        return f"Node {self.node}" if server.script is not None else f"Python {self.python}"


def examine(python: str) -> Environment:
    version, packages = json.loads(_output([python, "-c", _ASK]))
    node = _output(["node", "--version"]).lstrip("v") if shutil.which("node") else None
    if node:
        peer = json.loads((NODE_PEER / "package.json").read_text())
        packages |= peer["dependencies"]
    return Environment(
        python=version,
        node=node,
        packages={name: found for name, found in packages.items() if found},
        commit=_output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        cpu=_cpu_model(),
        cores=os.cpu_count() or 0,
        kernel=platform.release().partition("-")[0],
        date=datetime.now(UTC).date().isoformat(),
    )


def _output(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return ended.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
