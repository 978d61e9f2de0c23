"""Participants: records that change in the same commit as the entries of a task."""

from collections.abc import Callable, Sequence

import pytest
from tests.runtime.world import World, next_morning, world

from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.records import Add, Group, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.live_task import LiveTask

KIND = "cursor.1"
COMPLETED = TaskState.COMPLETED


def key(task_id: str) -> Key:
    return Key(KIND, "cursors", task_id)


class Cursor:
    """Remembers the last entry of its task in a record, and the end of the task in a counter."""

    def __init__(self, live: LiveTask, records: Sequence[Record] = ()) -> None:
        self.rejoined_at = [int(record.body) for record in records]
        self.seen: list[int] = []
        self.skipped: list[Group] = []

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        last = str(entries[-1].seq).encode()
        cursor = Group((Put(key=key(live.task_id), body=last, goes_with_task=True),), False)
        if state not in TERMINAL:
            return [cursor]
        return [cursor, Group((Add(key=Key("ended.1", "", "all"), amount=1, at_most=1),), False)]

    def committed(
        self,
        live: LiveTask,
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        self.seen += [entry.seq for entry in entries]
        self.skipped += skipped


class Broken(Cursor):
    def enlist(self, *_: object) -> Sequence[Group]:
        raise RuntimeError("cannot enlist")

    def committed(self, *_: object) -> None:
        raise RuntimeError("cannot hear")


async def waiting(w: World, kind: type[Cursor] = Cursor) -> tuple[str, Cursor]:
    """A task whose agent waits, with a participant."""
    task = await w.submit("wait gate; say done")
    await w.gates.reached("gate")
    live = w.runtime.registry.in_memory(task.id)
    assert live is not None
    participant = kind(live)
    live.participants += (participant,)
    return task.id, participant


async def test_records_change_with_the_entries(make_store: Callable[[], Store]) -> None:
    async with world(store=make_store()) as w:
        task_id, cursor = await waiting(w)
        w.gates.open("gate")
        assert (await w.ended(task_id)).status.state is COMPLETED
        last = len(await w.journal(task_id))
        record = await w.store.record(key(task_id))
        assert record is not None
        assert int(record.body) == last
        assert cursor.seen == list(range(cursor.seen[0], last + 1))
        assert not cursor.skipped


async def test_a_group_that_is_skipped_does_not_stop_the_task() -> None:
    async with world() as w:
        await w.store.change(Add(key=Key("ended.1", "", "all"), amount=1, at_most=1))
        task_id, cursor = await waiting(w)
        w.gates.open("gate")
        assert (await w.ended(task_id)).status.state is COMPLETED
        assert len(cursor.skipped) == 1
        assert await w.store.record(key(task_id)) is not None


async def test_an_error_of_a_participant_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        task_id, _ = await waiting(w, Broken)
        live = w.runtime.registry.in_memory(task_id)
        assert live is not None
        other = Cursor(live)
        live.participants += (other,)
        w.gates.open("gate")
        assert (await w.ended(task_id)).status.state is COMPLETED
        assert other.seen[-1] == len(await w.journal(task_id))
        assert "a participant failed" in caplog.text


async def test_participants_come_back_with_their_task(make_store: Callable[[], Store]) -> None:
    back: list[Cursor] = []

    def rejoin(live: LiveTask, records: Sequence[Record]) -> list[Cursor]:
        back.append(Cursor(live, records))
        return back[-1:]

    async with world(store=make_store()) as first:
        task_id, _ = await waiting(first)
        first.gates.open("gate")
        await first.ended(task_id)
        asked, cursor = await paused(first)
    async with world(
        store=make_store(), clock=next_morning(), node="next", participants={KIND: rejoin}
    ) as second:
        await second.send("say that one", task=asked)
        (again,) = back
        assert again.rejoined_at == [cursor.seen[-1]]
        assert again.seen[0] == cursor.seen[-1] + 1


async def paused(w: World) -> tuple[str, Cursor]:
    """A task that waits for its caller, with a participant that saw it ask."""
    task = await w.submit("wait other; ask Which one?")
    await w.gates.reached("other")
    live = w.runtime.registry.in_memory(task.id)
    assert live is not None
    cursor = Cursor(live)
    live.participants += (cursor,)
    reading = await w.follow(task.id, closes_on_input=True)
    w.gates.open("other")
    await reading.all()
    return task.id, cursor
