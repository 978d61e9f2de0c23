"""A copy has everything, can be continued, and is compared with its source."""

from pathlib import Path

import pytest
from msgspec import structs
from tests.unit.stores.copies import (
    Make,
    as_copied,
    assert_like_the_source,
    copy,
    fill,
    json_files,
    opened,
    plain,
    sqlite,
)

from trunkline.model.errors import StoreUnusable
from trunkline.ports.copying import UNFINISHED_COPY, RecordCopy, require_whole
from trunkline.ports.records import Key, Put
from trunkline.stores.copying import Progress
from trunkline.testing.stores.kit import create, follow, must_change, must_put


# Each goes there and back.
@pytest.mark.parametrize(
    ("make_source", "make_target"),
    [
        (sqlite, json_files),
        pytest.param(sqlite, sqlite, marks=pytest.mark.full),
        pytest.param(json_files, json_files, marks=pytest.mark.full),
    ],
)
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
    await must_put(source, as_copied(create("one")), as_copied(create("two")))
    target = await opened(sqlite(tmp_path / "2"))
    # All tasks were copied, and then one was changed.
    await must_put(target, as_copied(create("one")), as_copied(create("two")), follow("two", 1))
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


async def test_a_copy_has_the_times_of_its_source(tmp_path: Path) -> None:
    """And says so when it has not: the comparison at the end reads them too."""
    source = await opened(sqlite(tmp_path / "1"))
    await must_put(source, as_copied(create("old", count=2)), create("new", count=70))
    await must_put(source, follow("old", 2))
    times = [each.committed_ms for each in await source.entries("old", after=0, limit=9)]
    assert times[:2] == [None, None]
    assert times[2] is not None
    for number, make in enumerate((sqlite, json_files, sqlite)):
        target = await opened(make(tmp_path / f"target-{number}"))
        await copy(source, target)
        for task in ("old", "new"):
            wanted = await source.entries(task, after=0, limit=100)
            found = await target.entries(task, after=0, limit=100)
            assert [each.committed_ms for each in found] == [each.committed_ms for each in wanted]
        await source.close()
        source = target
    await source.close()
