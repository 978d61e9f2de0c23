"""A database of an earlier release is opened, migrated and served, whatever was under way in it."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.world import HANDLE, World, said

from trunkline.model.errors import IdempotencyConflict
from trunkline.model.values import TaskState, text_of
from trunkline.ports.caller_records import AGING, ANSWER, KEY, NOTE, key_body
from trunkline.stores.sqlite import SqliteStore
from trunkline.stores.sqlite.check import check
from trunkline.stores.sqlite.schema import prepare, shipped_schema
from trunkline.testing import FakeClock

EARLIER = Path(__file__).parent / "databases" / "005.sql"
INBOUND: dict[str, Any] = {"preset_name": "openclaw-inbound", "list_tasks": "served"}
# The tasks of the database, by what they were when the gateway was killed.
DONE, CONTINUED, PAUSED = "one-000005", "one-000006", "one-000007"
RUNNING, QUEUED, FAILED, PROMOTED = "one-000008", "one-000009", "one-000010", "two-000004"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    db = sqlite3.connect(path)
    db.executescript(EARLIER.read_text("utf-8"))
    db.close()
    return path


def later() -> FakeClock:
    """When no lease of the gateway that was killed holds any more."""
    return FakeClock(1_750_000_060_000)


def serve(path: Path, **options: Any) -> World:
    clock = later()
    store = SqliteStore(path, synchronous="normal", clock=clock)
    return World(store=store, clock=clock, node="three", **options)


async def test_tasks_are_served_and_continued(database: Path) -> None:
    w = serve(database)
    await w.open()
    states = {task.id: task.status.state for task in await w.listed()}
    assert (states[DONE], states[CONTINUED]) == (TaskState.COMPLETED, TaskState.COMPLETED)
    assert (states[PAUSED], states[FAILED]) == (TaskState.INPUT_REQUIRED, TaskState.FAILED)
    # Effects are not repeated, and what waited runs.
    assert states[RUNNING] is states[PROMOTED] is TaskState.FAILED
    assert said(await w.ended(QUEUED)) == "queued"
    assert said(await w.send("say blue", task=PAUSED)) == "blue"
    await w.close()
    assert check(database).faults == []


@pytest.mark.parametrize(
    ("name", "text", "options", "task_id"),
    [
        ("of-task", "say done", {"id": "m-done"}, DONE),
        ("of-follow-up", "wait gate; say more", {"task": CONTINUED, "id": "m-more"}, CONTINUED),
        ("of-paused", "ask colour?", {"context": "p2", "id": "m-paused"}, PAUSED),
        ("of-running", "say some; wait never", {"context": "q", "id": "m-running"}, RUNNING),
        ("of-queued", "say queued", {"context": "q", "id": "m-queued"}, QUEUED),
        ("promoted", "wait b; tool grep; wait c", {"context": "f", "id": "m-promoted"}, PROMOTED),
    ],
)
async def test_keys_of_tasks_give_the_task(
    database: Path, name: str, text: str, options: dict[str, Any], task_id: str
) -> None:
    w = serve(database)
    await w.open()
    returns_now = name in ("of-follow-up", "of-running", "of-queued")
    assert (await w.send(text, key=name, now=returns_now, **options)).id == task_id
    assert len(await w.listed()) == 7
    with pytest.raises(IdempotencyConflict):
        await w.send("say something else", key=name)
    await w.close()


async def test_keys_of_answers_without_a_task_give_the_answer_or_a_failed_task(
    database: Path,
) -> None:
    w = serve(database, **INBOUND)
    await w.open()
    answer = await w.ask("say keyed", key="direct", id="m-direct", context="d")
    assert (answer.message_id, text_of(answer.parts)) == ("two-000002", "keyed")
    task = await w.send("wait a; say lost", key="begun", id="m-begun", context="e")
    assert (task.id, task.status.state) == ("two-000003", TaskState.FAILED)
    assert "was not run again" in said(task)
    assert not w.scripted.turns
    await w.close()


async def test_transcripts_and_notes_are_there_and_age_as_before(database: Path) -> None:
    w = serve(database, direct=True, retention_s=100.0)
    await w.open()
    await w.ask("reply now", context="talk")
    session = w.scripted.turns[-1].session
    assert session is not None
    told = [text_of(message.parts) for message in await session.transcript()]
    assert told == ["reply first", "first", "reply second", "second"]
    assert await session.recall("thread") == "4711 ✓"
    assert await session.recall("gone") is None
    assert await w.runtime.sessions.of_agent(HANDLE).recall("card") == "{}"
    before_ms = 1_750_000_001_000
    assert await w.store.count_due(ANSWER, HANDLE, before_ms=before_ms) == 2
    assert await w.store.count_due(NOTE, HANDLE, before_ms=before_ms + 1) == 2
    # Not the key that a task took over.
    assert await w.store.count_due(KEY, HANDLE, before_ms=before_ms) == 2
    await w.clock.advance(130)

    async def left() -> list[int]:
        return [await w.store.count_due(kind, HANDLE, before_ms=before_ms + 1) for kind in AGING]

    async with asyncio.timeout(10):
        while any(await left()):
            await w.clock.advance(1)
    await w.close()


def test_a_migrated_database_has_the_tables_of_a_new_one(database: Path) -> None:
    db = sqlite3.connect(database, isolation_level=None)
    prepare(db, shipped_schema(), str(database))
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert not tables & {"idempotency", "exchanges", "notes"}
    assert db.execute("SELECT kind, count(*) FROM records GROUP BY kind").fetchall() == [
        (ANSWER, 4),
        (KEY, 8),
        (NOTE, 2),
    ]
    db.close()


def _fill(database: Path, keys: int) -> None:
    """Many keys of one task."""
    db = sqlite3.connect(database)
    rows = ((1, f"key:many-{number:07}", 1, b"digest") for number in range(keys))
    db.executemany("INSERT INTO idempotency (scope, key, task, digest) VALUES (?, ?, ?, ?)", rows)
    db.commit()
    db.close()


def _migrate_and_die(database: str, after: int) -> None:
    """Be killed in the middle of the migration, at the given number of steps of SQLite."""
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    # Little memory, so that some of the migration is in the log when the process dies.
    db.execute("PRAGMA cache_size = 10")
    steps = iter(range(after))

    def step() -> int:
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    db.set_progress_handler(step, 1000)
    prepare(db, shipped_schema(), database)
    os._exit(0)


@pytest.mark.parametrize("after", [1, 20, 60, 200])
async def test_a_migration_that_was_killed_starts_again(database: Path, after: int) -> None:
    _fill(database, 5_000)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_migrate_and_die, args=(str(database), after))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    w = serve(database)
    await w.open()
    found = await w.store.records(KEY, scope=HANDLE, limit=9_999)
    assert len(found) == 5_008
    many = [record for record in found if "key:many" in record.key.id]
    assert {record.body for record in many} == {key_body(b"digest", DONE)}
    await w.close()
    assert check(database).faults == []


async def test_entries_of_before_have_no_time_and_later_ones_have(database: Path) -> None:
    w = serve(database)
    await w.open()
    before = len(await w.store.entries(PAUSED, after=0, limit=100))
    assert said(await w.send("say blue", task=PAUSED)) == "blue"
    found = await w.store.entries(PAUSED, after=0, limit=100)
    times = [entry.committed_ms for entry in found]
    assert times[:before] == [None] * before
    assert {*times[before:]} == {w.clock.now_ms()}
    await w.close()
