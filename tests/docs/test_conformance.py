"""`docs/evidence/conformance.md` names every test of `tests/bindings/` and what it proves."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bindings.clients import CLIENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "evidence" / "conformance.md").read_text("utf-8")

COLUMNS = ("JSON-RPC 1.0", "HTTP+JSON 1.0", "JSON-RPC 0.3", "HTTP+JSON 0.3")
DIALECTS = ("jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3", "rest-0.3")
# Fixtures that stand for one binding and version.
PER_DIALECT = {"dialect", "client", "small"}

ROW = re.compile(r"^\| (?P<rule>.+?) \| `(?P<test>test_\w+)` \| (?P<ticks>[✓– |]+) \|$", re.M)


def binding_tests() -> Iterator[tuple[str, Callable[..., Any]]]:
    for file in sorted((ROOT / "tests" / "bindings").glob("test_*.py")):
        module = importlib.import_module(f"tests.bindings.{file.stem}")
        for name, value in vars(module).items():
            if name.startswith("test_") and value.__module__ == module.__name__:
                yield name, value


def dialects_of(test: Callable[..., Any]) -> set[str] | None:
    """Where the test runs; None when it is about no binding in particular."""
    if not PER_DIALECT & set(inspect.signature(test).parameters):
        return None
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and mark.args[0] == "dialect":
            return set(mark.args[1])
    return set(DIALECTS)


def ticked(ticks: str) -> set[str]:
    """The bindings and versions that a row has a tick for."""
    cells = [cell.strip() for cell in ticks.split("|")]
    return {dialect for dialect, cell in zip(DIALECTS, cells, strict=True) if cell == "✓"}


TESTS = dict(binding_tests())
ROWS = {row["test"]: row for row in ROW.finditer(PAGE)}


def test_the_columns_are_the_clients() -> None:
    assert tuple(CLIENTS) == DIALECTS
    assert f"| Rule | Test | {' | '.join(COLUMNS)} |" in PAGE


def test_names_of_tests_are_unique() -> None:
    names = [name for name, _ in binding_tests()]
    assert sorted(names) == sorted(set(names))


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert sorted(named - set(TESTS)) == []


def test_every_test_is_in_the_table() -> None:
    assert sorted(set(TESTS) - set(ROWS)) == []


def test_ticks_are_true() -> None:
    says = {name: ticked(row["ticks"]) for name, row in ROWS.items()}
    runs = {name: dialects_of(test) for name, test in TESTS.items()}
    wrong = {name: (says[name], ran) for name, ran in runs.items() if ran not in (None, says[name])}
    assert wrong == {}


def test_every_rule_is_said_once() -> None:
    rules = [row["rule"] for row in ROWS.values()]
    assert sorted(rules) == sorted(set(rules))
