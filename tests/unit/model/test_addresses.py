"""An address is shown without its password."""

import pytest

from trunkline.model.addresses import without_password


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://me:hunter2@x.example/a?b=c", "https://***@x.example/a?b=c"),
        ("https://hunter2@x.example", "https://***@x.example"),
        ("https://me:hun@ter2@x.example", "https://***@x.example"),
        ("https://me:hun/ter2@x.example", "https://***@x.example"),
        ("https://me:hun#ter2@x.example:99999", "https://***@x.example:99999"),
        ("nope://me:hunter2@x.example", "nope://***@x.example"),
        ("me:hunter2@x.example", "***@x.example"),
    ],
)
def test_a_password_is_masked(written: str, shown: str) -> None:
    assert without_password(written) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://x.example/@me",
        "https://x.example:8443/a",
        "x.example:80",
        "me@x.example",
        "agents.py:rust",
        "a text: with a mark @ in it",
        "",
    ],
)
def test_anything_else_is_shown_as_it_is(text: str) -> None:
    assert without_password(text) == text
