import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.cli.output import clean, clean_json, one_line

ANY = st.text(
    alphabet=st.one_of(
        st.characters(codec="utf-8"), st.sampled_from("\x1b[]0;7mJ\x07\x9b\x9d\\\r\n\t\u202e")
    )
)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain, grüß dich 🎉", "plain, grüß dich 🎉"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x.test\x1b\\link\x1b]8;;\x07", "link"),
        ("\x9b31mred \x9d0;title\x9cend", "red end"),
        ("\x1b(B\x1b7\x1bcend", "end"),
        ("over\rwritten\r\nnext", "overwritten\nnext"),
        ("\x08\x7f\x00\u202egnp.exe", "gnp.exe"),
    ],
)
def test_what_is_left(given: str, shown: str) -> None:
    assert clean(given) == shown


@given(ANY)
def test_no_control_character_is_left(text: str) -> None:
    left = [each for each in clean(text) if (ord(each) < 32 or 127 <= ord(each) < 160)]
    assert set(left) <= {"\n", "\t"}
    assert "\u202e" not in clean(text)
    assert "\n" not in one_line(text)


@given(ANY)
def test_json_says_the_same_without_a_control_character(text: str) -> None:
    shown = clean_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert clean(shown) == shown or "\u2028" in shown or "\u2029" in shown
