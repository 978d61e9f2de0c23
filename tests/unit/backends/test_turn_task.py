import asyncio
from collections.abc import AsyncIterator

import pytest

from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.turn_task import TurnTask, TurnTaskBackend, done_within
from trunkline.background import BackgroundTasks
from trunkline.model.outputs import Failed, Final, Output, Text
from trunkline.ports.backend import TurnRequest
from trunkline.testing import FakeClock, run_turn, settle, turn_request


class Turn(TurnTask):
    """Says a word; then ends, crashes or hangs as the message has it."""

    def __init__(self, turn: TurnRequest, tasks: BackgroundTasks, max_bytes: int | None) -> None:
        super().__init__(turn, tasks, OutputChannel(max_total_bytes=max_bytes))
        self.happened: list[str] = []

    async def work(self) -> None:
        try:
            await self.channel.put(Text("word"))
            told = self.turn.message.parts[0].text
            if told == "crash":
                raise RuntimeError("told to")
            if told == "hang":
                await asyncio.Event().wait()
            await self.channel.put(Final())
            await settle()
            self.happened.append("wound down")
        except asyncio.CancelledError:
            self.happened.append("canceled")
            raise

    async def stop(self) -> None:
        self.happened.append("stopped")
        await super().stop()


class Ending(Turn):
    winds_down = False


class Backend(TurnTaskBackend[Turn]):
    def __init__(self, kind: type[Turn] = Turn, max_bytes: int | None = None) -> None:
        super().__init__("test")
        self._kind, self._max_bytes = kind, max_bytes
        self.made: list[Turn] = []

    def turn_task(self, turn: TurnRequest) -> Turn:
        made = self._kind(turn, self.tasks, self._max_bytes)
        self.made.append(made)
        return made


async def rest_of(outputs: AsyncIterator[Output]) -> list[Output]:
    return [output async for output in outputs]


async def test_a_turn_that_ended_winds_down_by_itself() -> None:
    backend = Backend()
    assert await run_turn(backend, turn_request("hi")) == [Text("word"), Final()]
    await backend.made[0].ended()
    assert backend.made[0].happened == ["wound down"]


async def test_a_turn_with_nothing_to_wind_down_is_canceled_when_its_end_was_read() -> None:
    backend = Backend(Ending)
    assert await run_turn(backend, turn_request("hi")) == [Text("word"), Final()]
    await backend.made[0].ended()
    assert backend.made[0].happened == ["canceled"]


async def test_an_exception_comes_out_of_the_outputs() -> None:
    with pytest.raises(RuntimeError):
        await run_turn(Backend(), turn_request("crash"))


async def test_a_cancel_ends_outputs_and_work() -> None:
    backend = Backend()
    outputs = backend.start(turn_request("hang"))
    assert await anext(outputs) == Text("word")
    await backend.cancel("run-1")
    assert await rest_of(outputs) == []
    await backend.made[0].ended()
    assert backend.made[0].happened == ["stopped", "canceled"]


async def test_a_turn_that_was_canceled_before_it_began_does_nothing() -> None:
    backend = Backend()
    outputs = backend.start(turn_request("hi"))
    await backend.cancel("run-1")
    assert await rest_of(outputs) == []
    assert backend.made[0].happened == ["stopped"]


async def test_an_agent_that_says_too_much_is_stopped_before_anybody_reads_so() -> None:
    backend = Backend(max_bytes=3)
    outputs = backend.start(turn_request("hang"))
    assert isinstance(await anext(outputs), Failed)
    assert backend.made[0].happened[0] == "stopped"
    assert await rest_of(outputs) == []


async def test_closing_the_backend_ends_its_turns() -> None:
    backend = Backend()
    outputs = [backend.start(turn_request("hang", run_id=f"run-{n}")) for n in range(3)]
    for each in outputs:
        await anext(each)
    await backend.close()
    assert [turn.happened for turn in backend.made] == [["canceled"]] * 3
    assert [await rest_of(each) for each in outputs] == [[], [], []]


async def test_waiting_ends_with_what_is_waited_for_or_with_the_time() -> None:
    clock, tasks = FakeClock(), BackgroundTasks("test")
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answers: list[bool] = []

    async def wait() -> None:
        answers.append(await done_within(future, 5, clock))

    waiting = tasks.start(wait(), name="wait")
    await clock.wait_until_sleeping()
    await clock.advance(5)
    await waiting
    future.set_result(None)
    await wait()
    assert answers == [False, True]
