"""Thoughts in the answer itself are left out, however it is cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.backends.openai.answer import Thoughts

CASES = {
    "plain": "plain",
    " <b>bold</b>": " <b>bold</b>",
    "<think>hm</think>\n\nso": "so",
    "\n<think>hm < 3</think>so": "so",
    "<think>never closed": "",
    "<thin": "<thin",
    "  ": "  ",
    "": "",
    "a <think>no thought</think>": "a <think>no thought</think>",
    "<think></think>": "",
}


@pytest.mark.parametrize("text", CASES)
@given(cuts=st.lists(st.integers(0, 40), max_size=8))
def test_every_cut_gives_the_same(text: str, cuts: list[int]) -> None:
    thoughts = Thoughts()
    edges = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    said = "".join(thoughts.feed(piece) for piece in pieces)
    assert said + thoughts.end() == CASES[text]


def test_what_cannot_be_a_thought_goes_out_at_once() -> None:
    assert Thoughts().feed("<p") == "<p"
    assert Thoughts().feed("he") == "he"
