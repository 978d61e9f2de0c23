"""A commit costs the event and not the task (D9), counted in bytes and in files."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import store_on

from trunkline.model.events import Entry
from trunkline.ports.records import Group, Put
from trunkline.ports.store import Snapshot
from trunkline.stores.jsonfile import files, log
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.tasks import Contents
from trunkline.testing.clock import settle
from trunkline.testing.stores.kit import (
    COMPLETED,
    create,
    entries,
    follow,
    key,
    must_change,
    must_get,
    must_put,
    opened,
    with_groups,
)

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover


class Meter:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written = 0
        self.writes = 0
        # Log and records are written by threads of their own.
        self._counting = threading.Lock()
        self._write_all = files.write_all
        for module in (files, log):
            monkeypatch.setattr(module, "write_all", self.write)

    def write(self, fd: int, data: bytes) -> None:
        with self._counting:
            self.written += len(data)
            self.writes += 1
        self._write_all(fd, data)


async def cost(meter: Meter, folder: Path, *, deltas: int, log_bytes: int) -> int:
    """Bytes that are written for a task with so many deltas, ten in each commit."""
    before = meter.written
    async with opened(lambda _: store_on(folder, log_bytes=log_bytes), "") as store:
        await must_put(store, create("t"))
        for seq in range(1, deltas, 10):
            await must_put(store, *[follow("t", seq + step) for step in range(10)])
        await must_put(store, follow("t", deltas + 1, state=COMPLETED))
    return meter.written - before


async def test_d9_twice_the_deltas_cost_twice_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(monkeypatch)
    short, long = [
        await cost(meter, tmp_path / str(deltas), deltas=deltas, log_bytes=16 << 20)
        for deltas in (1000, 2000)
    ]
    assert long <= 2.2 * short


async def test_d9_writing_records_in_between_keeps_the_cost_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(monkeypatch)
    short, long = [
        await cost(meter, tmp_path / str(deltas), deltas=deltas, log_bytes=8 << 10)
        for deltas in (500, 4000)
    ]
    # Eight times as long; up to half as much again, as the last record may come at once
    # after the one before. In proportion to the square it would be 64 times.
    assert long <= 1.5 * 8 * short


async def test_appends_that_come_together_are_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(monkeypatch)
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, *[create(f"t{number}") for number in range(100)])
        assert meter.writes == 1


async def test_large_records_that_come_together_are_written_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(monkeypatch)
    body = b'"%s"' % (b"x" * (3 << 20))
    async with opened(lambda _: store_on(tmp_path), "") as store:
        mine = Group((Put(key=key("mine"), body=body),))
        async with asyncio.TaskGroup() as group:
            for name in ("a", "b"):
                group.create_task(must_change(store, Put(key=key(name), body=body)))
            group.create_task(must_put(store, with_groups(create("t"), mine)))
        assert meter.writes == 3


async def test_journal_that_is_read_in_pages_is_read_from_the_disk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("t", count=100, state=COMPLETED))
    read = []
    really_read = Folder._read_file

    def read_file(self: Folder, task_id: str) -> Contents:
        read.append(task_id)
        return really_read(self, task_id)

    monkeypatch.setattr(Folder, "_read_file", read_file)
    async with opened(lambda _: store_on(tmp_path), "") as store:
        seen: list[Entry] = []
        while page := await store.entries("t", after=len(seen), limit=7):
            seen += page
        assert seen == list(entries(0, 100))
        assert read == ["t"]
        # What is written meanwhile is read.
        await must_put(store, follow("t", 100, state=COMPLETED))
        assert await store.entries("t", after=99, limit=9) == entries(99, 2)


def sizes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


async def test_log_goes_when_the_records_hold_it_all(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path, log_bytes=10_000), "") as store:
        await must_put(store, create("t"))
        for seq in range(1, 1500, 20):
            await must_put(store, *[follow("t", seq + step) for step in range(20)])
            # Behind the records in line.
            await store.entries("t", after=0, limit=1)
        written = sizes(tmp_path, "*.json")
        # Never more than what is being filled and what is being retired.
        assert 0 < sizes(tmp_path, "changes-*.log") <= 2 * max(10_000, written) + 10_000
    assert sizes(tmp_path, "changes-*.log") == 0


async def test_large_appends_do_not_share_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[int] = []
    write = log.Log.write

    def watch(self: log.Log, line: bytes, *, first_n: int, last_n: int) -> None:
        lines.append(len(line))
        write(self, line, first_n=first_n, last_n=last_n)

    monkeypatch.setattr(log.Log, "write", watch)
    large = Snapshot(1, b'"' + b"x" * 1_000_000 + b'"')
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, *[create(f"t{number}", snapshot=large) for number in range(12)])
        # Four of them are as much as one commit takes.
        assert len(lines) >= 3
        assert max(lines) < 6_000_000
        for number in range(12):
            assert (await must_get(store, f"t{number}")).snapshot == large


async def test_a_record_that_is_being_written_when_the_store_closes_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = threading.Event()
    written: list[int] = []
    write_all = files.write_all

    def write(fd: int, data: bytes) -> None:
        written.append(len(data))
        may_write.wait(30)
        write_all(fd, data)

    monkeypatch.setattr(files, "write_all", write)
    store = store_on(tmp_path, log_bytes=16 << 20)
    await store.open()
    await must_put(store, create("t", state=COMPLETED))
    while not written:
        await settle()

    async def let_it_write() -> None:
        await settle()
        may_write.set()

    await asyncio.gather(store.close(), let_it_write())
    assert len(written) == 1
