"""`docs/evidence/outbound.md` has every promise about calls to others, with tests or a reason."""

from tests.docs.promises import Promises, numbered

# The inventory of the outbound plugin, then what stands beside it: how many rows each has.
SECTIONS = {
    "O-1": 9,
    "O-2": 28,
    "O-3": 14,
    "O-4": 11,
    "O-5": 7,
    "O-6": 11,
    "O-7": 5,
    "O-8": 6,
    "O-9": 9,
    "O-10": 7,
    "A-1": 18,
    "A-2": 4,
    "A-3": 12,
    "A-4": 4,
    "A-5": 13,
    "A-6": 6,
    "A-7": 2,
    "A-8": 11,
    "A-9": 7,
}
ITEMS = [
    *numbered(SECTIONS),
    # Defects of the original that concern this side: executed, found by reading, and missing.
    *("D2", "D3", "D12", "D13", "D14", "D15"),
    *(f"R-{letter}" for letter in "abcdef"),
    *(f"M-{n}" for n in range(1, 16)),
]
PAGE = Promises("outbound.md", ITEMS)


def test_every_item_has_one_row_in_order() -> None:
    PAGE.check_order()


def test_every_named_test_exists() -> None:
    PAGE.check_names()


def test_every_item_has_a_test_or_a_reason() -> None:
    PAGE.check_rows()
