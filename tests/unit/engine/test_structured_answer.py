"""R-15 and R-28: what the text of an agent says, read as a structured answer."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.structured_answer import BROKEN, confidence_of, of_object, read_answer
from trunkline.model.call_outcomes import UNSTATED, StructuredAnswer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain text", StructuredAnswer("plain text")),
        ("", StructuredAnswer("")),
        ('{"output": 1, "confidence": 0.9}', StructuredAnswer(1, 0.9)),
        ('{"result": [1]}', StructuredAnswer([1])),
        ('{"output": null}', StructuredAnswer(None)),
        ('{"answer": 42}', StructuredAnswer({"answer": 42})),
        ('I found:\n```json\n{"output": "x"}\n```\nbye {', StructuredAnswer("x")),
        ('{} and {"output": "second"}', StructuredAnswer("second")),
        ('{broken {"output": "inner"}', StructuredAnswer("inner")),
        ('{"output": "cut', StructuredAnswer('{"output": "cut')),
        ('{"output": oops}', StructuredAnswer('{"output": oops}', BROKEN)),
        ("[1, 2]", StructuredAnswer("[1, 2]")),
    ],
)
def test_the_first_object_of_a_text_is_the_answer(text: str, answer: StructuredAnswer) -> None:
    assert read_answer(text) == answer


def test_assumptions_and_caveats_are_texts() -> None:
    text = '{"output": 1, "assumptions": "one", "caveats": ["a", {"b": 1}, null]}'
    assert read_answer(text) == StructuredAnswer(1, UNSTATED, ("one",), ("a", '{"b":1}', "null"))
    for odd in ("7", "{}", "true", "null", '""'):
        assert read_answer(f'{{"output": 1, "caveats": {odd}}}').caveats == ()


@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        (0, 0.0),
        (0.25, 0.25),
        (1, 1.0),
        (7, 1.0),
        (-1, 0.0),
        (10**400, 1.0),
        (math.nan, UNSTATED),
        ("0.9", UNSTATED),
        (True, UNSTATED),
        (None, UNSTATED),
        ([0.9], UNSTATED),
    ],
)
def test_a_confidence_is_a_number_from_0_to_1(stated: Any, confidence: float) -> None:
    assert confidence_of(stated) == confidence


# What a parser of JSON accepts, and a store or a client does not.
ODD = [
    '{"output": NaN, "confidence": NaN}',
    '{"output": 1e999, "confidence": -Infinity}',
    '{"output": "\\ud83d", "caveats": ["\\udc00"], "\\ud800": 1}',
    f'{{"output": {"9" * 5000}, "confidence": {"9" * 5000}}}',
    f'{{"output": {"9" * 1000}, "confidence": {"9" * 1000}}}',
    '{"output": %s}' % ("[" * 40 + "]" * 40),
    '{"output": %s}' % ("[" * 900 + "]" * 900),
    '{"a":' * 100_000,
    '{"output": "%s"}' % ("x" * 2_000_000),
    "{" * 100_000 + "}" * 100_000,
    '{"output": "\\u0000\\u001f\\u2028"}',
    '{"assumptions": %s, "caveats": {"a": 1}}' % ("[" * 900 + "]" * 900),
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_every_text_gives_an_answer_that_can_be_delivered(text: str) -> None:
    check(read_answer(text))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    ),
    st.sampled_from(("output", "result", "confidence", "assumptions", "caveats", "more")),
)
def test_every_object_gives_an_answer_that_can_be_delivered(value: Any, name: str) -> None:
    check(of_object({name: value}))


def check(answer: StructuredAnswer) -> None:
    assert 0 <= answer.confidence <= 1
    encoded = msgspec.json.encode(answer)
    assert msgspec.json.decode(encoded, type=StructuredAnswer) == answer
