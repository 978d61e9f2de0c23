"""`docs/evidence/relay.md` has every statement about the relay, with tests or a reason."""

from tests.docs.promises import Promises

PAGE = Promises("relay.md", [f"R-{n:02}" for n in range(1, 67)])


def test_every_statement_has_one_row_in_order() -> None:
    PAGE.check_order()


def test_every_named_test_exists() -> None:
    PAGE.check_names()


def test_every_statement_has_a_test_or_a_reason() -> None:
    PAGE.check_rows()
