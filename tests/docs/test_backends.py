"""`docs/evidence/backends.md` has every property of every backend, with tests or a reason."""

import re
from typing import get_args

import pytest
from tests.docs.named_tests import TEST, Page, has_test_or_reason

from trunkline.settings import backends as kinds

PAGE = Page("docs/evidence/backends.md")
PROPERTIES = [
    "Reply",
    "Stream",
    "Tool or artifact",
    "Input required",
    "Cancel",
    "Failure",
    "Killed",
    "Restart",
]
# Nothing stands behind these.
ALONE = {"echo", "scripted"}

SECTION = re.compile(r"^## (?P<title>`(?P<kind>\w+)`, .+)\n(?P<body>(?:(?!^## ).*\n)+)", re.M)
ROW = re.compile(rf"^\| (?P<name>{'|'.join(PROPERTIES)}) \| [^|]+ \| (?P<tests>[^|]+) \|$", re.M)
SECTIONS = {section["title"]: section for section in SECTION.finditer(PAGE.text)}
OVERVIEW = dict(re.findall(r"^\| (`\w+`, .+?) \| ([✓–| ]+) \|$", PAGE.text, re.M))


def cells(title: str) -> dict[str, str]:
    return {row["name"]: row["tests"] for row in ROW.finditer(SECTIONS[title]["body"])}


def test_every_kind_of_backend_is_here() -> None:
    tags = {kind.__struct_config__.tag for kind in get_args(kinds.BackendSettings)}
    assert {section["kind"] for section in SECTIONS.values()} == tags - ALONE


def test_every_line_of_a_table_is_a_row() -> None:
    heads = [
        line for line in PAGE.table_lines() if re.match(r"\| (Backend|Property) \||\|---", line)
    ]
    rows = len(OVERVIEW) + len(SECTIONS) * len(PROPERTIES)
    assert len(heads) == 2 * (len(SECTIONS) + 1)
    assert len(PAGE.table_lines()) == len(heads) + rows


@pytest.mark.parametrize("title", SECTIONS)
def test_every_property_has_tests_or_a_reason(title: str) -> None:
    rows = cells(title)
    assert list(rows) == PROPERTIES
    assert [cell for cell in rows.values() if not has_test_or_reason(cell)] == []


@pytest.mark.parametrize("title", SECTIONS)
def test_the_overview_is_true(title: str) -> None:
    ticks = ["✓" if TEST.search(cell) else "–" for cell in cells(title).values()]
    assert OVERVIEW[title].split(" | ") == ticks


def test_the_overview_has_them_all_in_order() -> None:
    assert list(OVERVIEW) == list(SECTIONS)


def test_every_named_test_exists() -> None:
    assert PAGE.missing() == []


def test_whatever_looks_like_a_test_is_named_in_full() -> None:
    assert not PAGE.half_named()
