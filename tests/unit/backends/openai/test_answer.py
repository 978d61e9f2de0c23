"""Answers put together from what servers really send."""

from typing import Any

import msgspec
import pytest

from trunkline.backends.openai.answer import Answer, ModelCall, TooLarge
from trunkline.backends.openai.wire import Garbage, ReportedError, Usage, read_chunk


def feed(answer: Answer, *choices: dict[str, Any]) -> list[str]:
    texts = []
    for choice in choices:
        texts.append(answer.feed(read_chunk(msgspec.json.encode({"choices": [choice]}))))
    return texts


def delta(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "finish_reason": None}


def function(arguments: Any = None, name: str | None = None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
def answer() -> Answer:
    return Answer(max_bytes=1000)


def test_text_in_pieces(answer: Answer) -> None:
    ends = {"delta": {}, "finish_reason": "stop"}
    assert feed(answer, delta(role="assistant", content=""), delta(content="a"), ends) == [
        "",
        "a",
        "",
    ]
    assert (answer.text, answer.finish_reason, answer.is_complete) == ("a", "stop", True)


def test_thoughts_are_no_answer(answer: Answer) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "b"}]
    texts = feed(
        answer,
        delta(content=None, reasoning_content="hm"),
        delta(reasoning="hm"),
        delta(content=parts),
        delta(content=42),
    )
    assert texts == ["", "", "b", ""]


def test_a_whole_message(answer: Answer) -> None:
    message = {"role": "assistant", "content": "all", "tool_calls": None, "refusal": None}
    assert feed(answer, {"message": message, "finish_reason": "length"}) == ["all"]
    assert answer.finish_reason == "length"


def test_calls_in_pieces_side_by_side(answer: Answer) -> None:
    feed(
        answer,
        delta(tool_calls=[{"index": 1, "id": "b", "function": function("", "two")}]),
        delta(tool_calls=[{"index": 0, "id": "a", "function": function('{"n"', "one")}]),
        delta(tool_calls=[{"index": 0, "function": function(": 1}")}]),
        delta(tool_calls=[{"index": 0}]),
    )
    assert answer.calls == (ModelCall("a", "one", '{"n": 1}'), ModelCall("b", "two", "{}"))


def test_calls_without_index_or_id_and_with_bare_arguments(answer: Answer) -> None:
    feed(
        answer,
        delta(tool_calls=[{"function": function({"n": 1}, "one")}]),
        delta(tool_calls=[{"function": function('{"m"', "two")}]),
        delta(tool_calls=[{"function": function(": 2}")}]),
    )
    assert answer.calls == (
        ModelCall("call_0", "one", '{"n":1}'),
        ModelCall("call_1", "two", '{"m": 2}'),
    )


def test_calls_go_back_to_the_model_as_they_came(answer: Answer) -> None:
    feed(answer, delta(tool_calls=[{"index": 0, "id": "a", "function": function("{}", "one")}]))
    call = {"id": "a", "type": "function", "function": {"name": "one", "arguments": "{}"}}
    assert answer.as_message() == {"role": "assistant", "content": None, "tool_calls": [call]}


def test_a_refusal(answer: Answer) -> None:
    assert feed(answer, delta(refusal="I "), delta(refusal="will not")) == ["", ""]
    assert answer.refusal == "I will not"


def test_usage_is_the_last_that_was_told(answer: Answer) -> None:
    for total in (3, 5):
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": total}
        chunk = {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": 1}}}
        assert answer.feed(read_chunk(msgspec.json.encode(chunk))) == ""
    assert answer.usage == Usage(1, 2, 5)
    assert answer.usage + Usage(1, 1, 1) == Usage(2, 3, 6)


def test_an_answer_that_grows_too_large() -> None:
    for choice in (
        delta(content="x" * 11),
        delta(tool_calls=[{"index": 0, "function": function("x" * 11, "one")}]),
        delta(refusal="x" * 11),
    ):
        with pytest.raises(TooLarge):
            feed(Answer(max_bytes=10), choice)


def test_calls_without_end_grow_too_large(answer: Answer) -> None:
    with pytest.raises(TooLarge):
        feed(answer, *[delta(tool_calls=[{"index": number}]) for number in range(20)])


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 3, "completion_tokens": None}, Usage(3)),
        ({"prompt_tokens": 3.0, "total_tokens": "4"}, Usage(3)),
        ([], Usage()),
    ],
)
def test_odd_usage_is_no_reason_to_lose_an_answer(
    answer: Answer, usage: object, told: Usage
) -> None:
    chunk = {"choices": [delta(content="a")], "usage": usage}
    assert answer.feed(read_chunk(msgspec.json.encode(chunk))) == "a"
    assert answer.usage == told


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{not json",
        b"42",
        b"[]",
        b"{}",
        b'{"choices": 4}',
        b'{"choices": [4]}',
        b'{"choices": [{"delta": {"tool_calls": [{"index": "x"}]}}]}',
        b'{"choices": [{"finish_reason": 4}]}',
        b'"\xff"',
        b'{"choices": [{"delta": {"content": "\xff"}}]}',
        b'{"more": ' + b"[" * 100_000,
    ],
    ids=range(12),
)
def test_garbage(data: bytes) -> None:
    with pytest.raises(Garbage):
        read_chunk(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"error": {"message": "no luck", "type": "x"}}', "no luck"),
        (b'{"error": "no luck"}', "no luck"),
        (b'{"error": {"detail": "no luck"}, "choices": []}', "no luck"),
    ],
)
def test_an_error_in_place_of_an_answer(data: bytes, text: str) -> None:
    with pytest.raises(ReportedError, match=text):
        read_chunk(data)
