"""Who holds a store, asked from outside."""

import os
from pathlib import Path

from trunkline.stores.locks import FileLock, WriterLock, holder_of
from trunkline.testing import FakeClock


def test_the_holder_of_a_database_is_known_while_it_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    assert holder_of(path) is None
    assert [*tmp_path.iterdir()] == []
    lock = FileLock(path)
    lock.acquire()
    lock.write_mark("mark")
    assert holder_of(path) == os.getpid()
    lock.release()
    assert holder_of(path) is None
    # The question changes nothing of what the next process finds.
    lock.acquire()
    assert lock.mark == "mark"
    lock.release()


async def test_the_holder_of_a_folder_is_known_while_it_holds_it(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path, FakeClock(), wait_s=1)
    assert holder_of(tmp_path) is None
    await lock.acquire()
    assert holder_of(tmp_path) == os.getpid()
    lock.release()
    assert holder_of(tmp_path) is None


def test_a_lock_that_names_nobody_is_held_by_an_unknown_process(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "t.db")
    lock.acquire()
    (tmp_path / "t.db.lock").write_bytes(b"")
    assert holder_of(tmp_path / "t.db") == 0
    lock.release()
