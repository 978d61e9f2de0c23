"""The steps that every store takes for a commit: check the append, wait for the disk, report.

`why_refused` checks an append, `CommitThread` waits for the disk, `settle` reports to the
submitters. `BatchingStore` gathers appends that arrive together into commits; `DiskStore` adds the
part that the stores on a disk share.
"""

import asyncio
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from trunkline.model.errors import StaleSeq, StoreError, StoreUnusable
from trunkline.model.values import TaskState
from trunkline.ports.records import Change, Group
from trunkline.ports.store import Append, Result, Settled
from trunkline.stores.health import Health

# States of a task that has work to do.
RUNNABLE = frozenset({TaskState.SUBMITTED, TaskState.WORKING})

Item: TypeAlias = Append | Group
# Items that arrived one after the other, for as few commits as possible.
Batch: TypeAlias = list[tuple[Item, Settled]]
_Done = Callable[[Any, BaseException | None], None]
T = TypeVar("T")

# How many passes of the event loop a batch waits for more items: at most, and without any
# arriving. With one quiet pass, an agent that was just started is too late for the batch.
_MAX_PASSES = 64
_QUIET_PASSES = 2


if sys.platform == "darwin":
    import fcntl

    def sync(fd: int) -> None:
        # A plain fsync is acknowledged before the data is on the disk.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:
    sync = os.fsync


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of new files survive a power cut."""
    if sys.platform == "win32":  # which syncs the entries of a folder by itself
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def why_refused(append: Append, last_seq: int) -> StoreError | None:
    """Why this append may not follow; None when it may. `last_seq` 0: no such task."""
    if append.expected_seq != last_seq:
        if not last_seq and append.begins_pruned:
            return why_refused(append, append.expected_seq)
        return StaleSeq(
            f"Task {append.task_id} is at sequence {last_seq}; "
            f"the append continues after {append.expected_seq}"
        )
    if not last_seq and append.creation is None:
        return StaleSeq(f"Task {append.task_id} does not exist")
    entries = append.entries
    if entries and entries[-1].seq != last_seq + len(entries):
        return StaleSeq(f"The entries for task {append.task_id} do not continue after {last_seq}")
    return None


def settle(
    loop: asyncio.AbstractEventLoop,
    items: Sequence[tuple[Item, Settled]],
    results: Sequence[Result],
) -> None:
    """Tell each submitter its result.

    The loop's exception handler gets the error of a submitter that raises; the other
    submitters are told nevertheless, and the store continues.
    """
    for (_, settled), result in zip(items, results, strict=True):
        try:
            settled(result)
        except Exception as error:  # noqa: BLE001 - goes to the loop's exception handler
            loop.call_exception_handler(
                {"message": "a submitter failed when it was told of its commit", "exception": error}
            )


def refuse(items: Sequence[tuple[Item, Settled]], error: StoreError) -> None:
    """Tell all of them in the next pass of the loop: `submit` never calls back."""
    loop = asyncio.get_running_loop()
    loop.call_soon(settle, loop, items, [error] * len(items))


def answer(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class CommitThread:
    """Runs one piece of work after the other, and reports each to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._work: SimpleQueue[tuple[Callable[[], Any], _Done] | None] = SimpleQueue()
        # A daemon: a process that was not closed properly still exits, and loses
        # nothing that it had acknowledged.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Any], done: _Done) -> None:
        self._work.put((work, done))

    def stop(self) -> None:
        """End the thread once all queued work is done."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            try:
                result, error = work(), None
            except Exception as failure:  # noqa: BLE001 - `done` gets it
                result, error = None, failure
            try:
                self._loop.call_soon_threadsafe(done, result, error)
            except RuntimeError:
                # The loop was closed before the store, so nothing waits for the result.
                return


class Job(NamedTuple):
    """Any other change: has a commit of its own, in its turn among the batches."""

    work: Callable[[], Any]
    future: "asyncio.Future[Any]"


class _OnLoop(Protocol):
    loop: asyncio.AbstractEventLoop


Opened = TypeVar("Opened", bound=_OnLoop)


class BatchingStore(ABC, Generic[Opened]):
    """A store that commits in batches: open or not, its health, and the changes that wait."""

    def __init__(self, name: str | Path) -> None:
        """`name` stands for the store in messages to the operator."""
        self._name = name
        self._health = Health(name)
        self._opened: Opened | None = None
        # Set from the call of `close` on.
        self._closed: asyncio.Future[Any] | None = None
        self._queue: deque[Batch | Job] = deque()
        # How many items ever arrived, to see whether more do.
        self._submitted = 0
        self._is_gathering = False
        self._is_busy = False

    @property
    def problem(self) -> str | None:
        return self._health.problem

    async def change(self, *changes: Change) -> None:
        await self._commit(Group(changes))

    async def _commit(self, item: Item) -> None:
        self._require_open()
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit([(item, partial(answer, committed, None))])
        await committed

    def _submit(self, items: Sequence[tuple[Item, Settled]]) -> None:
        """Queue the items of an open store for the next commit."""
        queue = self._queue
        self._submitted += len(items)
        if queue and type(queue[-1]) is list:
            queue[-1].extend(items)
            return
        queue.append(list(items))
        self._start_soon()

    def _start_soon(self) -> None:
        """Begin the next commit as soon as the loop has nothing more to add to it."""
        if self._is_busy or self._is_gathering or not self._queue or self._opened is None:
            return
        self._is_gathering = True
        self._opened.loop.call_soon(self._gather, self._submitted, 0, _MAX_PASSES)

    def _gather(self, submitted: int, quiet: int, passes: int) -> None:
        # A commit costs as much CPU as several sends, however small it is. So it waits while
        # the loop brings more items, which is next to no time on a quiet gateway.
        quiet = 0 if self._submitted != submitted else quiet + 1
        if quiet < _QUIET_PASSES and passes and self._opened is not None:
            self._opened.loop.call_soon(self._gather, self._submitted, quiet, passes - 1)
            return
        self._is_gathering = False
        self._start_next()

    @abstractmethod
    def _start_next(self) -> None:
        """Begin the next commit, unless one is under way or the queue is empty."""

    def _not_open(self) -> StoreUnusable:
        return StoreUnusable(f"The store {self._name} is not open")

    def _require_open(self) -> Opened:
        if self._opened is None or self._closed is not None:
            raise self._not_open()
        return self._opened


class DiskStore(BatchingStore[Opened]):
    """A store with files, whose other changes take their turn among the batches."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        super().__init__(self._path)

    def _enqueue(
        self, work: Callable[[], T], future: "asyncio.Future[T] | None" = None
    ) -> "asyncio.Future[T]":
        """Queue a job of an open store. `future` gets its result."""
        future = future or asyncio.get_running_loop().create_future()
        self._queue.append(Job(work, future))
        self._start_soon()
        return future
