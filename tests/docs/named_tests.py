"""Pages that name tests in their tables: which they name, and whether there are such tests."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import OPT_IN

ROOT = Path(__file__).resolve().parents[2]
TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)(?P<case>\[[\w.-]+\])?`")
REASON = re.compile(r"\*(not here|later|measured)\*: `?\w.{10,}")


class Page:
    def __init__(self, path: str) -> None:
        self.text = (ROOT / path).read_text("utf-8")

    def missing(self) -> list[str]:
        """The tests that are named and do not exist."""
        named = list(TEST.finditer(self.text))
        functions = {file: set(_functions(file)) for file in {each["file"] for each in named}}
        cases = _cases({each["file"] for each in named if each["case"]})
        return [
            each[0]
            for each in named
            if each["name"] not in functions[each["file"]]
            or (each["case"] and each[0].strip("`") not in cases)
        ]

    def half_named(self) -> bool:
        """Whether something looks like a test and is not named in full."""
        return "test_" in TEST.sub("", self.text)

    def table_lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith("|")]


def has_test_or_reason(cell: str) -> bool:
    return bool(TEST.search(cell) or REASON.match(cell))


def _functions(path: str) -> Iterator[str]:
    """Names of the functions of a file, which is read and not run."""
    for node in ast.parse((ROOT / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _cases(files: set[str]) -> set[str]:
    """The cases of all tests of these files, also of those that only run when asked for."""
    if not files:
        return set()
    marks = " or ".join((*OPT_IN, "frameworks", "not frameworks"))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, *sorted(files)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())
