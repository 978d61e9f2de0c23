"""Pages that list what is promised, item by item, each with its tests or a reason."""

import re
from collections.abc import Iterable

from tests.docs.named_tests import Page, has_test_or_reason

HEADS = ("| Item | What holds | Tests |", "|---|---|---|")

_ROW = re.compile(
    r"^\| (?P<item>(?!Item )[A-Z]\S*) \| (?P<says>[^|]+) \| (?P<tests>[^|]+) \|$", re.M
)


def numbered(sections: dict[str, int]) -> list[str]:
    """How many rows each section has, as the names of its items."""
    return [f"{section}.{n}" for section, count in sections.items() for n in range(1, count + 1)]


class Promises:
    def __init__(self, name: str, items: Iterable[str]) -> None:
        self._page = Page(f"docs/evidence/{name}")
        self._items = list(items)
        self._rows = {row["item"]: row for row in _ROW.finditer(self._page.text)}

    def check_order(self) -> None:
        """Every item has one row, in order, and a table has nothing else."""
        assert [row["item"] for row in _ROW.finditer(self._page.text)] == self._items
        lines = self._page.table_lines()
        assert len(lines) == sum(line in HEADS for line in lines) + len(self._items)

    def check_names(self) -> None:
        """Every test that is named exists, and whatever looks like one is named in full."""
        assert self._page.missing() == []
        assert not self._page.half_named()

    def check_rows(self) -> None:
        """Every row names a test, or gives a reason why there is none."""
        bare = [item for item, row in self._rows.items() if not has_test_or_reason(row["tests"])]
        assert bare == []
