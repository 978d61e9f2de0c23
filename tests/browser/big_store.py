"""A database with very many tasks, and one task with very many events, written before a gateway
starts on it."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from trunkline.clock import SystemClock
from trunkline.engine.task_fold import TaskFold
from trunkline.model.events import Entry
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.store import Append, Creation, Result, Scope
from trunkline.stores.sqlite import SqliteStore

LONG_TASK: Final = "00000000-0000-7000-8000-000000long01"
_NOW_MS: Final = SystemClock().now_ms()
_SCOPE: Final = Scope("demo/echo", "", "@anonymous")
_STEP: Final = 500
# Tasks begin a second apart, the last one now: agents forget those that ended long ago.
_MAX_AGE_S: Final = 20_000
_STATES: Final = (
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.INPUT_REQUIRED,
    TaskState.CANCELED,
)


def fill(path: Path, *, tasks: int, events: int) -> None:
    """Write it in a thread of its own: the one of the tests has the event loop of Playwright."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, _fill(path, tasks, events)).result()


async def _fill(path: Path, tasks: int, events: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    try:
        appends = [_short_task(number) for number in range(tasks)]
        for first in range(0, tasks, _STEP):
            await _commit(store, appends[first : first + _STEP])
        for append in _long_task(events):
            await _commit(store, [append])
    finally:
        await store.close()


async def _commit(store: SqliteStore, appends: Sequence[Append]) -> None:
    loop = asyncio.get_running_loop()
    results: list[asyncio.Future[Result]] = [loop.create_future() for _ in appends]
    store.submit([(each, done.set_result) for each, done in zip(appends, results, strict=True)])
    for done in results:
        assert await done is None


def _short_task(number: int) -> Append:
    task_id = f"00000000-0000-7000-8000-{number:012d}"
    state = _STATES[number % len(_STATES)]
    end = TaskStatusUpdateEvent(
        task_id=task_id,
        context_id=task_id,
        status=_status(state, number, f"Answer number {number}"),
    )
    entries = (_begun(task_id, f"Question number {number}", number), Entry.of(2, end))
    return _append(task_id, 0, entries, state, number)


def _long_task(events: int) -> Iterator[Append]:
    """A task that streams words, in appends of `_STEP` events."""
    fold: list[Entry] = [_begun(LONG_TASK, "Count", 0)]
    working = TaskStatusUpdateEvent(
        task_id=LONG_TASK, context_id=LONG_TASK, status=_status(TaskState.WORKING, 0, "")
    )
    fold.append(Entry.of(2, working))
    for seq in range(3, events):
        artifact = Artifact(artifact_id="answer", parts=(Part(text=f"word{seq} "),))
        chunk = TaskArtifactUpdateEvent(
            task_id=LONG_TASK, context_id=LONG_TASK, artifact=artifact, append=seq > 3
        )
        fold.append(Entry.of(seq, chunk))
    done = _status(TaskState.COMPLETED, events, "Counted")
    end = TaskStatusUpdateEvent(task_id=LONG_TASK, context_id=LONG_TASK, status=done)
    fold.append(Entry.of(events, end))
    for first in range(0, events, _STEP):
        entries = tuple(fold[first : first + _STEP])
        is_last = first + _STEP >= events
        state = TaskState.COMPLETED if is_last else TaskState.WORKING
        yield _append(LONG_TASK, first, entries, state, events, whole=fold if is_last else ())


def _begun(task_id: str, text: str, number: int) -> Entry:
    asked = Message(message_id=f"m{number}", role=Role.USER, parts=(Part(text=text),))
    status = _status(TaskState.SUBMITTED, number, "")
    return Entry.of(1, Task(id=task_id, context_id=task_id, status=status, history=(asked,)))


def _time_of(number: int) -> int:
    return _NOW_MS - 1000 * (_MAX_AGE_S - min(number, _MAX_AGE_S))


def _status(state: TaskState, number: int, text: str) -> TaskStatus:
    said = Message(message_id=f"a{number}", role=Role.AGENT, parts=(Part(text=text),))
    at = format_timestamp(_time_of(number))
    return TaskStatus(state=state, timestamp=at, message=said if text else None)


def _append(
    task_id: str,
    after: int,
    entries: tuple[Entry, ...],
    state: TaskState,
    number: int,
    *,
    whole: Sequence[Entry] = (),
) -> Append:
    """Entries that end a task come with its snapshot."""
    snapshot = None
    journal = whole or entries
    if after + len(entries) == len(journal):
        fold = TaskFold.begin(journal[0])
        for entry in journal[1:]:
            fold.apply(entry)
        snapshot = fold.snapshot()
    status_ms = _time_of(number)
    return Append(
        task_id=task_id,
        expected_seq=after,
        entries=entries,
        state=state,
        status_ms=status_ms,
        snapshot=snapshot,
        creation=None if after else Creation(_SCOPE, task_id, status_ms),
    )
