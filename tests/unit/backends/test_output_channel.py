"""`OutputChannel` keeps every promise that backends rely on.

- Another A2A agent (one producer, a task): it is ahead by 64 outputs or 1 MiB and one output, no
  more; a single output of any size gets through; it goes on when half is read; nothing is lost
  and the order is kept; an error comes after everything that was said; a reader that leaves
  lets the producer go, and what is put after the end is ignored.
- A program (one producer, a task, and a timer): the same, and the last words of the run get in
  without waiting; the first end counts; a reader that waits learns that the channel was closed.
- OpenClaw (the reader of a socket that other runs share): it never waits; pieces of text are
  joined while they wait; too many outputs of other kinds become one failure in its own words.
- A request to a model (several producers, the tools that run side by side): all of them wait
  and all go on; an exception reaches the reader, once.
- A Python function (a thread): it waits without holding up the loop; its outputs arrive in
  order; a closed channel lets it go, and everything it says later is ignored.
- What an agent may say in one turn: the outputs that fit, then a failure, then nothing.
"""

import asyncio
import threading

import pytest

from trunkline.backends.output_channel import (
    MAX_WAITING,
    MAX_WAITING_BYTES,
    OutputChannel,
    flooded,
    size_of,
)
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import Failed, Final, Note, Output, StageStarted, Text
from trunkline.model.values import Part
from trunkline.testing import settle


async def put_all(channel: OutputChannel, output: Output, count: int) -> "asyncio.Task[None]":
    async def put() -> None:
        for _ in range(count):
            await channel.put(output)
        channel.finish()

    writing = asyncio.get_running_loop().create_task(put())
    await settle()
    return writing


async def rest_of(channel: OutputChannel) -> list[Output]:
    outputs = []
    while (output := await channel.take()) is not None:
        outputs.append(output)
    return outputs


@pytest.mark.parametrize(
    ("output", "ahead"),
    [
        (Text("x"), MAX_WAITING + 1),
        (Text("x" * (MAX_WAITING_BYTES // 4)), 5),
        (Note((Part(text="x" * (8 * MAX_WAITING_BYTES)),)), 1),
    ],
    ids=["many", "some", "one"],
)
async def test_a_producer_is_so_far_ahead_and_loses_nothing(output: Output, ahead: int) -> None:
    channel = OutputChannel()
    writing = await put_all(channel, output, 200)
    assert len(channel._waiting) == ahead
    read = 0
    while await channel.take() is not None:
        read += 1
        await settle()
        assert len(channel._waiting) <= ahead
    assert read == 200
    await writing


async def test_a_producer_that_is_too_fast_is_held_back_until_half_is_read() -> None:
    channel, tasks = OutputChannel(), BackgroundTasks("test")

    async def write() -> None:
        for number in range(3 * MAX_WAITING):
            await channel.put(Text(str(number)))
        channel.finish()

    writing = tasks.start(write(), name="write")
    await settle()
    assert not writing.done()
    read = [await channel.take()]
    await settle()
    assert len(channel._waiting) == MAX_WAITING
    read += await rest_of(channel)
    assert read == [Text(str(number)) for number in range(3 * MAX_WAITING)]
    assert writing.done()


async def test_a_reader_that_leaves_lets_the_producer_go() -> None:
    channel = OutputChannel()
    writing = await put_all(channel, Text("x" * MAX_WAITING_BYTES), 10)
    assert not writing.done()
    channel.close()
    await asyncio.wait_for(writing, 10)
    channel.put_now(Text("late"))
    assert await channel.take() is None


async def test_a_failure_comes_once_after_what_was_said() -> None:
    channel = OutputChannel()
    await channel.put(Text("a"))
    channel.finish(RuntimeError("told to"))
    assert await channel.take() == Text("a")
    with pytest.raises(RuntimeError):
        await channel.take()
    assert await channel.take() is None


async def test_the_first_end_counts_and_nothing_follows_it() -> None:
    channel = OutputChannel()
    channel.finish()
    channel.finish(RuntimeError("too late"))
    channel.put_now(Text("too late"))
    await channel.put(Text("too late"))
    assert await channel.take() is None


async def test_last_words_get_in_though_the_channel_is_full() -> None:
    channel = OutputChannel()
    writing = await put_all(channel, Text("x"), MAX_WAITING + 1)
    channel.put_now(Failed("too long"))
    channel.finish()
    outputs = await rest_of(channel)
    assert outputs == [*[Text("x")] * (MAX_WAITING + 1), Failed("too long")]
    await writing


@pytest.mark.parametrize("end", ["close", "finish"])
async def test_a_reader_that_waits_learns_of_the_end(end: str) -> None:
    channel = OutputChannel()
    reading = asyncio.get_running_loop().create_task(channel.take())
    await settle()
    getattr(channel, end)()
    assert await asyncio.wait_for(reading, 10) is None


async def test_a_closed_channel_forgets_the_failure() -> None:
    channel = OutputChannel()
    channel.finish(RuntimeError("nobody asks any more"))
    channel.close()
    assert await channel.take() is None
    closed = OutputChannel()
    closed.close()
    closed.finish(RuntimeError("nobody asks any more"))
    assert await closed.take() is None


async def test_several_producers_wait_and_all_go_on() -> None:
    channel = OutputChannel(max_waiting=1)

    async def write(name: str) -> None:
        for number in range(5):
            await channel.put(Text(f"{name}{number} "))

    async with asyncio.TaskGroup() as group:
        writing = [group.create_task(write(name)) for name in "abc"]
        await settle()
        assert not any(each.done() for each in writing)
        read = [await channel.take() for _ in range(15)]
    for name in "abc":
        own = [output for output in read if isinstance(output, Text) and output.delta[0] == name]
        assert own == [Text(f"{name}{number} ") for number in range(5)]


async def test_text_of_a_producer_that_cannot_wait_is_joined() -> None:
    channel = OutputChannel(overflow="too much")
    for output in (Text("a"), Text("b"), StageStarted(), Text("c"), Text("d")):
        channel.put_now(output)
    channel.finish()
    assert await rest_of(channel) == [Text("ab"), StageStarted(), Text("cd")]


async def test_too_many_outputs_of_a_producer_that_cannot_wait_are_one_failure() -> None:
    channel = OutputChannel(max_waiting=100, overflow="The agent said too much.")
    for _ in range(100):
        channel.put_now(StageStarted())
    assert len(channel._waiting) == 100
    channel.put_now(StageStarted())
    channel.finish()
    assert await rest_of(channel) == [Failed("The agent said too much.")]


async def test_an_agent_that_says_more_than_it_may_fails_after_what_fits() -> None:
    channel = OutputChannel(max_total_bytes=10)
    for text in ("12345", "67890", "1", "2"):
        await channel.put(Text(text))
    assert channel.is_flooded
    await channel.put(Final())
    channel.finish()
    assert await rest_of(channel) == [Text("12345"), Text("67890"), Failed(flooded(10))]


async def test_bytes_count_for_the_whole_turn_whatever_was_read() -> None:
    channel = OutputChannel(max_total_bytes=10)
    await channel.put(Text("12345"))
    assert await channel.take() == Text("12345")
    await channel.put(Text("67890"))
    assert not channel.is_flooded
    await channel.put(Text("1"))
    assert channel.is_flooded


async def test_a_thread_is_held_back_and_loses_nothing() -> None:
    channel = OutputChannel(loop=asyncio.get_running_loop())
    waits = threading.Event()

    def write() -> None:
        for number in range(3 * MAX_WAITING):
            if number == MAX_WAITING:
                waits.set()
            channel.put_from_thread(Text(str(number)))
        asyncio.run_coroutine_threadsafe(_finish(channel), loop).result(10)

    loop = asyncio.get_running_loop()
    writing = loop.run_in_executor(None, write)
    await loop.run_in_executor(None, waits.wait)
    assert len(channel._waiting) <= MAX_WAITING + 1
    assert await rest_of(channel) == [Text(str(number)) for number in range(3 * MAX_WAITING)]
    await writing


async def _finish(channel: OutputChannel) -> None:
    channel.finish()


async def test_a_thread_goes_on_when_the_reader_leaves() -> None:
    channel = OutputChannel(loop=asyncio.get_running_loop())
    has_put = threading.Event()

    def write() -> None:
        has_put.set()
        for _ in range(10):
            channel.put_from_thread(Text("x" * (MAX_WAITING_BYTES + 1)))

    loop = asyncio.get_running_loop()
    writing = loop.run_in_executor(None, write)
    await loop.run_in_executor(None, has_put.wait)
    channel.close()
    await asyncio.wait_for(writing, 10)
    assert await channel.take() is None


def test_the_size_of_what_no_store_takes_is_no_fault_here() -> None:
    assert size_of(Text("\ud800")) == 3
    assert size_of(Note((Part(data=object()),))) == 0
    assert size_of(Note((Part(text="ab"),))) > 2
