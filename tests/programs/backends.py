"""Backends around the small programs of this folder."""

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from trunkline.backends.acp.backend import AcpBackend
from trunkline.backends.acp.session import AcpOptions
from trunkline.backends.command.backend import CommandBackend
from trunkline.backends.command.claude import ClaudeFormat
from trunkline.backends.command.codex import CodexFormat
from trunkline.backends.command.format import Format
from trunkline.backends.command.text import TextFormat
from trunkline.backends.programs.children import Limits
from trunkline.backends.programs.program import Program
from trunkline.clock import SystemClock
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.testing import BackendSubject

FOLDER = Path(__file__).parent
QUICK = Limits(stop_grace_s=0.5)


@cache
def _homes() -> str:
    """A folder for the homes of all programs, which goes when the tests end."""
    folder = tempfile.mkdtemp(prefix="trunkline-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def program(
    script: str, *arguments: str, home: Path | str = "", own: dict[str, str] | None = None
) -> Program:
    home = home or tempfile.mkdtemp(dir=_homes())
    argv = (sys.executable, str(FOLDER / script), *arguments)
    return Program(argv, cwd=str(home), inherit=["PATH"], own={"HOME": str(home)} | (own or {}))


def command(
    script: str,
    format: Format,
    *arguments: str,
    home: Path | str = "",
    own: dict[str, str] | None = None,
    limits: Limits = QUICK,
    clock: Clock | None = None,
    **options: Any,
) -> CommandBackend:
    return CommandBackend(
        program(script, *arguments, home=home, own=own),
        format,
        clock=clock or SystemClock(),
        limits=limits,
        **options,
    )


def text(*arguments: str, **options: Any) -> CommandBackend:
    return command("talk.py", TextFormat(arguments), *arguments, **options)


def kept_text(**options: Any) -> CommandBackend:
    format = TextFormat((), end_line=".")
    return command("talk.py", format, "--end", ".", keeps_for_s=60.0, **options)


def claude(**options: Any) -> CommandBackend:
    return command("fake_claude.py", ClaudeFormat(), **options)


def kept_claude(**options: Any) -> CommandBackend:
    return claude(keeps_for_s=60.0, **options)


def codex(**options: Any) -> CommandBackend:
    return command("fake_codex.py", CodexFormat(), "exec", **options)


def acp(
    *arguments: str,
    home: Path | str = "",
    own: dict[str, str] | None = None,
    limits: Limits = QUICK,
    clock: Clock | None = None,
    **options: Any,
) -> AcpBackend:
    return AcpBackend(
        program("fake_acp.py", *arguments, home=home, own=own),
        clock=clock or SystemClock(),
        limits=limits,
        options=AcpOptions(**options),
    )


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
