"""Writes a database with many finished tasks, for the cases about size.

`python -m bench.fill --data DIR --tasks N` runs in the servers' interpreter, with the gateway on
its path, and leaves in DIR what `trunkline serve --data DIR` opens: N finished tasks of the
principal that an unauthenticated loopback caller is, each as if it had been sent `hello N`.
It goes through the gateway's own Store port, in large batches, never through SQL of its own, so
that it cannot drift from the schema.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

from bench.fleet import RESULTS, SAMPLE
from bench.servers import ROOT
from trunkline.clock import SystemClock, Uuid7Ids
from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import StoreError
from trunkline.model.events import Entry, Event
from trunkline.model.principal import ANONYMOUS
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

FILL_LIMIT_S = 900


class NotFilled(Exception):
    """There is no database with stored tasks to measure on."""


def filled(python: str, tasks: int) -> Path:
    """The folder with `tasks` stored tasks; made once and kept, remove it to have it made anew."""
    data = RESULTS / f"stored-{tasks}"
    if (data / SAMPLE).exists():
        return data
    data.mkdir(parents=True, exist_ok=True)
    print(f"writing {tasks:,} tasks, once", file=sys.stderr, flush=True)
    command = [python, "-m", "bench.fill", "--data", str(data), "--tasks", str(tasks)]
    try:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        ended = subprocess.run(command, cwd=ROOT, env=env, timeout=FILL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise NotFilled(f"not filled in {FILL_LIMIT_S} s") from late
    if ended.returncode:
        raise NotFilled("bench/fill.py could not write the tasks")
    return data


# Enough that a commit costs next to nothing per task, little enough to hold in memory.
BATCH = 256
# How many ids are kept beside the database, evenly spread over it.
SAMPLED = 10_000
HANDLE = "local/bench"


def fill(data: Path, tasks: int) -> None:
    """Write `tasks` finished tasks below `data`, and last of all the ids of some."""
    task_ids = asyncio.run(_fill(data, tasks))
    sample = task_ids[:: max(1, tasks // SAMPLED)]
    (data / SAMPLE).write_text("\n".join(sample), "ascii")


async def _fill(data: Path, tasks: int) -> list[str]:
    task_ids: list[str] = []
    store = SqliteStore(data / "trunkline.db", synchronous="normal")
    await store.open()
    ids, now_ms = Uuid7Ids(), SystemClock().now_ms()
    try:
        for first in range(0, tasks, BATCH):
            numbers = range(first, min(first + BATCH, tasks))
            # Spread over the hour before, oldest first, as sends would have been.
            moments = [now_ms - (tasks - number) * 3_600_000 // tasks for number in numbers]
            batch = [
                _finished(ids.new(), ids.new(), number, ms)
                for number, ms in zip(numbers, moments, strict=True)
            ]
            await _submit(store, batch)
            task_ids += [append.task_id for append in batch]
    finally:
        await store.close()
    return task_ids


async def _submit(store: SqliteStore, batch: list[Append]) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(batch)

    def settled(result: Result) -> None:
        nonlocal left
        left -= 1
        if isinstance(result, StoreError) and not done.done():
            done.set_exception(result)
        elif not left and not done.done():
            done.set_result(None)

    store.submit([(append, settled) for append in batch])
    await done


def _finished(task_id: str, context_id: str, number: int, ms: int) -> Append:
    """The whole life of an echoed message in one append."""
    said = (Part(text=f"hello {number}"),)

    def message(message_id: str, role: Role) -> Message:
        return Message(
            message_id=message_id, context_id=context_id, task_id=task_id, role=role, parts=said
        )

    def status(state: TaskState, answer: Message | None = None) -> TaskStatus:
        return TaskStatus(state=state, message=answer, timestamp=format_timestamp(ms))

    def update(state: TaskState, answer: Message | None = None) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(
            task_id=task_id, context_id=context_id, status=status(state, answer)
        )

    events: tuple[Event, ...] = (
        Task(
            id=task_id,
            context_id=context_id,
            status=status(TaskState.SUBMITTED),
            history=(message(f"m-{number}", Role.USER),),
        ),
        update(TaskState.WORKING),
        TaskArtifactUpdateEvent(
            task_id=task_id,
            context_id=context_id,
            artifact=Artifact(artifact_id="answer", name="answer", parts=said),
            last_chunk=True,
        ),
        update(TaskState.COMPLETED, message(f"{task_id}.1.1", Role.AGENT)),
    )
    entries = tuple(Entry.of(seq, event) for seq, event in enumerate(events, 1))
    return Append(
        task_id=task_id,
        expected_seq=0,
        entries=entries,
        state=TaskState.COMPLETED,
        status_ms=ms,
        creation=Creation(Scope(HANDLE, "", ANONYMOUS.id), context_id, ms),
        snapshot=TaskFold.of(None, entries).snapshot(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    options = parser.parse_args()
    try:
        fill(options.data, options.tasks)
    except NotFilled as reason:
        sys.exit(f"bench.fill: {reason}")


if __name__ == "__main__":
    main()
