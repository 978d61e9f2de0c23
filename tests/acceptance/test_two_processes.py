"""Two processes never write one store, and a dead one holds nobody up (D8)."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from trunkline.model.errors import StoreInUse
from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import create, entries, follow, must_get, must_put, opened

# Appends to one task until it is killed, and prints every sequence that was acknowledged.
OWNER = """
import asyncio, itertools, sys
from pathlib import Path
from tests.acceptance.test_two_processes import STORES
from trunkline.testing.stores.kit import create, follow, must_put

async def main():
    store = STORES[sys.argv[1]](Path(sys.argv[2]))
    await store.open()
    await must_put(store, create("t"))
    for seq in itertools.count(1):
        print(seq, flush=True)
        await must_put(store, follow("t", seq))

asyncio.run(main())
"""


def json_files(path: Path, wait_s: float = 0, clock: FakeClock | None = None) -> JsonFileStore:
    adopts = Scope("", "", "")
    return JsonFileStore(path, clock=clock or FakeClock(), adopts=adopts, lock_wait_s=wait_s)


STORES: dict[str, Callable[[Path], Store]] = {"sqlite": SqliteStore, "json-file": json_files}
TEXTS = {
    "sqlite": "The store {path} is in use by process {pid}.",
    "json-file": "Task store writer lock timed out after 0ms: pid={pid} {path}/.writer.lock.",
}


@asynccontextmanager
async def owner_of(kind: str, path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has the store open, and has acknowledged something."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        kind,
        str(path),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
    )
    assert owner.stdout is not None
    try:
        assert await owner.stdout.readline() == b"1\n"
        yield owner
    finally:
        if owner.returncode is None:
            await kill(owner)


async def kill(owner: asyncio.subprocess.Process) -> bytes:
    """Returns what it had printed."""
    assert owner.stdout is not None
    owner.send_signal(signal.SIGKILL)
    printed = await owner.stdout.read()
    await owner.wait()
    return printed


@pytest.mark.parametrize("kind", STORES)
async def test_killed_owner_loses_the_store_and_nothing_it_acknowledged(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "store"
    async with owner_of(kind, path) as owner:
        with pytest.raises(StoreInUse) as refused:
            await STORES[kind](path).open()
        assert TEXTS[kind].format(path=path, pid=owner.pid) in str(refused.value)
        assert "Stop that process" in str(refused.value)

        assert owner.stdout is not None
        printed = b"".join([await owner.stdout.readline() for _ in range(200)])
        printed += await kill(owner)
    # The last line may be cut off.
    acknowledged = int(printed.rpartition(b"\n")[0].split()[-1])
    async with opened(lambda _: STORES[kind](path), "") as store:
        task = await must_get(store, "t")
        assert task.last_seq >= acknowledged
        assert task.tail == entries(0, task.last_seq)
        await must_put(store, follow("t", task.last_seq), create("u"))


async def test_d8_lock_of_a_live_owner_is_never_stolen_whatever_its_age(tmp_path: Path) -> None:
    async with owner_of("json-file", tmp_path) as owner:
        lock = tmp_path / ".writer.lock"
        said = json.loads(lock.read_bytes())
        assert said["pid"] == owner.pid
        assert set(said) == {"pid", "createdAt", "starttime"}
        os.utime(lock, (0, 0))
        for text in (
            json.dumps({**said, "createdAt": "2001-01-01T00:00:00.000Z"}),
            json.dumps({**said, "pid": 4_000_000}),
            "",
        ):
            # Whatever the file says, its owner holds the lock of the system.
            lock.write_text(text)
            os.utime(lock, (0, 0))
            with pytest.raises(StoreInUse, match="timed out after 0ms: pid="):
                await json_files(tmp_path).open()


async def test_d8_waiting_for_the_lock_has_an_end(tmp_path: Path) -> None:
    clock = FakeClock()
    async with owner_of("json-file", tmp_path) as owner, asyncio.TaskGroup() as group:
        opening = group.create_task(refused_open(json_files(tmp_path, 10, clock)))
        await clock.wait_until_sleeping()
        await clock.advance(9.9)
        assert not opening.done()
        await clock.advance(0.1)
        text = str(await opening)
        lock = tmp_path / ".writer.lock"
        assert text.startswith(
            f"Task store writer lock timed out after 10000ms: pid={owner.pid} {lock}."
        )


async def test_d8_lock_of_an_owner_who_dies_meanwhile_is_free_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    store = json_files(tmp_path, 10, clock)
    async with owner_of("json-file", tmp_path) as owner, asyncio.TaskGroup() as group:
        opening = group.create_task(store.open())
        await clock.wait_until_sleeping()
        await kill(owner)
        await clock.advance(0.05)
        await opening
        assert json.loads((tmp_path / ".writer.lock").read_bytes())["pid"] == os.getpid()
        await store.close()
    assert not (tmp_path / ".writer.lock").exists()


async def refused_open(store: Store) -> StoreInUse:
    with pytest.raises(StoreInUse) as refused:
        await store.open()
    return refused.value


@asynccontextmanager
async def other_program() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(60)"
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.mark.skipif(sys.platform != "linux", reason="start times come from /proc")
async def test_d8_program_that_only_writes_the_lock_file_is_believed_while_it_lives(
    tmp_path: Path,
) -> None:
    lock = tmp_path / ".writer.lock"

    async def is_refused(**owner: Any) -> bool:
        lock.write_text(json.dumps(owner))
        store = json_files(tmp_path)
        try:
            await store.open()
        except StoreInUse:
            return True
        await store.close()
        return False

    async with other_program() as other:
        pid, started = other.pid, start_time(other.pid)
        created = "2001-01-01T00:00:00.000Z"
        assert await is_refused(pid=pid, createdAt=created, starttime=started)
        assert await is_refused(pid=pid, createdAt=created)
        # The number now belongs to another process than the one that wrote it.
        assert not await is_refused(pid=pid, createdAt=created, starttime=started - 1)
    assert not await is_refused(pid=pid, createdAt=created, starttime=started)
    assert not await is_refused(pid=os.getpid(), createdAt=created)
    lock.write_text("not JSON")
    async with opened(lambda _: json_files(tmp_path), "") as store:
        await must_put(store, create("t"))
