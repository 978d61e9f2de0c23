"""Settings that all backends share whose agent is a program, and their rules."""

import re
from collections.abc import Iterator
from pathlib import Path as File
from typing import Annotated

from msgspec import field

from trunkline.backends.kind import BackendTable
from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, shown
from trunkline.config.secret import Secret
from trunkline.engine.agent_calls import CallTool

MIB = 1024 * 1024


class ProgramSettings(BackendTable, frozen=True, kw_only=True):
    """The program, its environment and its limits."""

    command: Annotated[
        tuple[str, ...],
        doc(
            "The program and its arguments as a list; no shell is involved. A program without a "
            "slash is looked up in PATH; a relative path starts at the folder of this file.",
            min_length=1,
        ),
    ]
    cwd: Annotated[str, doc("Working directory. Empty: the folder of this file.")] = ""
    inherit_env: Annotated[
        tuple[str, ...],
        doc("Environment variables of the gateway that the program inherits. It gets no others."),
    ] = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
    env: Annotated[
        dict[str, Secret],
        doc(
            "Additional environment variables of the program. Their values are treated as secrets."
        ),
    ] = field(default_factory=dict)
    tools: Annotated[
        tuple[CallTool, ...],
        doc(
            "Tools by which the program asks other agents of this gateway, over HTTP or MCP. It "
            "finds their address in `TRUNKLINE_TOOLS_URL` and the token of its turn in "
            "`TRUNKLINE_TOOLS_TOKEN`. Empty: none."
        ),
    ] = ()
    timeout_s: Annotated[
        float, doc("Maximum seconds for one turn; then the turn is stopped.", gt=0)
    ] = 1800.0
    stop_grace_s: Annotated[
        float, doc("Seconds between SIGTERM and SIGKILL; both go to the whole process group.", ge=0)
    ] = 2.0
    max_output_bytes: Annotated[
        int, doc("Maximum output of one turn; then the turn is stopped.", ge=1)
    ] = 16 * MIB
    max_line_bytes: Annotated[
        int, doc("Maximum length of a line when the output is read line by line.", ge=1)
    ] = 8 * MIB
    max_memory_bytes: Annotated[
        int,
        doc("Maximum writable memory of each process (`RLIMIT_DATA`, Linux). 0: no limit.", ge=0),
    ] = 0
    max_processes: Annotated[
        int,
        doc(
            "Maximum number of processes. When it is reached, an idle process is ended to make "
            "room; without one the turn fails.",
            ge=1,
        ),
    ] = 16
    idle_s: Annotated[
        float, doc("Seconds that an idle process is kept after its last turn.", gt=0)
    ] = 600.0


VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def program_problems(backend: ProgramSettings, path: Path) -> Iterator[Problem]:
    for i, word in enumerate(backend.command):
        if "\0" in word or (i == 0 and not word.strip()):
            yield bad_value(
                (*path, "command", i),
                "expected a program" if i == 0 else "holds a character that cannot be passed",
                'Example: command = ["claude", "-p"].',
            )
    if backend.cwd and not File(backend.cwd).is_dir():
        yield bad_value(
            (*path, "cwd"),
            "no such folder",
            "Make it, or correct the path; relative ones start at the folder of this file.",
        )
    for i, name in enumerate(backend.inherit_env):
        if not VARIABLE.fullmatch(name):
            yield _no_variable((*path, "inherit_env", i), name)
    for name in backend.env:
        if not VARIABLE.fullmatch(name):
            yield _no_variable((*path, "env", name), name)


def _no_variable(path: Path, name: str) -> Problem:
    remedy = "Use letters, digits and _, and no digit in front."
    # The name is shown, not the value at the path, which is a secret.
    return Problem(path, "expected the name of a variable", remedy, value=shown(name))
