"""Readers: neither gap nor duplicate, whenever they come."""

import asyncio

import pytest
from tests.runtime.stores import AheadStore
from tests.runtime.world import Reading, opened, world

from trunkline.model.errors import UnsupportedOperation
from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.runtime.fanout import Beat, CutOff, Gap, Opening
from trunkline.testing import settle


async def test_a_stream_holds_the_journal_from_its_first_entry() -> None:
    async with world() as w:
        reading = await w.stream("stream 5; artifact text a hello")
        await reading.all()
        assert reading.entries == list(await w.journal(reading.task_id))
        assert reading.seqs == list(range(1, len(reading.seqs) + 1))
        assert not w.service.readers.subscriptions


@pytest.mark.parametrize("joins_at", range(7))
async def test_a_reader_that_joins_anywhere_sees_all_once(joins_at: int) -> None:
    script = "; ".join(f"wait {n}; say {n}" for n in range(6)) + "; wait 6"
    async with world() as w:
        task = await w.submit(script)
        for n in range(joins_at):
            w.gates.open(str(n))
        await w.gates.reached(str(joins_at))
        await settle()
        readings = [await w.follow(task.id), await w.follow(task.id, after=0)]
        readings.append(await w.follow(task.id, after=2))
        for n in range(joins_at, 7):
            w.gates.open(str(n))
        await asyncio.gather(*(reading.all() for reading in readings))
        journal = list(await w.journal(task.id))
        snapshot, replay, resumed = readings
        assert isinstance(snapshot.items[0], Opening)
        assert snapshot.entries == journal[snapshot.items[0].seq :]
        assert replay.items == journal
        assert resumed.items == journal[2:]


async def test_readers_that_come_in_every_round_of_the_loop_see_all_once() -> None:
    async with world() as w:
        task = await w.submit("stream 40; wait a; stream 40; wait b")
        readings: list[Reading] = []
        for gate in ("a", "b"):
            for n in range(30):
                readings.append(await w.follow(task.id, after=n % 3 if n % 2 else None))
                await one_round()
            await w.gates.reached(gate)
            w.gates.open(gate)
        await asyncio.gather(*(reading.all() for reading in readings))
        journal = list(await w.journal(task.id))
        for reading in readings:
            first = reading.items[0]
            assert isinstance(first, Entry | Opening)
            start = first.seq if isinstance(first, Opening) else first.seq - 1
            assert reading.entries == journal[start:]


async def one_round() -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


async def test_a_replay_does_not_run_ahead_of_the_commit_it_was_told_of() -> None:
    store = AheadStore()
    async with world(store=store) as w:
        task = await w.submit("wait a; say one; wait b")
        await w.gates.reached("a")
        await settle()
        store.is_held = True
        w.gates.open("a")
        await w.gates.reached("b")
        await settle()
        reading = await w.follow(task.id, after=0)
        await reading.read()
        assert reading.seqs == [1, 2]
        store.is_held = False
        store.tell()
        w.gates.open("b")
        await reading.all()
        assert reading.items == list(await w.journal(task.id))


async def test_many_readers_see_the_same_order() -> None:
    async with world() as w:
        task = await w.submit("wait a; stream 20; chunks x 5; note n")
        readings = [await w.follow(task.id) for _ in range(50)]
        w.gates.open("a")
        await asyncio.gather(*(reading.all() for reading in readings))
        first = [entry.body for entry in readings[0].entries]
        assert len(first) > 25
        assert all([entry.body for entry in reading.entries] == first for reading in readings)


async def test_a_slow_reader_is_cut_off_and_resumes_without_loss() -> None:
    async with world(stream_buffer=10) as w:
        task = await w.submit("wait a; stream 5; wait b; stream 30; wait c")
        await w.gates.reached("a")
        slow, quick = await w.follow(task.id), await w.follow(task.id)
        following = w.soon(quick.all())
        w.gates.open("a")
        await w.gates.reached("b")
        await settle()
        await slow.read()
        seen = slow.seqs[-1]
        # A sign of life is nothing that the reader could miss.
        slow.subscription.beat()
        w.gates.open("b")
        await w.gates.reached("c")
        await settle()
        await slow.all()
        cut = slow.items[-1]
        assert cut == CutOff("slow reader", seen)
        resumed = await w.follow(task.id, after=cut.seq)
        w.gates.open("c")
        await resumed.all()
        journal = list(await w.journal(task.id))
        assert slow.entries + resumed.entries == journal[slow.seqs[0] :]
        await following


async def test_a_journal_longer_than_the_buffer_can_be_replayed() -> None:
    async with world(stream_buffer=10) as w:
        task = await w.send("stream 1200")
        reading = await w.follow(task.id, after=0)
        assert len(await reading.read()) < 600
        await reading.all()
        assert reading.items == list(await w.journal(task.id))
        assert len(w.runtime.registry) == 0


async def test_a_reader_that_leaves_in_the_middle_of_a_replay_lets_go_of_the_task() -> None:
    async with world() as w:
        task = await w.send("stream 1200")
        reading = await w.follow(task.id, after=0)
        await reading.read()
        assert len(w.runtime.registry) == 1
        reading.close()
        assert len(w.runtime.registry) == 0
        assert not w.service.readers.subscriptions


async def test_a_pruned_journal_shows_its_gap_and_then_the_task() -> None:
    async with world() as w:
        asked = await w.send("stream 5; ask more?")
        last = len(await w.journal(asked.id))
        await w.store.prune_journal(asked.id, up_to=4)
        reading = await w.follow(asked.id, after=1)
        await reading.read()
        gap, opening = reading.items
        assert gap == Gap(1, last)
        assert isinstance(opening, Opening)
        assert (opening.seq, opened(opening)) == (last, asked)
        await w.send("say done", task=asked.id)
        await reading.all()
        assert reading.seqs == [*range(last, last + len(reading.entries) + 1)]
        # What is still there is replayed without ado.
        whole = await w.follow(asked.id, after=4)
        await whole.all()
        assert whole.seqs == [*range(5, reading.seqs[-1] + 1)]


async def test_a_sequence_that_never_was_is_a_gap() -> None:
    async with world() as w:
        asked = await w.send("ask more?")
        reading = await w.follow(asked.id, after=99)
        await reading.read()
        assert isinstance(reading.items[0], Gap)
        assert isinstance(reading.items[1], Opening)
        reading.close()


async def test_an_ended_task_is_read_not_followed() -> None:
    async with world() as w:
        done = await w.send("say one")
        last = len(await w.journal(done.id))
        for after in (None, last):
            with pytest.raises(UnsupportedOperation):
                await w.follow(done.id, after=after)
        reading = await w.follow(done.id, after=last - 1)
        await reading.all()
        assert reading.seqs == [last]
        assert len(w.runtime.registry) == 0


async def test_quiet_readers_get_a_sign_of_life() -> None:
    async with world(heartbeat_s=15.0) as w:
        reading = await w.stream("wait a")
        while len(reading.entries) < 2:
            await reading.read()
        beat = w.soon(reading.read())
        await w.clock.advance(14.9)
        assert not beat.done()
        await w.clock.advance(0.2)
        assert await beat == [Beat()]
        w.gates.open("a")
        await reading.all()


async def test_a_stream_ends_when_the_agent_asks_and_a_follower_goes_on() -> None:
    async with world() as w:
        stream = await w.stream("ask size?")
        await stream.read()
        follower = await w.follow(stream.task_id)
        await stream.all()
        assert await w.state(stream.task_id) is TaskState.INPUT_REQUIRED
        answer = await w.stream("say XL", task=stream.task_id)
        await asyncio.gather(answer.all(), follower.all())
        assert isinstance(answer.items[0], Opening)
        assert answer.entries[-1] == follower.entries[-1]
        assert len(w.runtime.registry) == 0


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_question_that_was_answered_does_not_end_a_replay(after: int) -> None:
    # In 0.3 a question ends a stream, but only as long as it is open.
    async with world() as w:
        task = await w.send("ask which")
        answering = w.soon(w.send("wait a; ask more", task=task.id))
        await w.gates.reached("a")
        await settle()
        reading = await w.follow(task.id, after=after, closes_on_input=True)
        while len(reading.seqs) < len(await w.journal(task.id)) - after:
            assert await reading.read(), "the stream ended at the question"
        w.gates.open("a")
        await reading.all()
        assert reading.entries == list(await w.journal(task.id))[after:]
        assert (await answering).status.state is TaskState.INPUT_REQUIRED


async def test_a_replay_ends_at_a_question_that_is_open() -> None:
    async with world() as w:
        task = await w.send("ask which")
        reading = await w.follow(task.id, after=0, closes_on_input=True)
        await reading.read()
        assert reading.entries == list(await w.journal(task.id))
        assert reading.subscription.is_over
        assert await reading.all() == reading.entries
        assert len(w.runtime.registry) == 0


async def test_history_length_shortens_what_is_shown_and_nothing_else() -> None:
    async with world() as w:
        task = await w.send("ask one?", history_length=0)
        assert task.history == ()
        task = await w.send("say two", task=task.id, history_length=1)
        assert len(task.history) == 1
        assert len((await w.get(task.id)).history) == 4
        assert len((await w.get(task.id, 2)).history) == 2
        reading = await w.stream("say three", history_length=0)
        await reading.all()
        first = reading.items[0]
        assert isinstance(first, Opening)
        assert opened(first).history == ()


async def test_readers_leave_and_the_run_goes_on() -> None:
    async with world() as w:
        reading = await w.stream("wait a; say one")
        await reading.read()
        reading.close()
        w.gates.open("a")
        assert (await w.ended(reading.task_id)).status.state is TaskState.COMPLETED
