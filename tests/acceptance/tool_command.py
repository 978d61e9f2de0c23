"""`trunkline tool remote_agent` as scripts run it: a process for every request."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.acceptance.gateway import DEADLINE_S, SOURCE


class Done(Struct, frozen=True):
    code: int
    # Every line of stdout: the updates, and the result as the last.
    envelopes: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        return self.envelopes[-1]

    @property
    def continuation(self) -> dict[str, Any]:
        found: dict[str, Any] = self.result["summary"]["continuation"]
        return found

    @property
    def status(self) -> str:
        return str(self.continuation["task"]["status"])


class ToolCommand:
    def __init__(self, folder: Path, url: str, *, remote: str = "", target: str = "") -> None:
        self.folder = folder
        self.config = folder / "targets.toml"
        self.config.write_text(
            f'[store]\npath = "data/trunkline.db"\n'
            f'[targets.peer]\nbase_url = "{url}"\ndefault = true\n{target}\n[remote]\n{remote}\n'
        )

    def start(self, request: object, *options: str, stdin: bool = False) -> "subprocess.Popen[str]":
        """Start it; the request goes by stdin or as an argument."""
        text = request if isinstance(request, str) else json.dumps(request)
        command = [sys.executable, "-m", "trunkline", "tool", "remote_agent"]
        command += ["-" if stdin else text, "--config", str(self.config), *options]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )
        assert process.stdin is not None
        if stdin:
            process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, request: object, *options: str, stdin: bool = False) -> Done:
        return finish(self.start(request, *options, stdin=stdin))


def finish(process: "subprocess.Popen[str]", before: tuple[str, ...] = ()) -> Done:
    """Wait for its end; `before` are lines that were read already."""
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    lines = [*before, *out.splitlines()]
    return Done(process.returncode, [json.loads(line) for line in lines], err)


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"action": "send", "parts": [{"kind": "text", "text": text}], **more}
