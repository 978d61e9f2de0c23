import asyncio

import pytest

from trunkline.backends.a2a.pipe import MAX_AHEAD, MAX_AHEAD_BYTES, Pipe
from trunkline.model.outputs import Note, Output, Text
from trunkline.model.values import Part
from trunkline.testing import settle


async def put_all(pipe: Pipe, output: Output, count: int) -> "asyncio.Task[None]":
    async def put() -> None:
        for _ in range(count):
            await pipe.put(output)
        pipe.end()

    writing = asyncio.get_running_loop().create_task(put())
    await settle()
    return writing


@pytest.mark.parametrize(
    ("output", "ahead"),
    [
        (Text("x"), MAX_AHEAD + 1),
        (Text("x" * (MAX_AHEAD_BYTES // 4)), 5),
        (Note((Part(text="x" * (8 * MAX_AHEAD_BYTES)),)), 1),
    ],
    ids=["many", "some", "one"],
)
async def test_a_writer_is_so_far_ahead_and_loses_nothing(output: Output, ahead: int) -> None:
    pipe = Pipe()
    writing = await put_all(pipe, output, 200)
    assert len(pipe._said) == ahead
    read = 0
    while await pipe.next() is not None:
        read += 1
        await settle()
        assert len(pipe._said) <= ahead
    assert read == 200
    await writing


async def test_a_reader_that_leaves_lets_the_writer_go() -> None:
    pipe = Pipe()
    writing = await put_all(pipe, Text("x" * MAX_AHEAD_BYTES), 10)
    assert not writing.done()
    pipe.drop()
    await asyncio.wait_for(writing, 10)
