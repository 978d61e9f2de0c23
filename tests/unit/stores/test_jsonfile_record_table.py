"""Records in the folder of JSON files: when they are seen, and when their file is written."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import names, store_on

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Delete, Group, Put
from trunkline.stores.jsonfile import files, log
from trunkline.stores.jsonfile.changes import Recorded, StoredRecord
from trunkline.stores.jsonfile.record_table import LoggedRecords, RecordsFile
from trunkline.stores.jsonfile.state import State
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import (
    COMPLETED,
    create,
    key,
    must_change,
    must_have,
    must_put,
    opened,
    with_groups,
)


async def test_no_reader_sees_a_change_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, may_write = asyncio.Event(), threading.Event()
    loop, really_write = asyncio.get_running_loop(), files.write_all

    def write_all(fd: int, data: bytes) -> None:
        loop.call_soon_threadsafe(is_writing.set)
        may_write.wait()
        really_write(fd, data)

    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_change(store, Put(key=key("a"), body=b"1"))
        monkeypatch.setattr(log, "write_all", write_all)
        puts = (Put(key=key("a"), body=b"2"), Put(key=key("b"), tags=("tag",)))
        async with asyncio.TaskGroup() as group:
            group.create_task(must_change(store, *puts))
            await is_writing.wait()
            assert (await must_have(store, key("a"))).body == b"1"
            assert await store.records("check.1", tag="tag", limit=9) == ()
            may_write.set()
        assert (await must_have(store, key("a"))).body == b"2"


async def test_a_commit_that_fails_changes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_change(store, Put(key=key("a"), body=b"1", due_in_ms=0))
        with monkeypatch.context() as patch:
            patch.setattr(log, "write_all", fail)
            with pytest.raises(StoreUnusable, match="the disk is full"):
                await store.change(Put(key=key("a"), body=b"2"))
            with pytest.raises(StoreUnusable, match="the disk is full"):
                await store.claim_due({"check.1": 9}, lease_ms=9)
        found = await must_have(store, key("a"))
        assert (found.body, found.version, found.attempts) == (b"1", 1, 0)
        (claimed,) = await store.claim_due({"check.1": 9}, lease_ms=9)
        assert claimed.attempts == 1


async def test_the_file_is_there_as_long_as_there_are_records(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_change(store, Put(key=key("a")), Put(key=key("b")))
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 3
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_change(store, Delete(key=key("a")), Delete(key=key("b")))
    assert names(tmp_path) == set()


async def test_records_go_to_their_file_when_the_log_is_full(tmp_path: Path) -> None:
    store = store_on(tmp_path, log_bytes=2000)
    await store.open()
    for number in range(200):
        await must_change(store, Put(key=key(f"r{number % 10}"), body=b"%d" % number))
        await must_put(store, create(f"t{number}"))
    assert "records.jsonl" in names(tmp_path)
    await store.close()
    async with opened(lambda _: store_on(tmp_path), "") as again:
        bodies = [(await must_have(again, key(f"r{number}"))).body for number in range(10)]
        assert bodies == [b"%d" % number for number in range(190, 200)]


def recorded(n: int) -> Recorded:
    return Recorded(n, (StoredRecord(kind="check.1", scope="scope", id="a", version=n),))


def test_a_record_that_comes_while_the_file_is_written_is_still_due() -> None:
    state = State(FakeClock())
    state.apply(recorded(1))
    state.retire()
    (captured,) = state.take_due(9)
    state.apply(recorded(2))
    state.retire()
    state.written(captured, 0)
    assert not state.is_retired
    (later,) = state.take_due(9)
    assert isinstance(later.copy, RecordsFile)
    assert [row.version for row in later.copy.records.rows()] == [2]
    state.apply(recorded(3))
    # What came after the log was closed does not hold it up.
    state.written(later, 0)
    assert state.is_retired


async def test_a_damaged_file_is_named_with_the_line(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_change(store, Put(key=key("a")))
    file = tmp_path / "records.jsonl"
    file.write_text(file.read_text().splitlines()[0] + "\n{broken\n")
    with pytest.raises(StoreUnusable, match=r"records\.jsonl is damaged in line 2 .*take out"):
        await store_on(tmp_path).open()


async def test_ids_of_tasks_that_are_numbers_stay_apart(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for task_id, state in (("7", COMPLETED), ("07", COMPLETED)):
            mine = Group((Put(key=key(task_id), goes_with_task=True),))
            append = create(task_id, state=state, status_ms=len(task_id))
            await must_put(store, with_groups(append, mine))
        assert await store.prune("agent", limit=1) == 1
        assert await store.record(key("7")) is None
        await must_have(store, key("07"))


async def test_scopes_without_a_due_record_are_looked_at_once() -> None:
    """Also when the same claim finds a record in another scope."""
    clock = FakeClock()
    records = LoggedRecords(clock)
    for name in ("a", "b"):
        with records.trial() as changed:
            records.apply([Put(key=key(name, scope=name), due_in_ms=0)])
            rows = changed()
        for row in rows:
            records.put_row(row)
    # Not claimed, so the scope learns of it only when it is due.
    with records.trial() as changed:
        records.apply([Delete(key=key("a", scope="a"))])
        (gone,) = changed()
    records.put_row(gone)
    with records.trial() as changed:
        (claimed,) = records.claim_due({"check.1": 9}, lease_ms=60_000)
        (held,) = changed()
    assert claimed.key.scope == "b"
    records.put_row(held)
    assert not records.has_due({"check.1": 9}, clock.now_ms())
