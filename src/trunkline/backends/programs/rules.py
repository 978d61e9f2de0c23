"""Rules of every kind of backend that is a program."""

import re
from collections.abc import Iterator
from pathlib import Path as File

from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config.problems import Path, Problem, bad_value, shown

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
