"""Ten thousand readers of a task cost everybody else one slice at a time. Here are fewer, and
what is counted is how many of them are served in a pass of the loop."""

import asyncio

import pytest
from tests.runtime.world import Reading, World, opened, world

from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.runtime.fanout import Beat, CutOff, Opening
from trunkline.runtime.replay import MAX_STEPS, STEP_BYTES, STEP_ENTRIES
from trunkline.runtime.wakeups import MAX_AWAKE
from trunkline.testing import settle

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover

MANY = 10 * MAX_AWAKE


class Crowd:
    """Readers of one task, each reading as fast as it is served."""

    def __init__(self, w: World) -> None:
        self._w = w
        self.readings: list[Reading] = []
        self.ends: list[asyncio.Future[None]] = []
        self.served = 0

    async def join(self, task_id: str, count: int) -> None:
        for _ in range(count):
            reading = await self._w.follow(task_id)
            self.readings.append(reading)
            self.ends.append(self._w.soon(self._read(reading)))
        for _ in range(count // MAX_AWAKE):
            await settle()
        assert all(reading.items for reading in self.readings)
        self.served = 0

    async def _read(self, reading: Reading) -> None:
        while await reading.read():
            self.served += 1
        reading.close()

    async def until_served(self, count: int) -> int:
        """Returns the largest number that was served in one pass of the loop."""
        most = 0
        async with asyncio.timeout(30):
            while self.served < count:
                before = self.served
                await self._w.clock.sleep(0)
                most = max(most, self.served - before)
        return most


async def crowded(w: World, script: str, count: int = MANY) -> tuple[str, Crowd]:
    task = await w.submit(script)
    await w.gates.reached("a")
    await settle()
    crowd = Crowd(w)
    await crowd.join(task.id, count)
    return task.id, crowd


async def test_an_event_for_many_readers_is_served_in_slices() -> None:
    async with world() as w:
        _, crowd = await crowded(w, "wait a; note one; wait b")
        w.gates.open("a")
        assert await crowd.until_served(MANY) <= MAX_AWAKE
        w.gates.open("b")
        await asyncio.gather(*crowd.ends)


async def test_signs_of_life_for_many_readers_are_served_in_slices() -> None:
    async with world(heartbeat_s=15.0) as w:
        _, crowd = await crowded(w, "wait a")
        advancing = w.soon(w.clock.advance(15.0))
        assert await crowd.until_served(MANY) <= MAX_AWAKE
        assert all(reading.items[-1] == Beat() for reading in crowd.readings)
        await advancing
        w.gates.open("a")
        await asyncio.gather(*crowd.ends)


async def test_a_send_and_a_stream_beside_a_crowd_are_answered_before_it_is_served() -> None:
    # A send takes some ten passes of the loop.
    count = 100 * MAX_AWAKE
    async with world() as w:
        _, crowd = await crowded(w, "wait a; note one; wait b", count)
        other = await w.stream("wait c; note two; wait d")
        await w.gates.reached("c")
        await settle()
        await other.read()
        w.gates.open("a")
        await crowd.until_served(1)
        sending = w.soon(w.send("say hello"))
        w.gates.open("c")
        assert len(await other.read()) > 0
        assert (await sending).status.state is TaskState.COMPLETED
        assert crowd.served < count
        for gate in "bd":
            w.gates.open(gate)
        other.close()
        await asyncio.gather(*crowd.ends)


async def test_readers_that_come_while_a_crowd_is_served_see_all_once() -> None:
    async with world() as w:
        task_id, crowd = await crowded(w, "wait a; stream 20; wait b; stream 20; wait c")
        late: list[Reading] = []
        for gate in "ab":
            w.gates.open(gate)
            before = crowd.served
            while crowd.served < before + MANY // 2:
                await w.clock.sleep(0)
                late.append(await w.follow(task_id, after=len(late) % 3 if len(late) % 2 else None))
            await w.gates.reached(chr(ord(gate) + 1))
        assert len(late) > 4
        w.gates.open("c")
        await asyncio.gather(*crowd.ends, *(w.soon(reading.all()) for reading in late))
        journal = list(await w.journal(task_id))
        for reading in [*crowd.readings, *late]:
            first = reading.items[0]
            assert isinstance(first, Entry | Opening)
            start = first.seq if isinstance(first, Opening) else first.seq - 1
            assert reading.entries == journal[start:]


async def test_readers_that_leave_while_a_crowd_is_served_delay_nobody() -> None:
    async with world() as w:
        task_id, crowd = await crowded(w, "wait a; note one; wait b; note two")
        w.gates.open("a")
        await crowd.until_served(MAX_AWAKE)
        leaving = crowd.readings[::2]
        for reading in leaving:
            reading.subscription.end()
        w.gates.open("b")
        async with asyncio.timeout(30):
            await asyncio.gather(*crowd.ends)
        journal = list(await w.journal(task_id))
        for reading in crowd.readings[1::2]:
            assert reading.entries == journal[reading.seqs[0] :]
        for reading in leaving:
            assert reading.entries == journal[reading.seqs[0] :][: len(reading.entries)]
        assert not w.service.readers.subscriptions
        assert len(w.runtime.registry) == 0


async def test_a_task_that_ends_while_a_crowd_is_served_ends_every_stream() -> None:
    async with world() as w:
        task_id, crowd = await crowded(w, "wait a; note one; wait b")
        w.gates.open("a")
        await crowd.until_served(1)
        await w.cancel(task_id)
        assert crowd.served < MANY
        async with asyncio.timeout(30):
            await asyncio.gather(*crowd.ends)
        last = (await w.journal(task_id))[-1]
        assert all(reading.entries[-1] == last for reading in crowd.readings)
        assert len(w.runtime.registry) == 0


async def test_a_stop_while_a_crowd_is_served_tells_every_reader_where_it_was() -> None:
    async with world() as w:
        task_id, crowd = await crowded(w, "wait a; note one; hang")
        w.gates.open("a")
        await crowd.until_served(1)
        w.runtime.end_streams("the gateway is shutting down")
        assert crowd.served < MANY
        async with asyncio.timeout(30):
            await asyncio.gather(*crowd.ends)
        for reading in crowd.readings:
            assert reading.items[-1] == CutOff("the gateway is shutting down", reading.seqs[-1])
        await w.cancel(task_id)


async def test_many_entries_of_one_commit_reach_a_crowd_as_far_as_each_stream_goes() -> None:
    async with world() as w:
        task = await w.submit("wait a; stream 5; ask more?; say done")
        await w.gates.reached("a")
        await settle()
        followers = [await w.follow(task.id) for _ in range(3)]
        until_asked = [await w.follow(task.id, closes_on_input=True) for _ in range(3)]
        ends = [w.soon(reading.all()) for reading in [*followers, *until_asked]]
        w.gates.open("a")
        await asyncio.gather(*ends[3:])
        await w.send("say done", task=task.id)
        await asyncio.gather(*ends)
        journal = list(await w.journal(task.id))
        for reading in followers:
            assert reading.entries == journal[reading.seqs[0] :]
        for reading in until_asked:
            assert opened_state(reading) is TaskState.INPUT_REQUIRED
            assert reading.entries == journal[reading.seqs[0] : reading.seqs[-1]]


def opened_state(reading: Reading) -> TaskState:
    assert isinstance(reading.items[0], Opening)
    assert opened(reading.items[0]).status.state is TaskState.WORKING
    event = reading.entries[-1].public
    assert hasattr(event, "status")
    return TaskState(event.status.state)


async def test_a_long_replay_comes_in_steps_and_lets_others_in_between() -> None:
    async with world() as w:
        task = await w.send("stream 1000")
        passes = 0

        async def count_passes() -> None:
            nonlocal passes
            while True:
                await w.clock.sleep(0)
                passes += 1

        w.callers.spawn(count_passes(), name="counting")
        reading = await w.follow(task.id, after=0)
        steps = []
        while items := await reading.read():
            steps.append(len(items))
        reading.close()
        assert max(steps) <= STEP_ENTRIES
        assert passes >= len(steps)
        assert reading.entries == list(await w.journal(task.id))


async def test_a_step_of_a_replay_is_bounded_in_bytes() -> None:
    async with world() as w:
        text = "x" * (STEP_BYTES // 3)
        task = await w.send("; ".join([f"note {text}"] * 10))
        reading = await w.follow(task.id, after=0)
        while items := await reading.read():
            assert len(items) == 1 or sum(len(e.body) for e in items if isinstance(e, Entry)) <= (
                STEP_BYTES
            )
        reading.close()
        assert reading.entries == list(await w.journal(task.id))


@pytest.mark.parametrize("count", [3 * MAX_STEPS])
async def test_few_replays_take_a_step_in_one_pass(count: int) -> None:
    async with world() as w:
        task = await w.send("stream 300")
        readings = [await w.follow(task.id, after=0) for _ in range(count)]
        for reading in readings:
            await reading.read()
        steps = 0

        async def read(reading: Reading) -> None:
            nonlocal steps
            while await reading.read():
                steps += 1
            reading.close()

        ends = [w.soon(read(reading)) for reading in readings]
        most = 0
        while not all(end.done() for end in ends):
            before = steps
            await w.clock.sleep(0)
            most = max(most, steps - before)
        assert 0 < most <= MAX_STEPS
        journal = list(await w.journal(task.id))
        assert all(reading.entries == journal for reading in readings)
