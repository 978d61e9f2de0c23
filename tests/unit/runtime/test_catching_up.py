import asyncio

from trunkline.model.events import Entry
from trunkline.model.values import TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.runtime.fanout import CutOff, Item, Opening, Subscription
from trunkline.testing import settle

LIMIT = 3


def entries(first: int, last: int) -> list[Entry]:
    event = TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING)
    )
    return [Entry.of(seq, event) for seq in range(first, last + 1)]


def reader() -> Subscription:
    return Subscription(closes_on=frozenset({TaskState.COMPLETED}), limit=LIMIT)


def seqs(items: list[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Entry)]


async def test_a_reader_that_waits_takes_any_number_at_once() -> None:
    subscription = reader()
    waiting = asyncio.get_running_loop().create_task(subscription.next())
    await settle()
    subscription.push(entries(1, 10))
    # It is woken, and did not run yet; that is not its fault.
    subscription.push(entries(11, 20))
    assert seqs(await waiting) == [*range(1, 21)]


async def test_a_reader_that_is_busy_may_fall_behind_only_so_far() -> None:
    subscription = reader()
    subscription.push(entries(5, 7))
    assert seqs(await subscription.next()) == [5, 6, 7]
    subscription.push(entries(8, 11))
    assert await subscription.next() == [CutOff("slow reader", 7)]
    assert await subscription.next() == []


async def test_a_sign_of_life_does_not_change_where_to_resume() -> None:
    subscription = reader()
    subscription.beat()
    subscription.push(entries(8, 11))
    assert await subscription.next() == [CutOff("slow reader", 7)]


async def test_without_its_opening_a_reader_has_nothing_to_resume() -> None:
    subscription = reader()
    subscription.put(Opening(7, b"{}"))
    subscription.push(entries(8, 11))
    assert await subscription.next() == [CutOff("slow reader", 0)]


async def test_a_reader_catches_up_step_by_step_and_then_follows() -> None:
    subscription, journal = reader(), entries(3, 12)
    held: list[int] = []

    async def step() -> None:
        if journal:
            taken, journal[:] = journal[:5], journal[5:]
            # Committed meanwhile: the journal has it as well.
            subscription.push(entries(13, 13))
            subscription.replay(taken)
        else:
            subscription.caught_up()
            subscription.push(entries(13, 13))

    subscription.catch_up(step, after=2)
    for _ in range(3):
        items = await subscription.next()
        held.append(len(items))
        assert seqs(items)
    assert held == [5, 5, 1]


async def test_a_reader_that_is_stopped_on_its_way_resumes_from_there() -> None:
    subscription = reader()

    async def step() -> None:
        subscription.replay(entries(3, 4))

    subscription.catch_up(step, after=2)
    assert seqs(await subscription.next()) == [3, 4]
    subscription.stop("shutting down", 99)
    assert await subscription.next() == [CutOff("shutting down", 4)]
