"""A copy has everything, can be continued, and is compared with its source."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import STATUS, Entry
from trunkline.model.large_values import LargeValue, value_id
from trunkline.ports.copying import UNFINISHED_COPY, CopyableStore, RecordCopy, require_whole
from trunkline.ports.records import Add, Defer, Group, Key, Put
from trunkline.ports.store import Append, Scope, Snapshot
from trunkline.stores.copying import Copied, Progress, StoreCopy
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    create,
    follow,
    must_change,
    must_put,
    with_groups,
)

Make = Callable[[Path], CopyableStore]


def sqlite(path: Path) -> CopyableStore:
    return SqliteStore(path / "copy.db", clock=FakeClock())


def json_files(path: Path) -> CopyableStore:
    return JsonFileStore(path / "copy", clock=FakeClock(), adopts=Scope("", "", ""))


LARGE = LargeValue(value_id("large"), "é" * 300_000 + '"')


def plain(tasks: int) -> list[Append]:
    return [
        create(f"plain-{n}", scope=(ALICE, BOB)[n % 2], status_ms=9000 - n, count=3)
        for n in range(tasks)
    ]


async def fill(store: CopyableStore, *, tasks: int = 100) -> None:
    """Tasks and records of all sorts."""
    await must_put(store, *plain(tasks))
    snapshot = Snapshot(3, b'{"id":"ended"}', b'[{"artifactId":"a"}]')
    ended = create("ended", context_id="é\n", count=3, state=COMPLETED, snapshot=snapshot)
    note = Put(key=Key("note.1", "agent", "n"), body=b"{}", tags=("b", "a"), goes_with_task=True)
    await must_put(store, with_groups(ended, Group((note,))))
    await must_put(store, create("pruned", count=5, snapshot=Snapshot(4, b"{}")))
    await store.prune_journal("pruned", up_to=3)
    await must_put(store, create("all-pruned", count=2, snapshot=Snapshot(2, b"{}")))
    await store.prune_journal("all-pruned", up_to=2)
    await must_put(
        store,
        create("file"),
        structs.replace(
            follow("file", 1), entries=(Entry(2, STATUS, b'"' + b"x" * 600_000 + b'"'),)
        ),
    )
    body = b'["%s"]' % (LARGE.reference if store.keeps_large_values else LARGE.text).encode()
    if not store.keeps_large_values:
        body = b'["' + b"".join(LARGE.slices()) + b'"]'
    await must_put(store, large_append(store, body))
    await must_change(store, Add(key=Key("count.1", "", "c"), amount=7, at_most=10))
    await must_change(store, Add(key=Key("count.1", "", "c"), amount=1, at_most=10))
    for n in range(3):
        await must_change(store, Put(key=Key("timer.1", "s", str(n)), body=b"\0\xff", due_in_ms=n))
    (claimed,) = await store.claim_due({"timer.1": 1}, lease_ms=1000)
    await must_change(store, Defer(key=claimed.key, in_ms=50_000, expected=claimed.version))


def large_append(store: CopyableStore, body: bytes) -> Append:
    append = structs.replace(
        create("large", count=2, state=COMPLETED),
        entries=(Entry(1, STATUS, b"[]"), Entry(2, STATUS, body)),
        snapshot=Snapshot(2, b"{}", body),
    )
    return structs.replace(append, values=(LARGE,)) if store.keeps_large_values else append


async def copy(source: CopyableStore, target: CopyableStore, **options: object) -> Copied:
    return await StoreCopy(source, target, name="the source", **options).run()  # type: ignore[arg-type]


async def opened(store: CopyableStore) -> CopyableStore:
    await store.open()
    return store


@pytest.mark.parametrize("make_source", [sqlite, json_files])
@pytest.mark.parametrize("make_target", [sqlite, json_files])
async def test_a_copy_and_the_copy_of_the_copy_are_equal(
    make_source: Make, make_target: Make, tmp_path: Path
) -> None:
    source = await opened(make_source(tmp_path / "1"))
    await fill(source)
    target = await opened(make_target(tmp_path / "2"))
    seen: list[Progress] = []
    first = await copy(source, target, on_progress=seen.append)
    assert (first.tasks, first.records) == (105, 5)
    assert seen[0] == Progress("copied tasks", 64, 105)
    # What is not in the file of a store is not in a copy of it either.
    await target.close()
    target = await opened(make_target(tmp_path / "2"))
    back = await opened(make_source(tmp_path / "3"))
    assert await copy(target, back) == first
    for store in (target, back):
        await assert_like_the_source(store)
    for store in (source, target, back):
        await store.close()


async def assert_like_the_source(store: CopyableStore) -> None:
    """What the gateway goes by, in the words of the port."""
    await require_whole(store)
    pruned = await store.get(ALICE, "pruned")
    assert pruned is not None
    assert (pruned.last_seq, len(pruned.tail)) == (5, 1)
    assert [each.seq for each in await store.entries("pruned", after=0, limit=9)] == [4, 5]
    (note,) = await store.task_records("ended")
    assert note.tags == ("b", "a")
    count = await store.record(Key("count.1", "", "c"))
    assert count is not None
    assert (count.count, count.version) == (8, 2)
    # A record of the scope was put off, so the scope waits.
    assert await store.claim_due({"timer.1": 9}, lease_ms=1000) == ()
    timer = await store.record(Key("timer.1", "s", "0"))
    assert timer is not None
    assert (timer.body, timer.attempts) == (b"\0\xff", 1)
    await must_put(store, follow("pruned", 5), follow("all-pruned", 2))
    assert (await store.unfinished())[0] == (ALICE, "plain-0")


class Killed(BaseException):
    pass


async def test_a_copy_that_was_killed_is_continued(tmp_path: Path) -> None:
    source = await opened(sqlite(tmp_path / "1"))
    await fill(source)
    whole = await copy(source, await opened(sqlite(tmp_path / "whole")))

    def kill(progress: Progress) -> None:
        raise Killed

    kills, copied = 0, None
    while copied is None:
        # Opened anew, as by a new process. The first kill comes after the first step, each
        # further one a step later.
        target = await opened(json_files(tmp_path / "2"))
        try:
            copied = await copy(source, target, on_progress=kill)
        except Killed:
            kills += 1
            with pytest.raises(StoreUnusable, match=r"db copy.*again"):
                await require_whole(target)
        finally:
            await target.close()
    assert kills == 3  # two steps of tasks, one of records
    assert copied == whole


async def test_what_was_written_before_the_place_was_noted_is_not_written_twice(
    tmp_path: Path,
) -> None:
    source = await opened(sqlite(tmp_path / "1"))
    await fill(source)
    target = await opened(sqlite(tmp_path / "2"))
    await must_change(target, Put(key=UNFINISHED_COPY, body=b'{"source":"the source"}'))
    # The copy was killed between the commit of these and the note of its place.
    await must_put(target, *plain(64))
    assert (await copy(source, target)).tasks == 105


async def test_a_target_with_tasks_or_records_is_refused(tmp_path: Path) -> None:
    source = await opened(sqlite(tmp_path / "1"))
    for name in ("tasks", "records"):
        target = await opened(sqlite(tmp_path / name))
        if name == "tasks":
            await must_put(target, create("t"))
        else:
            await must_change(target, Put(key=Key("note.1", "", "n")))
        with pytest.raises(StoreUnusable, match=r"has tasks or records.*Give an empty one"):
            await copy(source, target)


async def test_a_part_of_another_store_is_not_continued(tmp_path: Path) -> None:
    source = await opened(sqlite(tmp_path / "1"))
    target = await opened(sqlite(tmp_path / "2"))
    await must_change(target, Put(key=UNFINISHED_COPY, body=b'{"source":"sqlite at /x.db"}'))
    with pytest.raises(StoreUnusable, match=r"a part of sqlite at /x\.db"):
        await copy(source, target)


async def test_a_difference_is_named(tmp_path: Path) -> None:
    source = await opened(sqlite(tmp_path / "1"))
    await must_put(source, create("one"), create("two"))
    target = await opened(sqlite(tmp_path / "2"))
    # All tasks were copied, and then one was changed.
    await must_put(target, create("one"), create("two"), follow("two", 1))
    place = b'{"source":"the source","task":2,"tasks":2}'
    await must_change(target, Put(key=UNFINISHED_COPY, body=place))
    with pytest.raises(StoreUnusable, match=r"task two differs"):
        await copy(source, target)
    # It stays marked, so that no gateway starts on it.
    with pytest.raises(StoreUnusable):
        await require_whole(target)


@pytest.mark.parametrize("make", [sqlite, json_files])
async def test_records_are_put_as_they_are(make: Make, tmp_path: Path) -> None:
    store = await opened(make(tmp_path))
    await must_put(store, create("t"))
    await must_change(store, Put(key=Key("k.1", "s", "i"), body=b"old", tags=("x",), due_in_ms=5))
    record = await store.record(Key("k.1", "s", "i"))
    assert record is not None
    new = structs.replace(record, version=9, body=b"new", tags=(), due_ms=None, attempts=3, count=2)
    await store.put_copies([RecordCopy(record=new, task_id="t")])
    assert await store.records_after(None, limit=9) == [RecordCopy(record=new, task_id="t")]
    assert await store.records("k.1", tag="x", limit=9) == ()
    assert await store.task_records("t") == (new,)
