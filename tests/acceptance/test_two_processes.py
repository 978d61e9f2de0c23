"""Two processes never write one file, and a dead one holds nobody up."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from trunkline.model.errors import StoreInUse
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import create, entries, follow, must_get, must_put, opened

# Appends to one task until it is killed, and prints every sequence that was acknowledged.
OWNER = """
import asyncio, itertools, sys
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import create, follow, must_put

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await must_put(store, create("t", node="owner"))
    for seq in itertools.count(1):
        print(seq, flush=True)
        await must_put(store, follow("t", seq))

asyncio.run(main())
"""


async def start_owner(path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        str(path),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


async def test_killed_owner_loses_the_file_and_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    owner = await start_owner(path)
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"1\n"

    with pytest.raises(StoreInUse) as refused:
        await SqliteStore(path).open()
    assert f"The store {path} is in use by process {owner.pid}." in str(refused.value)
    assert "Stop that process" in str(refused.value)

    printed = b"".join([await owner.stdout.readline() for _ in range(200)])
    owner.send_signal(signal.SIGKILL)
    printed += await owner.stdout.read()
    await owner.wait()
    # The last line may be cut off.
    acknowledged = int(printed.rpartition(b"\n")[0].split()[-1])
    async with opened(lambda _: SqliteStore(path), "") as store:
        task = await must_get(store, "t")
        assert task.last_seq >= acknowledged
        assert task.tail == entries(0, task.last_seq)
        (task,) = await store.claim("heir", now_ms=0, limit=9)
        await must_put(store, follow("t", task.last_seq, epoch=task.epoch), create("u"))
