"""`docs/inbound.md` has every item of the inbound channel, each with its tests or a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "inbound.md").read_text("utf-8")

# How many rows each section of the plugin's inventory has.
SECTIONS = {
    "I-1": 8,
    "I-2": 23,
    "I-3": 3,
    "I-4": 5,
    "I-5": 3,
    "I-6": 25,
    "I-7": 4,
    "I-8": 14,
    "I-9": 11,
    "I-10": 3,
    "I-11": 11,
    "I-12": 18,
    "I-13": 4,
    "I-14": 5,
}
ITEMS = [
    *(f"{section}.{n}" for section, count in SECTIONS.items() for n in range(1, count + 1)),
    # Defects of the original that concern this side: executed, and found by reading.
    *("D1", "D2", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D16", "D17"),
    *(f"R-{letter}" for letter in "abcdefghijkl"),
    *(f"D-{n:02}" for n in range(1, 39)),
    *(f"X-{n:02}" for n in range(1, 31)),
]

ROW = re.compile(
    r"^\| (?P<item>[IDX]-?\d[\d.]*|R-\w) \| (?P<says>[^|]+) \| (?P<tests>[^|]+) \|$", re.M
)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
REASON = re.compile(r"\*(not here|later)\*: \w.{10,}")

ROWS = {row["item"]: row for row in ROW.finditer(PAGE)}


def functions(path: str) -> set[str]:
    """Names of the functions of a file, which is read and not run."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def named() -> Iterator[tuple[str, str]]:
    yield from ((match[1], match[2]) for match in TEST.finditer(PAGE))


def test_every_item_has_one_row_in_order() -> None:
    assert [row["item"] for row in ROW.finditer(PAGE)] == ITEMS


def test_every_line_of_a_table_is_a_row() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    heads = [line for line in lines if line in ("| Item | What holds | Tests |", "|---|---|---|")]
    assert len(lines) == len(heads) + len(ITEMS)


def test_every_named_test_exists() -> None:
    known = {path: functions(path) for path, _ in named()}
    assert [f"{path}::{name}" for path, name in named() if name not in known[path]] == []


def test_whatever_looks_like_a_test_is_named_in_full() -> None:
    assert "test_" not in TEST.sub("", PAGE)


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_has_a_test_or_a_reason(item: str) -> None:
    cell = ROWS[item]["tests"]
    assert TEST.search(cell) or REASON.match(cell), cell
