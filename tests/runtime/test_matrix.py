"""Inbound item I-12: what cancel, subscribe and send do in each class of states, by A2A
(`standard`) and as OpenClaw's channel has it (`openclaw-inbound`)."""

import asyncio
from typing import Any

import pytest
from tests.runtime.world import World, next_morning, opened, place, said, world

from trunkline.model.errors import (
    MethodNotFound,
    TaskNotCancelable,
    UnsupportedOperation,
)
from trunkline.model.values import Task, TaskState, text_of
from trunkline.runtime.fanout import Opening
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, CANCELED, FAILED = TaskState.COMPLETED, TaskState.CANCELED, TaskState.FAILED
INPUT_REQUIRED, AUTH_REQUIRED = TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED

STANDARD, INBOUND = "standard", "openclaw-inbound"
BOTH = pytest.mark.parametrize("preset_name", [STANDARD, INBOUND])


async def leave_orphan(store: MemoryStore, script: str = "say some; hang", **more: str) -> str:
    """A task that a process was working on when it was killed."""
    first = World(store=store, node="one", preset_name=INBOUND, agent_style="task-generating")
    await first.open()
    task = await first.submit(script, context="c")
    if more:
        await first.submit(more["behind"], task=task.id)
    await settle()
    assert await first.state(task.id) is WORKING
    await first.vanish()
    return task.id


def heir(store: MemoryStore, **options: Any) -> Any:
    """The process that comes after it."""
    options = {"preset_name": INBOUND, "agent_style": "task-generating", **options}
    return world(store=store, node="two", clock=next_morning(), **options)


async def only_snapshot(w: World, task_id: str, **options: Any) -> Task:
    """What a subscriber gets that is let go at once."""
    reading = await w.follow(task_id, **options)
    [opening] = await asyncio.wait_for(reading.all(), 5)
    assert isinstance(opening, Opening)
    return opened(opening)


async def test_i12_cancel_of_an_ended_task_is_an_error() -> None:
    async with world() as w:
        done = await w.send("say one")
        with pytest.raises(TaskNotCancelable):
            await w.cancel(done.id)


@pytest.mark.parametrize("script", ["say one", "fail no", "refuse no"])
async def test_i12_cancel_of_an_ended_task_passes_it_through_inbound(script: str) -> None:
    async with world(preset_name=INBOUND, agent_style="task-generating") as w:
        done = await w.send(script)
        assert await w.cancel(done.id) == done
        assert len(w.runtime.registry) == 0


@BOTH
@pytest.mark.parametrize("script", ["ask size?", "auth who?"])
async def test_i12_cancel_of_a_quiescent_task_ends_it_at_once(
    preset_name: str, script: str
) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        asked = await w.send(script)
        assert (await w.cancel(asked.id)).status.state is CANCELED
        assert (await w.states(asked.id))[-1] is CANCELED


@BOTH
async def test_i12_cancel_of_a_live_task_stops_it_and_waits_for_the_end(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.submit("say one; hang")
        await settle()
        assert (await w.cancel(task.id)).status.state is CANCELED
        assert list(w.scripted.canceled) == [w.scripted.turns[0].run_id]


async def test_i12_cancel_of_an_orphan_says_that_nobody_works_on_it() -> None:
    store = MemoryStore()
    orphan = await leave_orphan(store)
    async with heir(store) as w:
        with pytest.raises(UnsupportedOperation) as refused:
            await w.cancel(orphan)
        assert refused.value.message == (
            "Task cancellation is only available while the task is live in this process."
        )
        assert await w.state(orphan) is WORKING
        assert len(w.runtime.registry) == 0


@pytest.mark.parametrize(
    ("code", "error"), [(-32004, UnsupportedOperation), (-32601, MethodNotFound)]
)
async def test_x08_cancel_that_is_not_supported(code: int, error: type[Exception]) -> None:
    async with world(cancel="unsupported", cancel_unsupported_code=code) as w:
        task = await w.submit("wait a")
        for task_id in (task.id, "unknown"):
            with pytest.raises(error):
                await w.cancel(task_id)
        w.gates.open("a")
        assert (await w.ended(task.id)).status.state is COMPLETED


async def test_x08_h15_the_hub_has_no_cancel() -> None:
    async with world(preset_name="hub") as w:
        with pytest.raises(MethodNotFound):
            await w.cancel("any")


async def test_i12_an_ended_task_is_not_followed() -> None:
    async with world() as w:
        done = await w.send("say one")
        with pytest.raises(UnsupportedOperation):
            await w.follow(done.id)


async def test_i12_a_follower_of_an_ended_task_gets_it_and_goes_inbound() -> None:
    async with world(preset_name=INBOUND, agent_style="task-generating") as w:
        done = await w.send("say one")
        assert await only_snapshot(w, done.id) == done
        assert len(w.runtime.registry) == 0


@pytest.mark.parametrize("script", ["ask size?", "auth who?"])
async def test_i12_a_follower_of_a_quiescent_task_gets_it_and_goes_inbound(script: str) -> None:
    async with world(preset_name=INBOUND, agent_style="task-generating") as w:
        asked = await w.send(script)
        assert await only_snapshot(w, asked.id) == asked
        assert len(w.runtime.registry) == 0


async def test_i12_a_follower_of_a_quiescent_task_stays_in_1_0() -> None:
    async with world() as w:
        asked = await w.send("ask size?")
        reading = await w.follow(asked.id)
        await reading.read()
        await w.send("say XL", task=asked.id)
        await reading.all()
        assert reading.entries == list((await w.journal(asked.id))[3:])


async def test_d7_a_follower_of_a_quiescent_task_goes_in_0_3() -> None:
    """In 0.3 a question is final, and nothing more is to be said before an answer."""
    async with world() as w:
        asked = await w.send("ask size?")
        assert await only_snapshot(w, asked.id, closes_on_input=True) == asked


@pytest.mark.parametrize(
    ("profile", "in_0_3", "goes"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"subscribe_pause": "stay"}, True, False),
        ({"subscribe_pause": "close"}, False, True),
    ],
    ids=["by-version-1.0", "by-version-0.3", "stay", "close"],
)
async def test_d7_a_follower_of_a_task_that_pauses_stays_or_goes(
    profile: dict[str, Any], in_0_3: bool, goes: bool
) -> None:
    async with world(heartbeat_s=15.0, **profile) as w:
        task = await w.submit("wait a; ask size?")
        await w.gates.reached("a")
        reading = await w.follow(task.id, closes_on_input=in_0_3)
        following = w.soon(reading.all())
        w.gates.open("a")
        await settle()
        assert await w.state(task.id) is INPUT_REQUIRED
        assert following.done() == goes
        # One that stays is not left in silence, and sees what comes.
        before = len(reading.items)
        await w.clock.advance(16)
        assert (len(reading.items) > before) != goes
        await w.send("say XL", task=task.id)
        await following
        assert (await w.state(task.id)) is COMPLETED


async def test_d7_a_stream_of_a_task_that_needs_a_credential_goes_inbound() -> None:
    async with world(preset_name=INBOUND, agent_style="task-generating") as w:
        stream = await w.stream("note hm; auth who?")
        await asyncio.wait_for(stream.all(), 5)
        assert await w.state(stream.task_id) is AUTH_REQUIRED


@BOTH
async def test_i12_a_follower_of_a_live_task_gets_it_and_all_that_comes(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.submit("wait a; say one; wait b")
        await w.gates.reached("a")
        reading = await w.follow(task.id)
        w.gates.open("a")
        w.gates.open("b")
        await reading.all()
        opening = reading.items[0]
        assert isinstance(opening, Opening)
        assert reading.entries == list((await w.journal(task.id))[opening.seq :])


async def test_i12_a_follower_of_an_orphan_gets_it_and_goes() -> None:
    store = MemoryStore()
    orphan = await leave_orphan(store)
    async with heir(store) as w:
        snapshot = await only_snapshot(w, orphan)
        assert snapshot.status.state is WORKING
        assert [text_of(each.parts) for each in snapshot.artifacts] == ["some"]
        assert len(w.runtime.registry) == 0
    async with heir(store, stream_replay=True) as w:
        reading = await w.follow(orphan, after=1)
        await asyncio.wait_for(reading.all(), 5)
        assert reading.items == list(await w.journal(orphan))[1:]


async def test_x12_last_event_id_is_passed_over_without_replay() -> None:
    async with world(stream_replay=False) as w:
        task = await w.submit("wait a; say one")
        await w.gates.reached("a")
        reading = await w.follow(task.id, after=1)
        w.gates.open("a")
        await reading.all()
        opening = reading.items[0]
        assert isinstance(opening, Opening)
        assert reading.entries == list((await w.journal(task.id))[opening.seq :])


@BOTH
async def test_i12_an_ended_task_takes_no_message(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        done = await w.send("say one")
        with pytest.raises(UnsupportedOperation):
            await w.send("say two", task=done.id)


@BOTH
async def test_i12_a_message_resumes_a_quiescent_task(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        asked = await w.send("ask size?")
        done = await w.send("say XL", task=asked.id)
        assert (done.id, done.status.state) == (asked.id, COMPLETED)
        assert [text_of(message.parts) for message in done.history] == [
            *("ask size?", "size?"),
            *("say XL", "XL"),
        ]


@BOTH
async def test_d4_d6_a_message_to_a_live_task_waits_for_the_turn_before(preset_name: str) -> None:
    """One turn at a time: neither sees what the other does, and nothing is rewritten."""
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        first = w.soon(w.send("wait a; say one; tool search", context="c"))
        await w.gates.reached("a")
        [task] = await w.listed()
        second = w.soon(w.send("wait b; say two", task=task.id))
        await settle()
        assert len(w.scripted.turns) == 1
        w.gates.open("a")
        await w.gates.reached("b")
        w.gates.open("b")
        done = await first
        assert await second == done
        assert done.status.state is COMPLETED
        runs = [turn.run_id for turn in w.scripted.turns]
        assert len(set(runs)) == 2
        # After the end nothing changes any more.
        journal = await w.journal(done.id)
        await w.clock.advance(10)
        assert await w.journal(done.id) == journal
        assert await w.get(done.id, 100) == done


async def test_i12_a_message_resumes_an_orphan() -> None:
    store = MemoryStore()
    orphan = await leave_orphan(store)
    async with heir(store) as w:
        done = await w.send("say done", task=orphan)
        assert (done.id, done.status.state, said(done)) == (orphan, COMPLETED, "done")
        # The turn that was cut off is not run again, and what it said stays.
        assert [text_of(turn.message.parts) for turn in w.scripted.turns] == ["say done"]
        assert [text_of(each.parts) for each in done.artifacts] == ["some", "done"]
        # Each turn says that it is submitted before it is worked on.
        turn = [SUBMITTED, SUBMITTED, WORKING]
        assert await w.states(orphan) == [*turn, *turn, COMPLETED]


async def test_i12_what_waited_behind_an_orphaned_turn_runs_before_the_new_message() -> None:
    store = MemoryStore()
    orphan = await leave_orphan(store, behind="say second")
    async with heir(store) as w:
        done = await w.send("say third", task=orphan)
        assert done.status.state is COMPLETED
        assert [text_of(turn.message.parts) for turn in w.scripted.turns] == [
            "say second",
            "say third",
        ]
        assert len({turn.run_id for turn in w.scripted.turns}) == 2
        texts = [text_of(message.parts) for message in done.history]
        assert texts[-4:] == ["say second", "say third", "second", "third"]


async def test_i12_an_orphan_does_not_block_its_context() -> None:
    store = MemoryStore()
    orphan = await leave_orphan(store)
    async with heir(store) as w:
        assert (await w.send("say other", context="c")).status.state is COMPLETED
        assert await w.state(orphan) is WORKING


async def test_i12_a_task_that_waited_is_an_orphan_too_unless_the_queue_is_resumed() -> None:
    for policy, expected in (
        (("leave_orphaned",), SUBMITTED),
        (("resume_queued", "leave_orphaned"), COMPLETED),
    ):
        store = MemoryStore()
        first = World(store=store, node="one", preset_name=INBOUND, agent_style="task-generating")
        await first.open()
        running = await first.submit("hang", context="c")
        waiting = await first.submit("say later", context="c")
        assert place(waiting) == 1
        await first.vanish()
        async with heir(store, on_restart=policy) as w:
            await settle()
            assert await w.state(waiting.id) is expected
            assert place(await w.get(waiting.id)) is None
            assert await w.state(running.id) is WORKING
            if expected is SUBMITTED:
                done = await w.send("say more", task=waiting.id)
                assert [text_of(turn.message.parts) for turn in w.scripted.turns] == [
                    "say later",
                    "say more",
                ]
                assert done.status.state is COMPLETED


@pytest.mark.parametrize(
    ("preset_name", "asked_for", "given"),
    [
        (STANDARD, None, 2),
        (STANDARD, 0, 0),
        (STANDARD, 1, 1),
        (INBOUND, None, 0),
        (INBOUND, 0, 0),
        (INBOUND, 1, 1),
        (INBOUND, 9, 2),
    ],
)
async def test_d10_i12_history_of_a_task_that_is_read(
    preset_name: str, asked_for: int | None, given: int
) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        done = await w.send("say one")
        assert len(done.history) == 2
        assert len((await w.get(done.id, asked_for)).history) == given
        assert len((await w.send("say two", history_length=1)).history) == 1
