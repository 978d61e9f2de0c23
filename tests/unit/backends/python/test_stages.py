"""Several messages in one turn of a Python agent."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from trunkline import Part, Turn
from trunkline.backends.python import Agent, PythonBackend
from trunkline.model.outputs import Final, Output, StageEnded, StageStarted, Text
from trunkline.testing import FakeClock, run_turn, turn_request

DATA = Part(data={"a": 1})


async def run(fn: Any) -> list[Output]:
    return await run_turn(PythonBackend(Agent(fn), clock=FakeClock()), turn_request("hi"))


async def both(values: list[object]) -> list[Output]:
    """What comes of values that an agent yields, on the loop and in a thread alike."""

    async def on_loop(turn: Turn) -> AsyncIterator[object]:
        for value in values:
            yield value

    def in_thread(turn: Turn) -> Iterator[object]:
        yield from values

    outputs = await run(on_loop)
    assert outputs == await run(in_thread)
    return outputs


def text(value: str) -> tuple[Part, ...]:
    return (Part(text=value),)


@pytest.mark.parametrize(
    ("values", "outputs"),
    [
        (["a", StageStarted(), "b"], [Text("a"), StageStarted(), Text("b")]),
        (
            ["a", {"a": 1}, StageStarted(), "b"],
            [Text("a"), StageEnded((*text("a"), DATA)), StageStarted(), Text("b")],
        ),
        (
            ["a", StageStarted(), "b", {"a": 1}],
            [Text("a"), StageStarted(), Text("b"), Final((*text("b"), DATA))],
        ),
        (["a", {"a": 1}, StageEnded()], [Text("a"), StageEnded((*text("a"), DATA))]),
        (["a", {"a": 1}, StageEnded(text("c"))], [Text("a"), StageEnded(text("c"))]),
    ],
    ids=["text", "data-in-the-first", "data-in-the-last", "end-without-words", "end-with-words"],
)
async def test_content_that_is_no_text_stays_with_its_message(
    values: list[object], outputs: list[Output]
) -> None:
    assert await both(values) == outputs


async def test_previews_are_the_pieces_that_are_new() -> None:
    turn = Turn(turn_request("hi"))
    values: list[object] = [turn.preview("He"), turn.preview("Hello"), turn.preview("!"), "?"]
    assert await both(values) == [Text("He"), Text("llo"), Text("!"), Text("?")]
    assert await both([*values, {"a": 1}]) == [
        *await both(values),
        Final((*text("Hello!?"), DATA)),
    ]
    values = [turn.replace("Bye"), turn.preview("Bye now")]
    assert (await both(values))[-1] == Text(" now")


async def test_messages_that_are_returned() -> None:
    async def fn(turn: Turn) -> object:
        return "a", turn.stage(), "b", {"a": 1}

    assert await run(fn) == [StageEnded(text("a")), StageStarted(), Final((*text("b"), DATA))]
