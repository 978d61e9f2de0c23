import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from trunkline import Part, Turn
from trunkline.backends.python import Agent, PythonBackend
from trunkline.model.errors import AgentError
from trunkline.model.outputs import Failed, Final, Output, Question, Refused, Text
from trunkline.testing import FakeClock, answer_text, run_turn, settle, turn_request


def backend_of(fn: Any, *, clock: FakeClock | None = None, **about: Any) -> PythonBackend:
    return PythonBackend(Agent(fn, **about), clock=clock or FakeClock(), grace_s=5)


async def run(fn: Any, text: str = "hi", **about: Any) -> list[Output]:
    return await run_turn(backend_of(fn, **about), turn_request(text))


async def test_a_returned_text_is_the_answer() -> None:
    async def fn(turn: Turn) -> str:
        return turn.text.upper()

    assert await run(fn) == [Final((Part(text="HI"),))]


async def test_yielded_text_streams() -> None:
    async def fn(turn: Turn) -> AsyncIterator[str]:
        yield "a"
        yield ""
        yield "b"

    assert await run(fn) == [Text("a"), Text("b")]


@dataclass
class Weather:
    city: str
    degrees: int


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (None, ()),
        (("a", "b"), (Part(text="a"), Part(text="b"))),
        ({"a": 1}, (Part(data={"a": 1}),)),
        ([1, 2], (Part(data=[1, 2]),)),
        (0, (Part(data=0),)),
        (False, (Part(data=False),)),
        (Weather("Bern", 3), (Part(data={"city": "Bern", "degrees": 3}),)),
        (b"\x00", (Part(raw=b"\x00", media_type="application/octet-stream"),)),
        (Part(url="https://x.test/a"), (Part(url="https://x.test/a"),)),
        (("see", {"a": 1}), (Part(text="see"), Part(data={"a": 1}))),
        ([Part(text="a"), Part(text="b")], (Part(text="a"), Part(text="b"))),
    ],
    ids=repr,
)
async def test_what_may_be_returned(value: object, parts: tuple[Part, ...]) -> None:
    def fn(turn: Turn) -> object:
        return value

    async def afn(turn: Turn) -> object:
        return value

    assert await run(fn) == [Final(parts)]
    assert await run(afn) == [Final(parts)]


async def test_parts_between_text_come_with_the_end_in_order() -> None:
    async def fn(turn: Turn) -> AsyncIterator[object]:
        yield "before "
        yield {"a": 1}
        yield "after"

    assert await run(fn) == [
        Text("before "),
        Text("after"),
        Final((Part(text="before "), Part(data={"a": 1}), Part(text="after"))),
    ]


async def test_an_unsayable_value_fails_the_turn_with_its_type() -> None:
    async def fn(turn: Turn) -> object:
        return object()

    with pytest.raises(TypeError, match="not object"):
        await run(fn)


@pytest.mark.parametrize("how", ["return", "raise", "raise deep"])
async def test_an_end_may_be_returned_or_raised(how: str) -> None:
    def deep(turn: Turn) -> object:
        raise turn.refuse("no")

    async def fn(turn: Turn) -> object:
        if how == "return":
            return turn.refuse("no")
        if how == "raise":
            raise turn.refuse("no")
        return deep(turn)

    def sync(turn: Turn) -> object:
        if how == "return":
            return turn.refuse("no")
        if how == "raise":
            raise turn.refuse("no")
        return deep(turn)

    assert await run(fn) == [Refused("no")]
    assert await run(sync) == [Refused("no")]


async def test_an_end_raised_in_a_task_group_is_still_the_end() -> None:
    async def child(turn: Turn) -> None:
        raise turn.refuse("no")

    async def fn(turn: Turn) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(turn))
        return "never"

    async def generator(turn: Turn) -> AsyncIterator[str]:
        yield "a"
        await fn(turn)

    async def mixed(turn: Turn) -> None:
        raise ExceptionGroup("both", [turn.refuse("no"), ValueError("worse")])

    assert await run(fn) == [Refused("no")]
    assert await run(generator) == [Text("a"), Refused("no")]
    with pytest.raises(ExceptionGroup):
        await run(mixed)


async def test_close_waits_once_for_all_that_ignore_it() -> None:
    clock, release = FakeClock(), asyncio.Event()

    async def fn(turn: Turn) -> AsyncIterator[str]:
        yield "begun"
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    backend = backend_of(fn, clock=clock)
    runs = [backend.start(turn_request("hi", run_id=f"run-{n}")) for n in range(3)]
    for each in runs:
        await anext(each)
    async with asyncio.TaskGroup() as group:
        rest = [group.create_task(_all(each)) for each in runs]
        await settle()
        closing = group.create_task(backend.close())
        await clock.wait_until_sleeping()
        await clock.advance(5)
        await closing
        release.set()
        assert [await each for each in rest] == [[], [], []]


async def test_finally_blocks_run_before_the_end_is_handed_over() -> None:
    closed: list[str] = []

    async def fn(turn: Turn) -> AsyncIterator[object]:
        try:
            yield turn.ask("Which?")
        finally:
            await settle()
            closed.append("async")

    def sync(turn: Turn) -> Iterator[object]:
        try:
            yield turn.ask("Which?")
        finally:
            closed.append("sync")

    for each in (fn, sync):
        async for output in backend_of(each).start(turn_request("hi")):
            assert output == Question((Part(text="Which?"),))
            assert closed
        closed.clear()


async def test_a_raised_end_completes_what_was_yielded() -> None:
    async def fn(turn: Turn) -> AsyncIterator[object]:
        yield {"a": 1}
        raise turn.answer(metadata={"cost": 3})

    def sync(turn: Turn) -> Iterator[object]:
        yield {"a": 1}
        raise turn.answer(metadata={"cost": 3})

    assert await run(fn) == await run(sync) == [Final((Part(data={"a": 1}),), {"cost": 3})]


async def test_a_generator_may_return_its_end() -> None:
    def fn(turn: Turn) -> Generator[object, None, object]:
        yield "a"
        return turn.fail("broken")

    assert await run(fn) == [Text("a"), Failed("broken")]


async def test_cancel_reaches_the_agent_and_its_finally_blocks() -> None:
    seen: list[str] = []

    async def fn(turn: Turn) -> AsyncIterator[str]:
        yield "begun"
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(f"canceled: {turn.is_canceled}")

    backend = backend_of(fn)
    outputs = backend.start(turn_request("hi"))
    assert await anext(outputs) == Text("begun")
    async with asyncio.TaskGroup() as group:
        rest = group.create_task(_all(outputs))
        await settle()
        await backend.cancel("run-1")
        assert await rest == []
    assert seen == ["canceled: True"]


async def test_what_an_agent_says_after_a_swallowed_cancellation_is_dropped() -> None:
    release = asyncio.Event()

    async def fn(turn: Turn) -> AsyncIterator[str]:
        yield "begun"
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        yield "late"

    backend = backend_of(fn)
    outputs = backend.start(turn_request("hi"))
    await anext(outputs)
    async with asyncio.TaskGroup() as group:
        rest = group.create_task(_all(outputs))
        await settle()
        await backend.cancel("run-1")
        await settle()
        assert not rest.done()
        release.set()
        assert await rest == []


async def test_a_cancel_of_the_reader_is_the_readers_own() -> None:
    seen: list[str] = []

    async def fn(turn: Turn) -> AsyncIterator[str]:
        try:
            yield "begun"
            await asyncio.Event().wait()
        finally:
            seen.append("closed")

    outputs = backend_of(fn).start(turn_request("hi"))
    await anext(outputs)
    reader = asyncio.get_running_loop().create_task(_all(outputs))
    await settle()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert seen == ["closed"]


async def test_leaving_the_iterator_stops_the_agent() -> None:
    stopped = asyncio.Event()

    async def fn(turn: Turn) -> AsyncIterator[str]:
        try:
            yield "begun"
            await asyncio.Event().wait()
        finally:
            stopped.set()

    outputs = cast(Any, backend_of(fn).start(turn_request("hi")))
    async with aclosing(outputs):
        await anext(outputs)
    await stopped.wait()


async def test_an_endless_agent_does_not_run_far_ahead() -> None:
    said = 0

    async def fn(turn: Turn) -> AsyncIterator[str]:
        nonlocal said
        while True:
            said += 1
            yield "x"

    backend = backend_of(fn)
    outputs = backend.start(turn_request("hi"))
    await anext(outputs)
    await settle()
    assert said < 100
    await backend.cancel("run-1")
    assert await _all(outputs) == []


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()], ids=repr)
async def test_what_would_stop_the_gateway_only_fails_the_turn(error: BaseException) -> None:
    async def fn(turn: Turn) -> None:
        raise error

    def sync(turn: Turn) -> None:
        raise error

    for each in (fn, sync):
        with pytest.raises(AgentError):
            await run(each)


async def test_a_wrapped_coroutine_function_runs_on_the_loop() -> None:
    async def inner(turn: Turn) -> str:
        assert asyncio.current_task() is not None
        return "from the loop"

    def wrapper(turn: Turn) -> object:
        return inner(turn)

    assert answer_text(await run(wrapper)) == "from the loop"


async def test_sync_functions_see_the_cancel_and_count_until_they_return() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def fn(turn: Turn) -> object:
        begun.set()
        may_end.wait(timeout=30)
        return "over"

    clock = FakeClock()
    backend = backend_of(fn, clock=clock, max_threads=1)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(run_turn(backend, turn_request("hi")))
        await settle()
        assert begun.wait(timeout=30)
        await backend.cancel("run-1")
        await clock.wait_until_sleeping()
        await clock.advance(5)
        assert await first == []
        (busy,) = await run_turn(backend, turn_request("hi", run_id="run-2"))
        assert isinstance(busy, Failed)
        assert "busy" in busy.reason
        may_end.set()
    await backend.close()


async def test_a_thread_is_free_again_when_the_turn_has_ended() -> None:
    backend = backend_of(lambda turn: turn.text, max_threads=1)
    for number in range(50):
        # The runtime may leave at the end of the turn without looking for more.
        output = await anext(backend.start(turn_request("hi", run_id=f"run-{number}")))
        assert output == Final((Part(text="hi"),))


async def test_a_sync_generator_is_held_back_and_let_go_by_a_cancel() -> None:
    closed = threading.Event()

    def fn(turn: Turn) -> Iterator[str]:
        try:
            while True:
                yield "x"
        finally:
            closed.set()

    backend = backend_of(fn)
    outputs = backend.start(turn_request("hi"))
    await anext(outputs)
    await backend.cancel("run-1")
    assert await _all(outputs) == []
    assert closed.is_set()


async def test_turn_canceled_wakes_helpers() -> None:
    woken: list[bool] = []

    async def fn(turn: Turn) -> AsyncIterator[str]:
        async def watch() -> None:
            await asyncio.shield(turn.canceled())

        yield "begun"
        try:
            await watch()
        finally:
            woken.append(turn.is_canceled)

    backend = backend_of(fn)
    outputs = backend.start(turn_request("hi"))
    await anext(outputs)
    async with asyncio.TaskGroup() as group:
        rest = group.create_task(_all(outputs))
        await settle()
        await backend.cancel("run-1")
        assert await rest == []
    assert woken == [True]


async def _all(outputs: AsyncIterator[Output]) -> list[Output]:
    return [output async for output in outputs]
