"""What exists between open and close: the state, the log, and a thread for each disk."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from trunkline.model.errors import StoreUnusable
from trunkline.stores.commits import CommitThread
from trunkline.stores.jsonfile.changes import Change, Deleted, encode
from trunkline.stores.jsonfile.conversations import ConversationFiles
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.notes import NoteFiles
from trunkline.stores.jsonfile.records import Records, TaskHead
from trunkline.stores.jsonfile.state import State
from trunkline.stores.jsonfile.turns import answer

T = TypeVar("T")
_Done = Callable[[Any, BaseException | None], None]
_log = logging.getLogger("trunkline.store")

# Files that are written in one go. Readers wait for their end.
_FILES_AT_ONCE = 32
_SYNCING_THREADS = 4
# Tasks at rest that may wait for their records. Beyond that commits wait too, or a
# gateway that is faster than its disk would fill its memory.
_MAX_BEHIND = 4096


class Opened:
    """The event loop alone touches the state. One thread writes the log, another one reads
    and writes records, each in the order in which it is asked. So a record that is read is
    never newer than the state was when it was asked for."""

    def __init__(
        self,
        log: Log,
        records: Records,
        conversations: ConversationFiles,
        notes: NoteFiles,
        *,
        log_bytes: int,
        on_written: Callable[[], None],
        on_damage: Callable[[BaseException], None],
    ) -> None:
        """`on_damage` is told of a file that could not be brought up to date, for it is not
        what it was."""
        self.loop = asyncio.get_running_loop()
        self.state = State()
        self._log = log
        self._records = records
        self._conversations = conversations
        self._notes = notes
        self._log_bytes = log_bytes
        self._on_written = on_written
        self._on_damage = on_damage
        self._pool = ThreadPoolExecutor(_SYNCING_THREADS, "trunkline-json-sync")
        self._log_thread = CommitThread(self.loop, "trunkline-json-log")
        self._file_thread = CommitThread(self.loop, "trunkline-json-files")
        self._is_writing = False
        # Whether the last attempt to write records failed.
        self._is_failing = False
        self._is_finishing = False
        # Up to where the log is known to have gone.
        self._removed_up_to = 0

    async def load(self) -> None:
        await self.in_files(self._load)
        # What a crash has left in the log goes to the records at leisure.
        self.state.retire()
        self.write_records()

    def _load(self) -> None:
        self.state.load(
            *self._records.load_all(), self._conversations.load_all(), self._notes.load()
        )
        gone = self.state.replay(self._log.replay())
        if gone:
            self._records.remove_all(gone)

    def in_files(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run among the reads and writes of records. Takes its place in line at once."""
        future: asyncio.Future[T] = self.loop.create_future()
        self._file_thread.run(work, partial(answer, future))
        return future

    def commit(
        self, changes: Sequence[Change], done: Callable[[BaseException | None], None]
    ) -> None:
        """Put the changes into the log, then into the state, then tell."""
        is_full = self._log.size >= max(self._log_bytes, self.state.dirty_bytes)
        if is_full and self.state.is_retired:
            self.state.retire()
        else:
            is_full = False

        def committed(_: Any, error: BaseException | None) -> None:
            if error is None:
                self._apply(changes)
            done(error)
            self.write_records()

        self._log_thread.run(partial(self._write_line, changes, begins_file=is_full), committed)

    def look(self, *, tries_to_write: bool) -> "asyncio.Future[None]":
        """Raises Lost, or OSError from the attempt to write."""
        future: asyncio.Future[None] = self.loop.create_future()

        def look() -> None:
            self._log.look()
            if tries_to_write:
                self._log.try_write()

        self._log_thread.run(look, partial(answer, future))
        return future

    def _write_line(self, changes: Sequence[Change], *, begins_file: bool) -> None:
        if begins_file:
            self._log.rotate()
        self._log.write(encode(changes), first_n=changes[0].n, last_n=changes[-1].n)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.state.apply(change)
        gone = [change.task_id for change in changes if isinstance(change, Deleted)]
        if gone:
            # In line behind whoever may just be writing one of them.
            self._file_thread.run(partial(self._records.remove_all, gone), _removed)

    def write_records(self) -> None:
        """Write what is due, and then what is left of it, until nothing is."""
        if self._is_writing or self._is_finishing:
            return
        state = self.state
        if heads := state.take_due(_FILES_AT_ONCE):
            work = partial(self._records.write_all, heads, self._pool)
            self._write(work, partial(self._records_written, heads))
        elif due := state.conversations.due(_FILES_AT_ONCE):
            self._write(
                partial(self._conversations.write, due, self._pool),
                lambda _, error: None if error else state.conversations.written(due),
            )
        elif file := state.notes.due():
            self._write(
                partial(self._notes.write, file, self._pool),
                lambda _, error: None if error else state.notes.written(file),
            )
        elif state.is_retired and self._removed_up_to < state.retires_up_to:
            self._removed_up_to = state.retires_up_to
            self._write(partial(self._log.remove_up_to, state.retires_up_to), lambda *_: None)

    def _write(self, work: Callable[[], Any], done: _Done) -> None:
        self._is_writing = True

        def written(result: Any, error: BaseException | None) -> None:
            self._is_writing = False
            done(result, error)
            if error is None:
                self._is_failing = False
                self.write_records()
            elif isinstance(error, StoreUnusable | FileNotFoundError):
                self._on_damage(error)
            elif not self._is_failing:
                self._is_failing = True
                # The log has it, and the next commit tries again.
                _log.error("records were not written", extra={"reason": str(error)})
            self._on_written()

        self._file_thread.run(work, written)

    @property
    def is_behind(self) -> bool:
        """Whether commits are to wait. When they need not any more, `on_written` is called."""
        return self._is_writing and self.state.due > _MAX_BEHIND

    def _records_written(
        self, heads: list[TaskHead], sizes: list[int], error: BaseException | None
    ) -> None:
        if error is not None:
            self.state.give_back(heads)
            return
        for head, size in zip(heads, sizes, strict=True):
            self.state.written(head, size)

    async def finish(self) -> None:
        """Leave nothing in the log."""
        self._is_finishing = True
        state = self.state
        state.retire()
        try:
            while heads := state.take_due(_FILES_AT_ONCE):
                sizes = await self.in_files(partial(self._records.write_all, heads, self._pool))
                self._records_written(heads, sizes, None)
            while due := state.conversations.due(_FILES_AT_ONCE):
                await self.in_files(partial(self._conversations.write, due, self._pool))
                state.conversations.written(due)
            if file := state.notes.due():
                await self.in_files(partial(self._notes.write, file, self._pool))
                state.notes.written(file)
            await self.in_files(partial(self._log.remove_all, state.n))
        except OSError as error:
            # The log has it, and is read at the next start.
            _log.error("records were not written", extra={"reason": str(error)})

    def stop(self) -> None:
        self._log_thread.stop()
        self._file_thread.stop()
        self._pool.shutdown()
        self._log.close()


def _removed(_: None, error: BaseException | None) -> None:
    if error is not None:
        # It is found at the next start, and goes when its time is up once more.
        _log.error("a record was not removed", extra={"reason": str(error)})
