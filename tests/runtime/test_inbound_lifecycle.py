"""Moments at which a task of an OpenClaw could be shown wrong or lost (I-11, I-12), under the
preset `openclaw-inbound`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.outputs import artifacts_of, told
from tests.runtime.stores import DURABLE, SlowReads
from tests.runtime.world import HANDLE, Reading, World, next_morning, opened, said, world

from trunkline.engine.gateway_texts import GATEWAY_STOPPED
from trunkline.model.errors import UnsupportedOperation
from trunkline.model.session import ReplyPayload
from trunkline.model.values import TaskState, text_of
from trunkline.ports.store import Append, Settled, Store
from trunkline.runtime.fanout import CutOff, Opening
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

WORKING, COMPLETED, CANCELED = TaskState.WORKING, TaskState.COMPLETED, TaskState.CANCELED
FOLLOW_UP = ReplyPayload(text="one more thing")


def inbound(**options: Any) -> AbstractAsyncContextManager[World]:
    options = {"agent_style": "task-generating", **options}
    return world(preset_name="openclaw-inbound", **options)


class SlowStore(MemoryStore):
    """Commits when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self._held: list[tuple[Append, Settled]] = []

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self.is_held:
            self._held += appends
        else:
            super().submit(appends)

    def commit(self) -> None:
        self.is_held = False
        held, self._held = self._held, []
        super().submit(held)


async def at_its_end(w: World, store: SlowStore) -> str:
    """A task whose run is over, and whose last events are on their way to the store."""
    task = await w.submit("wait a; say done")
    await w.gates.reached("a")
    await settle()
    store.is_held = True
    w.gates.open("a")
    await settle()
    assert not w.runtime.runs.running
    assert await w.state(task.id) is WORKING
    return task.id


async def test_i11_nothing_shows_before_it_is_committed() -> None:
    store = SlowStore()
    async with inbound(store=store, agent_style="hybrid") as w:
        store.is_held = True
        reading = await w.stream("say a; tool grep; say b")
        await settle()
        assert not w.runtime.runs.running
        assert reading.subscription._items == []
        assert await w.listed() == ()
        store.commit()
        await reading.all()
        assert told(reading.items)[-1] == ("completed", "ab")


async def test_i11_a_follower_in_the_window_of_the_last_commit_sees_the_end() -> None:
    store = SlowStore()
    async with inbound(store=store) as w:
        task_id = await at_its_end(w, store)
        reading = await w.follow(task_id)
        following = w.soon(reading.all())
        await settle()
        assert not following.done()
        store.commit()
        await asyncio.wait_for(following, 5)
        assert isinstance(reading.items[0], Opening)
        assert opened(reading.items[0]).status.state is WORKING
        assert told(reading.items)[-1] == ("completed", "done")


async def test_i12_cancel_in_the_window_of_the_last_commit_gives_the_ended_task() -> None:
    store = SlowStore()
    async with inbound(store=store) as w:
        task_id = await at_its_end(w, store)
        cancel = w.soon(w.cancel(task_id))
        await settle()
        assert not cancel.done()
        store.commit()
        canceled = await cancel
        assert (canceled.status.state, said(canceled)) == (COMPLETED, "done")


async def test_i12_a_message_in_the_window_of_the_last_commit_is_refused() -> None:
    store = SlowStore()
    async with inbound(store=store) as w:
        task_id = await at_its_end(w, store)
        late = w.soon(w.send("say more", task=task_id))
        await settle()
        store.commit()
        with pytest.raises(UnsupportedOperation):
            await late
        assert said(await w.ended(task_id)) == "done"


async def test_i12_followers_that_come_in_every_round_see_all_once() -> None:
    async with inbound() as w:
        task = await w.submit("stream 40; wait a; stream 40; wait b")
        readings: list[Reading] = []
        for gate in ("a", "b"):
            for _ in range(30):
                readings.append(await w.follow(task.id))
                await w.clock.sleep(0)
            await w.gates.reached(gate)
            w.gates.open(gate)
        await asyncio.gather(*(reading.all() for reading in readings))
        journal = list(await w.journal(task.id))
        for reading in readings:
            opening = reading.items[0]
            assert isinstance(opening, Opening)
            assert reading.entries == journal[opening.seq :]
        assert len({reading.seqs[0] for reading in readings}) > 2


async def test_i11_a_continuation_loses_no_artifact_that_comes_meanwhile(
    make_store: Callable[[], Store],
) -> None:
    async with inbound(store=make_store()) as w:
        task = await w.send("say first; ask which?")
        # The task is in the store alone, and both want to write to it.
        assert len(w.runtime.registry) == 0
        delivered, again = await asyncio.gather(
            w.runtime.queued_replies.deliver(task.id, FOLLOW_UP, agent=HANDLE),
            w.send("say second; ask which?", task=task.id),
        )
        assert delivered.ok
        third = w.soon(w.send("wait a; say third", task=again.id))
        await w.gates.reached("a")
        during = await w.runtime.queued_replies.deliver(task.id, FOLLOW_UP, agent=HANDLE)
        w.gates.open("a")
        assert artifacts_of(await third) == {
            "assistant-output-0001": "first",
            delivered.message_id: "one more thing",
            "assistant-output-0002": "second",
            during.message_id: "one more thing",
            "assistant-output-0003": "third",
        }
        assert artifacts_of(await w.get(task.id)) == artifacts_of(await third)


async def test_i11_who_read_a_task_before_its_continuation_began_writes_to_the_same_one() -> None:
    store = SlowReads()
    async with inbound(store=store) as w:
        task = await w.send("say first; ask which?")
        store.hold(1)
        delivery = w.soon(w.runtime.queued_replies.deliver(task.id, FOLLOW_UP, agent=HANDLE))
        await settle()
        answer = w.soon(w.send("say second; wait a", task=task.id))
        await settle()
        store.let_go()
        delivered = await delivery
        w.gates.open("a")
        assert artifacts_of(await answer) == {
            "assistant-output-0001": "first",
            "assistant-output-0002": "second",
            delivered.message_id: "one more thing",
        }


async def test_i12_a_reader_that_leaves_in_the_middle_does_not_stop_the_run() -> None:
    async with inbound() as w:
        reading = await w.stream("say a; wait gate; say b")
        await w.gates.reached("gate")
        while ("assistant-output-0001", "a") not in told(reading.items):
            await reading.read()
        reading.close()
        w.gates.open("gate")
        done = await w.ended(reading.task_id)
        assert (done.status.state, said(done)) == (COMPLETED, "ab")


async def test_i12_a_blocking_caller_that_leaves_does_not_stop_the_run() -> None:
    async with inbound() as w:
        _ = w.soon(w.send("say a; wait gate; say b"))
        await w.gates.reached("gate")
        await w.callers.close()
        w.gates.open("gate")
        [task] = await w.listed()
        assert said(await w.ended(task.id)) == "ab"


@pytest.mark.parametrize("kind", DURABLE)
async def test_i12_a_stop_ends_what_runs_with_the_reason_and_leaves_what_waits(
    kind: str, tmp_path: Path
) -> None:
    """The original leaves both as orphans, and says so to nobody."""
    first = World(
        store=DURABLE[kind](tmp_path),
        node="one",
        preset_name="openclaw-inbound",
        agent_style="task-generating",
    )
    await first.open()
    running = await first.submit("say some; hang", context="c")
    waiting = await first.submit("say later", context="c")
    reading = await first.follow(waiting.id)
    await first.close()
    await reading.all()
    assert isinstance(reading.items[-1], CutOff)
    async with inbound(store=DURABLE[kind](tmp_path), node="two", clock=next_morning()) as w:
        ended = await w.get(running.id)
        assert (ended.status.state, said(ended)) == (TaskState.FAILED, GATEWAY_STOPPED)
        assert artifacts_of(ended) == {"assistant-output-0001": "some"}
        # As the preset says; a message makes it go on, and nothing of it is lost.
        assert await w.state(waiting.id) is TaskState.SUBMITTED
        done = await w.send("say more", task=waiting.id)
        assert artifacts_of(done) == {
            "assistant-output-0001": "later",
            "assistant-output-0002": "more",
        }


async def test_d4_two_runs_of_one_context_do_not_mix() -> None:
    async with inbound(agent_style="hybrid") as w:
        one = await w.stream("tool-event start grep; wait a; say one", context="c")
        two = await w.stream("tool-event start find; wait b; say two", context="c")
        await w.gates.reached("a")
        w.gates.open("a")
        await w.gates.reached("b")
        w.gates.open("b")
        for reading, tool, text in ((one, "grep", "one"), (two, "find", "two")):
            lines = told(await reading.all())
            assert [line[0] for line in lines if line[0].startswith("tool")] == [
                f"tool-progress-call-{tool}"
            ]
            assert lines[-1] == ("completed", text)
        assert one.task_id != two.task_id


async def test_d17_each_send_of_one_message_id_is_answered_in_its_own_way() -> None:
    async with inbound(agent_style="hybrid") as w:
        blocking = w.soon(w.ask("wait a; final one", id="m"))
        await w.gates.reached("a")
        submitted = await w.submit("wait a; final two", id="m")
        assert submitted.status.state is TaskState.SUBMITTED
        stream = await w.stream("wait a; tool grep; say three", id="m")
        w.gates.open("a")
        assert text_of((await blocking).parts) == "one"
        assert said(await w.ended(submitted.id)) == "two"
        assert told(await stream.all())[-1] == ("completed", "three")


async def test_d17_one_message_id_is_one_task_where_the_agent_says_so() -> None:
    async with inbound(agent_style="hybrid", deduplicate_messages=True) as w:
        sends = [w.soon(w.send("wait a; tool grep; say one", id="m")) for _ in range(3)]
        await w.gates.reached("a")
        w.gates.open("a")
        first, *others = await asyncio.gather(*sends)
        assert others == [first, first]
        assert await w.send("wait a; tool grep; say one", id="m") == first
        assert len(w.scripted.turns) == 1
