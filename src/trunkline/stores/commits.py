"""The steps that every store takes for a commit: check the append, wait for the disk, report.

`why_refused` checks an append, `CommitThread` waits for the disk, `settle` reports to the
submitters. `DiskStore` is the part that the stores on a disk share.
"""

import asyncio
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from trunkline.model.errors import KeyTaken, LeaseLost, StaleSeq, StoreError, StoreUnusable
from trunkline.model.values import TaskState
from trunkline.ports.store import Append, Exchange, IdempotencyRecord, KeptNote, Settled
from trunkline.stores.health import Health

# States in which a node has work to do for the task.
RUNNABLE = frozenset({TaskState.SUBMITTED, TaskState.WORKING})

# A commit consists of these.
Item: TypeAlias = Append | Exchange | KeptNote
_Done = Callable[[Any, BaseException | None], None]
Opened = TypeVar("Opened")


if sys.platform == "darwin":
    import fcntl

    def sync(fd: int) -> None:
        # A plain fsync is acknowledged before the data is on the disk.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:
    sync = os.fsync


def sync_folder(folder: Path) -> None:
    """Make the names of new files survive a power cut."""
    if sys.platform == "win32":  # which syncs the entries of a folder by itself
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def why_refused(append: Append, last_seq: int, epoch: int) -> StoreError | None:
    """Why this append may not follow; None when it may. `last_seq` 0: no such task."""
    # The epoch first: an append of a former owner is nearly always stale too, and the former
    # owner must learn that it must not try again.
    if epoch != append.epoch and last_seq:
        return LeaseLost(
            f"Task {append.task_id} has epoch {epoch}; the append was made for {append.epoch}"
        )
    if append.expected_seq != last_seq:
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


def key_taken(record: IdempotencyRecord) -> KeyTaken:
    return KeyTaken(f"The idempotency key {record.key!r} was used before")


def settle(
    loop: asyncio.AbstractEventLoop,
    items: Sequence[tuple[Item, Settled]],
    results: Sequence[StoreError | None],
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


class DiskStore(ABC, Generic[Opened]):
    """A store with files: open or not, its health, and exchanges and notes as single changes."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._health = Health(self._path)
        self._opened: Opened | None = None
        # Set from the call of `close` on.
        self._closed: asyncio.Future[None] | None = None
        self._is_busy = False

    @property
    def problem(self) -> str | None:
        return self._health.problem

    async def remember(self, exchange: Exchange) -> None:
        await self._commit(exchange)

    async def keep(self, note: KeptNote) -> None:
        await self._commit(note)

    async def _commit(self, item: Item) -> None:
        self._require_open()
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit([(item, partial(answer, committed, None))])
        await committed

    @abstractmethod
    def _submit(self, items: Sequence[tuple[Item, Settled]]) -> None:
        """Queue the items of an open store for the next commit."""

    def _not_open(self) -> StoreUnusable:
        return StoreUnusable(f"The store {self._path} is not open")

    def _require_open(self) -> Opened:
        if self._opened is None or self._closed is not None:
            raise self._not_open()
        return self._opened
