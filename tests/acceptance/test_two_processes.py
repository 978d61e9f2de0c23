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

OWNER = """
import asyncio, sys
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import create, must_put

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await must_put(store, create("t", node="owner"))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


async def test_killed_owner_loses_the_file_and_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"ready\n"

    with pytest.raises(StoreInUse) as refused:
        await SqliteStore(path).open()
    assert f"The store {path} is in use by process {owner.pid}." in str(refused.value)
    assert "Stop that process" in str(refused.value)

    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    async with opened(lambda _: SqliteStore(path), "") as store:
        assert (await must_get(store, "t")).tail == entries(0, 1)
        (task,) = await store.claim("heir", now_ms=0, limit=9)
        await must_put(store, follow("t", 1, epoch=task.epoch), create("u"))
