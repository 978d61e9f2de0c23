"""The first text of a turn is kept back for a moment: it may be the whole answer."""

import asyncio
from collections.abc import AsyncIterator

from tests.runtime.outputs import artifacts_of, told
from tests.runtime.world import World, world

from trunkline.model.outputs import Output, Text
from trunkline.model.values import TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.testing import settle


async def shown(w: World, text: str) -> list[tuple[object, ...]]:
    return told(await (await w.stream(text)).all())


async def test_a_text_that_is_the_whole_answer_is_one_entry() -> None:
    async with world() as w:
        assert await shown(w, "say hello") == [
            ("task", "submitted"),
            ("working",),
            ("answer", "hello", "last"),
            ("completed", "hello"),
        ]


async def test_more_text_is_a_further_piece() -> None:
    async with world() as w:
        assert await shown(w, "say one; say two") == [
            ("task", "submitted"),
            ("working",),
            ("answer", "one"),
            ("answer", "two", "append", "last"),
            ("completed", "onetwo"),
        ]


async def test_a_text_shows_while_the_agent_is_silent() -> None:
    async with world() as w:
        stream = await w.stream("say hello; wait gate")
        while ("answer", "hello") not in told(stream.items):
            assert await stream.read()
        w.gates.open("gate")
        assert told(await stream.all())[-1] == ("completed", "hello")


async def test_a_text_before_a_failure_is_kept() -> None:
    async with world() as w:
        for script in ("say hello; fail no", "say hello; crash", "say hello; ask and you?"):
            task = await w.send(script)
            assert artifacts_of(task) == {"answer": "hello"}, script
            assert task.status.message is not None
            assert text_of(task.status.message.parts) != "hello"


class HalfACharacter:
    """Says what is no JSON, and waits, when it is told `half`; else it echoes."""

    may_reply_directly = False
    is_pure = True
    can_resume = False

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        if text_of(turn.message.parts) == "half":
            yield Text("\ud800")
            await asyncio.get_running_loop().create_future()
        yield Text(text_of(turn.message.parts))

    async def cancel(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


async def test_a_text_that_is_no_json_fails_its_own_task_alone() -> None:
    async with world(backend=HalfACharacter()) as w:
        broken, whole = w.soon(w.send("half")), w.soon(w.send("hello"))
        async with asyncio.timeout(10):
            assert (await whole).status.state is TaskState.COMPLETED
            assert (await broken).status.state is TaskState.FAILED


async def test_a_text_before_a_cancel_is_kept() -> None:
    async with world() as w:
        w.scripted.is_pure = True
        task = await w.submit("say hello; hang")
        canceled = await w.cancel(task.id)
        assert canceled.status.state is TaskState.CANCELED
        assert artifacts_of(canceled) == {"answer": "hello"}
        await settle()
        assert artifacts_of(await w.get(task.id)) == {"answer": "hello"}
