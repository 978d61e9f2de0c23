import asyncio

import pytest

from trunkline.model.events import Entry
from trunkline.model.values import (
    TERMINAL,
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.runtime.fanout import (
    MAX_PENDING_BYTES,
    Beat,
    CutOff,
    Gap,
    Item,
    Opening,
    SnapshotSubscription,
    Subscription,
)
from trunkline.testing.clock import settle

S = TaskState


def reader(*closes_on: TaskState, limit: int = 4) -> Subscription:
    return Subscription(closes_on=frozenset(closes_on) or TERMINAL, limit=limit)


def status(seq: int, state: TaskState = S.WORKING) -> Entry:
    update = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    return Entry.of(seq, update)


def chunk(seq: int, text: str = "a") -> Entry:
    artifact = Artifact(artifact_id="a", parts=(Part(text=text),))
    return Entry.of(seq, TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact))


async def rest_of(following: Subscription) -> list[Item]:
    items: list[Item] = []
    while more := await following.next():
        items += more
    return items


async def test_all_that_is_pending_comes_at_once() -> None:
    following = reader()
    following.push([status(1), chunk(2)])
    following.push([chunk(3)])
    assert await following.next() == [status(1), chunk(2), chunk(3)]


@pytest.mark.parametrize(
    "wake",
    [
        lambda following: following.push([status(1)]),
        lambda following: following.put(Gap(1, 2)),
        lambda following: following.beat(),
        lambda following: following.stop("why", 1),
        lambda following: following.end(),
    ],
    ids=["push", "put", "beat", "stop", "end"],
)
async def test_whatever_happens_wakes_the_reader(wake: object) -> None:
    assert callable(wake)
    following = reader()
    waiting = asyncio.get_running_loop().create_task(following.next())
    await settle()
    assert not waiting.done()
    wake(following)
    # Twice is as good as once.
    wake(following)
    await settle()
    assert waiting.done()


async def test_a_reader_that_gives_up_waiting_can_wait_again() -> None:
    following = reader()
    waiting = asyncio.get_running_loop().create_task(following.next())
    await settle()
    waiting.cancel()
    await settle()
    following.push([status(1)])
    assert await following.next() == [status(1)]


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_the_last_entry_ends_the_stream(state: TaskState) -> None:
    following = reader()
    following.push([status(1), status(2, state)])
    following.push([status(3)])
    following.put(Gap(1, 2))
    following.beat()
    following.stop("late", 3)
    assert await rest_of(following) == [status(1), status(2, state)]


async def test_a_task_that_has_ended_when_it_opens_ends_the_stream() -> None:
    following = reader()
    task = Task(id="t", status=TaskStatus(state=S.REJECTED))
    following.push([Entry.of(1, task)])
    assert await rest_of(following) == [Entry.of(1, task)]


async def test_a_stream_may_end_inside_a_batch() -> None:
    following = reader(S.INPUT_REQUIRED)
    waiting = asyncio.get_running_loop().create_task(following.next())
    await settle()
    following.push([status(1, S.INPUT_REQUIRED), status(2, S.SUBMITTED)])
    await settle()
    assert waiting.done()
    assert await waiting == [status(1, S.INPUT_REQUIRED)]
    assert await following.next() == []


async def test_a_slow_reader_is_cut_off_and_told_where_to_resume() -> None:
    following = reader(limit=2)
    following.push([status(1)])
    assert await following.next() == [status(1)]
    following.push([chunk(2), chunk(3)])
    following.push([chunk(4)])
    following.push([chunk(5)])
    assert await rest_of(following) == [CutOff("slow reader", 1)]


async def test_a_reader_that_takes_what_comes_is_not_cut_off() -> None:
    following = reader(limit=2)
    for seq in range(1, 10, 2):
        following.push([chunk(seq), chunk(seq + 1)])
        assert len(await following.next()) == 2


async def test_a_reader_is_bounded_in_bytes_too() -> None:
    following = reader(limit=1000)
    half = "x" * (MAX_PENDING_BYTES // 2)
    following.push([chunk(1, half)])
    assert await following.next() == [chunk(1, half)]
    following.push([chunk(2, half)])
    following.push([chunk(3, half)])
    assert await rest_of(following) == [CutOff("slow reader", 1)]


async def test_a_reader_that_never_got_its_opening_starts_over() -> None:
    following = reader(limit=2)
    following.put(Opening(5, b"{}"))
    following.push([chunk(6), chunk(7)])
    assert await rest_of(following) == [CutOff("slow reader", 0)]


async def test_a_beat_is_for_readers_with_nothing_to_read() -> None:
    following = reader()
    following.beat()
    following.beat()
    assert await following.next() == [Beat()]
    following.push([status(1)])
    following.beat()
    assert await following.next() == [status(1)]


async def test_a_stream_that_is_stopped_gives_what_is_pending_first() -> None:
    following = reader()
    following.push([status(1)])
    following.stop("the gateway is shutting down", 1)
    assert await rest_of(following) == [status(1), CutOff("the gateway is shutting down", 1)]


async def test_who_opened_it_is_told_once_that_the_reader_left() -> None:
    following = reader()
    left: list[Subscription] = []
    following.on_close(left.append)
    following.push([status(1)])
    following.close()
    following.close()
    assert left == [following]
    following.push([status(2)])
    assert await following.next() == []


async def test_a_reader_that_is_behind_asks_for_more_until_it_has_caught_up() -> None:
    following = reader(limit=1)

    async def more() -> None:
        following.catch_up(rest, after=3)
        following.replay([chunk(1), chunk(2), chunk(3)])

    async def rest() -> None:
        following.caught_up()
        following.push([chunk(4)])

    following.catch_up(more, after=0)
    # It will be replayed.
    following.push([chunk(1)])
    assert await following.next() == [chunk(1), chunk(2), chunk(3)]
    assert await following.next() == [chunk(4)]
    following.push([chunk(5), status(6, S.COMPLETED)])
    assert await rest_of(following) == [CutOff("slow reader", 4)]


async def test_a_replay_ends_with_what_ends_the_stream() -> None:
    following = reader()

    async def more() -> None:
        following.replay([status(1, S.COMPLETED), status(2)])

    following.catch_up(more, after=0)
    assert await rest_of(following) == [status(1, S.COMPLETED)]


async def test_a_stream_is_over_with_its_last_item_and_not_before() -> None:
    following = reader()
    following.push([status(1, S.INPUT_REQUIRED)])
    await following.next()
    assert not following.is_over
    # The end has come, but is not read yet: what was read last was not the last.
    following.push([status(2, S.COMPLETED)])
    assert not following.is_over
    await following.next()
    assert following.is_over


async def test_a_reader_of_snapshots_sees_the_start_and_what_rests() -> None:
    following = SnapshotSubscription(closes_on=TERMINAL, limit=4)
    openings = iter([Opening(4, b"paused"), Opening(7, b"done")])
    following.opening = lambda: next(openings)
    task = Task(id="t", context_id="c", status=TaskStatus(state=S.SUBMITTED))
    following.push([Entry.of(1, task), status(2)])
    following.push([chunk(3), status(4, S.INPUT_REQUIRED)])
    following.push([status(5, S.SUBMITTED), chunk(6), status(7, S.COMPLETED), status(8)])
    assert await rest_of(following) == [
        Entry.of(1, task),
        Opening(4, b"paused"),
        Opening(7, b"done"),
    ]


async def test_a_reader_of_snapshots_that_does_not_read_is_cut_off() -> None:
    following = SnapshotSubscription(closes_on=TERMINAL, limit=4)
    following.opening = lambda: Opening(2, b"paused" * MAX_PENDING_BYTES)
    following.push([status(2, S.INPUT_REQUIRED)])
    assert await rest_of(following) == [CutOff("slow reader", 0)]


async def test_a_reader_that_was_cut_off_takes_no_more() -> None:
    following = reader(limit=100)
    assert following.push([chunk(1)])
    assert not following.push([chunk(2, "x" * MAX_PENDING_BYTES)])
    assert not following.push([chunk(3)])
    assert not following.push([status(4, S.COMPLETED)])
    assert await rest_of(following) == [CutOff("slow reader", 0)]


async def test_a_reader_that_waits_takes_more() -> None:
    following = reader()
    assert following.push([status(1)])
    assert not following.push([status(2, S.COMPLETED)])
    assert await rest_of(following) == [status(1), status(2, S.COMPLETED)]
