"""Backends around the small programs of this folder."""

import atexit
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from trunkline.backends.acp.backend import AcpBackend
from trunkline.backends.acp.settings import AcpBackend as AcpSettings
from trunkline.backends.command.backend import CommandBackend
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.clock import SystemClock
from trunkline.config.secret import Secret
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LendsTools, LentTools
from trunkline.testing import BackendSubject

FOLDER = Path(__file__).parent


class Lender:
    """Lends tools at an address where nothing listens."""

    def __init__(self) -> None:
        self.lent: list[tuple[str, str]] = []
        self.ended = 0

    @asynccontextmanager
    async def lend(
        self, turn: TurnRequest, tools: Sequence[str], *, token: Secret | None = None
    ) -> AsyncIterator[LentTools | None]:
        token = token or Secret(f"tl_tool_{len(self.lent)}")
        self.lent.append((turn.run_id, token.reveal()))
        url = "http://127.0.0.1:9/tools"
        yield LentTools(url=url, mcp_url=f"{url}/mcp", token=token)
        self.ended += 1


@cache
def _homes() -> str:
    """A folder for the homes of all programs, which goes when the tests end."""
    folder = tempfile.mkdtemp(prefix="trunkline-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def program(
    script: str, *arguments: str, home: Path | str = "", own: dict[str, str] | None = None
) -> dict[str, Any]:
    """The settings of a program of this folder."""
    home = home or tempfile.mkdtemp(dir=_homes())
    env = {"HOME": str(home)} | (own or {})
    return {
        "command": (sys.executable, str(FOLDER / script), *arguments),
        "cwd": str(home),
        "inherit_env": ("PATH",),
        "env": {name: Secret(value) for name, value in env.items()},
        "stop_grace_s": 0.5,
    }


def command(
    script: str,
    *arguments: str,
    home: Path | str = "",
    own: dict[str, str] | None = None,
    clock: Clock | None = None,
    **keys: Any,
) -> CommandBackend:
    settings = CommandSettings(**program(script, *arguments, home=home, own=own) | keys)
    return CommandBackend(settings, clock=clock or SystemClock())


def text(*arguments: str, **keys: Any) -> CommandBackend:
    return command("talk.py", *arguments, **keys)


def kept_text(**keys: Any) -> CommandBackend:
    return text("--end", ".", end_line=".", session="session", idle_s=60.0, **keys)


def claude(**keys: Any) -> CommandBackend:
    return command("fake_claude.py", format="claude", **keys)


def kept_claude(**keys: Any) -> CommandBackend:
    return claude(session="session", idle_s=60.0, **keys)


def codex(**keys: Any) -> CommandBackend:
    return command("fake_codex.py", "exec", format="codex", **keys)


def acp(
    *arguments: str,
    script: str = "fake_acp.py",
    home: Path | str = "",
    own: dict[str, str] | None = None,
    clock: Clock | None = None,
    lends_tools: LendsTools | None = None,
    **keys: Any,
) -> AcpBackend:
    settings = AcpSettings(**program(script, *arguments, home=home, own=own) | keys)
    return AcpBackend(settings, clock=clock or SystemClock(), lends_tools=lends_tools)


MAKE: dict[str, Callable[..., Backend]] = {
    "text": text,
    "text-kept": kept_text,
    "claude": claude,
    "claude-kept": kept_claude,
    "codex": codex,
    "acp": acp,
}
_TOOLS = {"claude", "claude-kept", "codex", "acp"}

# For the behavioural suite.
SUBJECTS = {
    name: BackendSubject(make=make, hang="hang", tool="tool" if name in _TOOLS else None)
    for name, make in MAKE.items()
}
