"""`trunkline db copy` of a hundred thousand tasks, killed on the way there and on the way back."""

import asyncio
import json
import re
import time
from pathlib import Path

import pytest
from tests.acceptance.command import Shell
from tests.postgres.server import PostgresServer

from trunkline.ports.store import Scope, Snapshot
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import COMPLETED, create, entry, must_put

TASKS = 100_000
_BATCH = 500
_TEXT = "The quick brown fox jumps over the lazy dog. " * 8


async def fill(file: Path) -> None:
    """Ended tasks of some callers, each with an idempotency key, which is a record."""
    store = SqliteStore(file)
    await store.open()
    for first in range(0, TASKS, _BATCH):
        await must_put(
            store,
            *[
                create(
                    f"task-{number}",
                    scope=Scope("test/agent", "", f"caller-{number % 7}"),
                    context_id=f"context-{number}",
                    count=3,
                    state=COMPLETED,
                    status_ms=number,
                    snapshot=Snapshot(3, entry(number, _TEXT).body),
                    key=f"key-{number}",
                )
                for number in range(first, first + _BATCH)
            ],
        )
    await store.close()


def copy_with_a_kill(shell: Shell, source: str, target: str) -> str:
    """The hash, after a `kill -9` once the copy is on its way."""
    words = ("db", "copy", source, target, "-o", "json")
    began = time.monotonic()
    with shell.started(*words) as process:
        assert process.stderr is not None
        line, done, total = "", 0, TASKS
        while 3 * done < total:
            line = process.stderr.readline()
            done, total = map(int, re.findall(r"\d+", line)[:2])
        process.kill()
    assert done < total, line
    killed_s = time.monotonic() - began
    with shell.started(*words) as process:
        out, err = process.communicate()
        assert process.returncode == 0, err
    copied = json.loads(out)
    assert (copied["tasks"], copied["records"]) == (TASKS, TASKS)
    print(
        f"{source.partition(':')[0]}: killed after {killed_s:.1f} s at {line.strip()}, "
        f"{time.monotonic() - began:.1f} s in all"
    )
    return str(copied["hash"])


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_large_store_is_copied_and_copied_back(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    shell = Shell(tmp_path)
    asyncio.run(fill(tmp_path / "a.db"), debug=False)
    database = own_postgres.create_database(lambda _: None)
    there = copy_with_a_kill(shell, f"sqlite:///{tmp_path / 'a.db'}", database)
    back = copy_with_a_kill(shell, database, f"sqlite:///{tmp_path / 'b.db'}")
    assert there == back
