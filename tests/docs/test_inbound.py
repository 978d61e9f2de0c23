"""`docs/evidence/inbound.md` has every item of the inbound channel, with tests or a reason."""

from tests.docs.promises import Promises, numbered

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
    *numbered(SECTIONS),
    # Defects of the original that concern this side: executed, and found by reading.
    *("D1", "D2", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D16", "D17"),
    *(f"R-{letter}" for letter in "abcdefghijkl"),
    *(f"D-{n:02}" for n in range(1, 39)),
    *(f"X-{n:02}" for n in range(1, 31)),
]
PAGE = Promises("inbound.md", ITEMS)


def test_every_item_has_one_row_in_order() -> None:
    PAGE.check_order()


def test_every_named_test_exists() -> None:
    PAGE.check_names()


def test_every_item_has_a_test_or_a_reason() -> None:
    PAGE.check_rows()
