"""The process lives on when the folder cannot be opened or written, and a crash is mended."""

import resource
import shutil
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import names, store_on

from trunkline.model.errors import StoreInUse, StoreUnusable
from trunkline.ports.caller_records import request_key
from trunkline.ports.records import Key, Put
from trunkline.ports.store import TaskQuery
from trunkline.stores.jsonfile import opened as opened_module
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.state import Document
from trunkline.testing import settle
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    assert_refused,
    create,
    entries,
    follow,
    must_get,
    must_put,
    opened,
    put,
    submit,
)


def log_of(folder: Path) -> Path:
    (log,) = folder.glob("changes-*.log")
    return log


async def crashed(folder: Path, commits: int) -> Path:
    """A copy of a folder as a process leaves it that is killed after so many commits."""
    async with opened(lambda _: store_on(folder), "") as store:
        await must_put(store, create("t"))
        for seq in range(1, commits):
            await must_put(store, follow("t", seq))
        copy = folder.with_name(f"{folder.name}-copy")
        shutil.copytree(folder, copy)
    return copy


async def test_full_disk_is_survived(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("a"))
        log = log_of(tmp_path)
        size = log.stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Some of the line fits, but not all of it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        try:
            results = await put(store, follow("a", 1), create("b", key="k"))
            with pytest.raises(StoreUnusable, match="cannot be written"):
                await store.change(Put(key=Key("check.1", "", "a")))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        for result in results:
            assert_refused(result, StoreUnusable)
        assert str(tmp_path) in str(results[0])
        assert "free space" in str(results[0])
        assert log.stat().st_size == size
        assert (await must_get(store, "a")).last_seq == 1
        assert await store.record(request_key(ALICE, "k")) is None
        await must_put(store, follow("a", 1), create("b", key="k"))
    async with opened(lambda _: store_on(tmp_path), "") as store:
        assert (await must_get(store, "a")).last_seq == 2
        assert (await must_get(store, "b")).last_seq == 1


async def test_record_that_cannot_be_written_stays_in_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with opened(lambda _: store_on(folder), "") as store:
        # Neither temporary file nor record can take that place.
        (folder / "dA.json.tmp").mkdir()
        await must_put(store, create("t", state=COMPLETED))
        await must_put(store, create("u"))
    assert "dA.json" not in names(folder)
    assert log_of(folder).stat().st_size > 0
    (folder / "dA.json.tmp").rmdir()
    async with opened(lambda _: store_on(folder), "") as store:
        assert (await must_get(store, "t")).state == COMPLETED
    assert names(folder) == {"dA.json", "dQ.json"}


async def test_line_that_a_crash_cut_off_never_happened(tmp_path: Path) -> None:
    copy = await crashed(tmp_path / "store", commits=3)
    whole = log_of(copy).read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    for size in sorted({*ends, *range(0, len(whole), 23), len(whole) - 1}):
        log = copy / "changes-0000000000000001.log"
        log.write_bytes(whole[:size])
        committed = sum(end <= size for end in ends)
        store = store_on(copy)
        await store.open()
        assert await store.entries("t", after=0, limit=9) == entries(0, committed)
        await store.close()
        for file in copy.iterdir():
            file.unlink()


async def test_crash_after_a_crash_finds_whole_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = await crashed(tmp_path / "store", commits=3)
    log = log_of(copy)
    log.write_bytes(log.read_bytes()[:-1])

    def write_all(*_: object) -> list[int]:
        raise OSError("no record is ever written")

    monkeypatch.setattr(Folder, "write_all", write_all)
    async with opened(lambda _: store_on(copy), "") as store:
        await must_put(store, follow("t", 2))
    assert len(list(copy.iterdir())) == 2
    async with opened(lambda _: store_on(copy), "") as store:
        assert await store.entries("t", after=0, limit=9) == entries(0, 3)


async def test_damage_before_the_end_of_the_log_is_refused(tmp_path: Path) -> None:
    copy = await crashed(tmp_path / "store", commits=3)
    log = log_of(copy)
    whole = bytearray(log.read_bytes())
    second = whole.index(b"\n") + 1
    whole[second + 20] ^= 1
    log.write_bytes(whole)
    with pytest.raises(StoreUnusable) as refused:
        await store_on(copy).open()
    assert f"{log} is damaged at byte {second}. Restore a backup" in str(refused.value)
    assert log.read_bytes() == whole


async def test_log_of_a_newer_release_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "changes-0000000000000001.log").write_bytes(
        b'619f3277 [{"type":"transfer","n":1}]\n'
    )
    with pytest.raises(StoreUnusable, match="this release cannot read"):
        await store_on(tmp_path).open()
    assert log_of(tmp_path).stat().st_size > 0


async def test_half_written_record_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "dA.json.tmp").write_text('{"schemaVersion": 2, "ta')
    async with opened(lambda _: store_on(tmp_path), "") as store:
        assert await store.get(ALICE, "t") is None
    assert names(tmp_path) == set()


async def test_task_whose_id_fits_no_file_is_refused(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        results = await put(store, create("x" * 200), create("t"), create("\ud800"))
        assert results[1] is None
        assert_refused(results[0], StoreUnusable)
        assert_refused(results[2], StoreUnusable)


async def test_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(StoreUnusable, match="must be a folder") as refused:
            await store_on(path).open()
        assert str(path) in str(refused.value)


async def test_record_that_somebody_removed_is_named(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("t"))
    async with opened(lambda _: store_on(tmp_path), "") as store:
        (tmp_path / "dA.json").unlink()
        with pytest.raises(StoreUnusable, match="Nothing else may change its files"):
            await store.get(ALICE, "t")


async def test_same_process_opens_a_folder_once(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        with pytest.raises(StoreInUse, match="is open in this process already"):
            await store_on(tmp_path).open()
        await must_put(store, create("t"))


async def test_files_are_private_and_only_records_stay(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    async with opened(lambda _: store_on(folder), "") as store:
        await must_put(store, create("t"))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for file in folder.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert names(folder) == {"dA.json"}
    assert stat.S_IMODE((folder / "dA.json").stat().st_mode) == 0o600


async def test_more_than_one_batch_at_once_is_committed_in_order(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("t"), *[follow("t", after) for after in range(1, 1000)])
        assert (await must_get(store, "t")).last_seq == 1000


async def test_commits_wait_when_the_records_fall_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_module, "_MAX_BEHIND", 4)
    gate = threading.Event()
    really_write = Folder.write_all

    def write_all(self: Folder, documents: Sequence[Document], pool: Executor) -> list[int]:
        gate.wait()
        return really_write(self, documents, pool)

    monkeypatch.setattr(Folder, "write_all", write_all)
    store = store_on(tmp_path)
    await store.open()
    # One is being written, five are waiting.
    for number in range(6):
        await must_put(store, create(f"t{number}", state=COMPLETED))
    log = log_of(tmp_path).read_bytes()
    late = submit(store, create("late"))
    await settle()
    assert not late.done()
    assert log_of(tmp_path).read_bytes() == log
    gate.set()
    assert await late is None
    await store.close()
    assert len(names(tmp_path)) == 7


async def test_closed_store_says_so(tmp_path: Path) -> None:
    store = store_on(tmp_path)
    with pytest.raises(StoreUnusable, match="not open"):
        await store.get(ALICE, "t")
    await store.open()
    await store.close()
    with pytest.raises(StoreUnusable, match="not open"):
        await store.list(TaskQuery(scope=ALICE))
    with pytest.raises(StoreUnusable, match="not open"):
        await store.prune("agent", before_ms=1, limit=1)
