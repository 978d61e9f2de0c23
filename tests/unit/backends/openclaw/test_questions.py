"""Answers in the words of people, on the options of a question."""

from typing import Any

import pytest

from trunkline.backends.openclaw.frames import Option, QuestionItem
from trunkline.backends.openclaw.questions import answers_in, asked
from trunkline.model.values import Message, Part, Role

COLOUR = QuestionItem(
    question_id="color",
    header="Colour",
    question="Which colour?",
    options=(Option(label="Red"), Option(label="Light Blue")),
    is_other=True,
)
SIZES = QuestionItem(
    question_id="size",
    header="Sizes",
    question="Which sizes?",
    options=(Option(label="S"), Option(label="M"), Option(label="L")),
    multi_select=True,
)


def message(*parts: Part | str) -> Message:
    made = tuple(Part(text=part) if isinstance(part, str) else part for part in parts)
    return Message(message_id="m", role=Role.USER, parts=made)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("Red", "Red"),
        ("red.", "Red"),
        (" light blue ", "Light Blue"),
        ("2", "Light Blue"),
        ("(1)", "Red"),
        ("3", "3"),
        ("0", "0"),
        ("9" * 5000, "9" * 5000),
        ("Green, with stripes", "Green, with stripes"),
    ],
)
def test_one_question(text: str, chosen: str) -> None:
    assert answers_in(message(text), (COLOUR,)) == {"color": [chosen]}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("S", ["S"]), ("s, L", ["S", "L"]), ("1; 3", ["S", "L"]), ("m,M", ["M"])],
)
def test_several_options(text: str, chosen: list[str]) -> None:
    assert answers_in(message(text), (SIZES,)) == {"size": chosen}


@pytest.mark.parametrize(
    "text",
    [
        "Red\nS, L",
        "\n1. red\n\n2. s,l\n",
        "size: S, L\ncolor: red",
        "Colour = 1\nSizes = 1, 3",
        "1: red\n2: s,l",
    ],
)
def test_several_questions(text: str) -> None:
    assert answers_in(message(text), (COLOUR, SIZES)) == {"color": ["Red"], "size": ["S", "L"]}


def test_several_questions_on_one_line() -> None:
    taste = QuestionItem(question_id="taste", question="Sweet or salty?")
    assert answers_in(message("red, sweet"), (COLOUR, taste)) == {
        "color": ["Red"],
        "taste": ["sweet"],
    }


@pytest.mark.parametrize("text", ["", "  ", "red", "red\ns\nm", "color: red\ncolor: blue"])
def test_an_answer_that_is_not_enough(text: str) -> None:
    assert answers_in(message(text), (COLOUR, SIZES)) is None


@pytest.mark.parametrize(
    "data",
    [
        {"color": "Red", "size": ["S", 3]},
        {"answers": {"color": ["red"], "size": ["s", "L"]}},
    ],
)
def test_an_answer_as_data(data: Any) -> None:
    found = answers_in(message("see the data", Part(data=data)), (COLOUR, SIZES))
    assert found == {"color": ["Red"], "size": ["S", "L"]}


@pytest.mark.parametrize("data", [{}, {"color": "Red"}, [], "Red", {"color": {}, "size": None}])
def test_data_that_answers_nothing(data: Any) -> None:
    assert answers_in(message(Part(data=data)), (COLOUR, SIZES)) is None


def test_what_people_and_programs_read() -> None:
    text, data = asked((COLOUR, SIZES), hint="Please.")
    assert text.text == (
        "Please.\n"
        "1. Which colour?\n   1) Red\n   2) Light Blue\n"
        "2. Which sizes?\n   1) S\n   2) M\n   3) L\n"
        "   (several are possible, with commas between them)\n"
        "Answer each one on a line of its own, in this order."
    )
    assert data.data == {
        "questions": [
            {
                "id": "color",
                "question": "Which colour?",
                "options": ["Red", "Light Blue"],
                "multiSelect": False,
            },
            {
                "id": "size",
                "question": "Which sizes?",
                "options": ["S", "M", "L"],
                "multiSelect": True,
            },
        ]
    }
