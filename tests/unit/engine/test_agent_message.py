"""One message, told in several ways (I-9)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.agent_message import AgentMessage
from trunkline.model.outputs import Block, Output, StageEnded, Text, TextPreview, TextReplaced
from trunkline.model.values import Part

FILE = Part(url="https://x.test/a.png")


def parts(*contents: str | Part) -> tuple[Part, ...]:
    return tuple(Part(text=each) if isinstance(each, str) else each for each in contents)


def heard(*outputs: Output) -> AgentMessage:
    stage = AgentMessage()
    for output in outputs:
        stage.hear(output)
    return stage


TEXT = Text("streamed")
BLOCKS = (Block(parts("one")), Block(parts("two")))
WHOLE = StageEnded(parts("whole"))


@pytest.mark.parametrize(
    ("outputs", "content"),
    [
        ((TEXT, *BLOCKS, WHOLE), parts("whole")),
        ((TEXT, *BLOCKS), parts("streamed")),
        (BLOCKS, parts("one\n\ntwo")),
        ((*BLOCKS, WHOLE), parts("whole")),
        ((TEXT, StageEnded(parts(" \n"))), parts("streamed")),
        ((Text("  "), *BLOCKS), parts("one\n\ntwo")),
        ((Block(parts(" ")), Block(parts("two"))), parts("two")),
        ((StageEnded(parts(" ")),), parts(" ")),
        ((StageEnded(parts("see", FILE)),), parts("see", FILE)),
        (
            (Block(parts("one", FILE)), Block(parts("two")), Block(parts("three"))),
            parts("one", FILE, "two\n\nthree"),
        ),
        ((), ()),
    ],
)
def test_i9_the_whole_counts_most_then_what_streamed_then_the_blocks(
    outputs: tuple[Output, ...], content: tuple[Part, ...]
) -> None:
    assert heard(*outputs).content() == content


def test_i9_a_text_that_begins_with_all_so_far_replaces_it_any_other_is_appended() -> None:
    assert heard(TextPreview("He"), TextPreview("Hello"), TextPreview(" you")).text == "Hello you"
    assert heard(Text("He"), TextPreview("Hello"), TextPreview("Hello")).text == "Hello"
    assert heard(TextPreview("ab"), TextPreview("abab")).text == "abab"
    assert heard(TextPreview("ab"), TextPreview("b")).text == "abb"
    assert heard(Text("Hello"), TextReplaced("Bye"), TextPreview("Bye now")).text == "Bye now"


@given(st.lists(st.text("ab ", max_size=3)))
def test_cumulative_previews_are_the_text(pieces: list[str]) -> None:
    so_far = ["".join(pieces[:count]) for count in range(len(pieces) + 1)]
    # A repetition of the text as a whole would read the same as its piece.
    outputs = [TextPreview(after) for before, after in pairwise(so_far) if before != after]
    assert heard(*outputs).text == "".join(pieces)


def test_what_counts_as_having_said_something() -> None:
    assert not heard(Text(" "), Block(parts("")), StageEnded(parts(" "))).is_active
    for output in (TEXT, *BLOCKS, WHOLE, StageEnded((FILE,))):
        assert heard(output).is_active


def test_a_long_text_is_not_read_again_for_every_piece() -> None:
    stage = heard(*(Text("x") for _ in range(1000)))
    for number in range(1000):
        stage.hear(TextPreview(f"{number} "))
    # Compared with the text so far, the pieces would have been joined each time.
    assert len(stage._pieces) == 2000
