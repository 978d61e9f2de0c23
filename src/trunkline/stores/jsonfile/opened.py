"""`Opened`: an open folder, with its state, its log, and a thread for each kind of file."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from trunkline.model.errors import StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.stores.commits import CommitThread, answer
from trunkline.stores.jsonfile.changes import Change, Deleted, encode
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.state import Captured, State

T = TypeVar("T")
_Done = Callable[[Any, BaseException | None], None]
_log = logging.getLogger("trunkline.store")

# Files that are written in one go. Readers wait for their end.
_FILES_AT_ONCE = 32
_SYNCING_THREADS = 4
# How many files may be due. With more, commits wait too, or a gateway that is faster than its
# disk would fill its memory.
_MAX_BEHIND = 4096


class Opened:
    """The event loop alone touches the state. One thread writes the log, another one reads
    and writes all other files, each in the order of the calls. So a record is never newer
    than the state was when its reader asked for it."""

    def __init__(
        self,
        log: Log,
        folder: Folder,
        *,
        clock: Clock,
        log_bytes: int,
        on_written: Callable[[], None],
        on_damage: Callable[[BaseException], None],
    ) -> None:
        """`on_damage` is told of a file that cannot be updated because its contents changed."""
        self.loop = asyncio.get_running_loop()
        self.state = State(clock)
        self._log = log
        self._folder = folder
        self._log_bytes = log_bytes
        self._on_written = on_written
        self._on_damage = on_damage
        self._pool = ThreadPoolExecutor(_SYNCING_THREADS, "trunkline-json-sync")
        self._log_thread = CommitThread(self.loop, "trunkline-json-log")
        self._file_thread = CommitThread(self.loop, "trunkline-json-files")
        self._is_writing = False
        # Whether the last attempt to write files failed.
        self._is_failing = False
        self._is_finishing = False
        # The log up to this change is removed.
        self._removed_up_to = 0

    async def load(self) -> None:
        await self.in_files(self._load)
        # Write the changes that a crash left in the log to their files, in the background.
        self.state.retire()
        self.write_files()

    def _load(self) -> None:
        self._folder.remove_temporaries()
        self._folder.load(self.state)
        gone = self.state.replay(self._log.replay())
        if gone:
            self._folder.remove_all(gone)
        self._folder.replace_earlier_files(self.state, self._pool)

    def in_files(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run among the reads and writes of files. Takes its place in line at once."""
        return self._run(self._file_thread, work)

    def _run(self, thread: CommitThread, work: Callable[[], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.loop.create_future()
        thread.run(work, partial(answer, future))
        return future

    def commit(
        self, changes: Sequence[Change], done: Callable[[BaseException | None], None]
    ) -> None:
        """Put the changes into the log, then into the state, then call `done`."""
        is_full = self._log.size >= max(self._log_bytes, self.state.lagging_bytes)
        if is_full and self.state.is_retired:
            self.state.retire()
        else:
            is_full = False

        def committed(_: Any, error: BaseException | None) -> None:
            if error is None:
                self._apply(changes)
            done(error)
            self.write_files()

        self._log_thread.run(partial(self._write_line, changes, begins_file=is_full), committed)

    def look(self, *, tries_to_write: bool) -> "asyncio.Future[None]":
        """Raises Lost, or OSError from the attempt to write."""
        look = partial(self._log.look, tries_to_write=tries_to_write)
        return self._run(self._log_thread, look)

    def _write_line(self, changes: Sequence[Change], *, begins_file: bool) -> None:
        if begins_file:
            self._log.rotate()
        self._log.write(encode(changes), first_n=changes[0].n, last_n=changes[-1].n)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.state.apply(change)
        gone = [change.task_id for change in changes if isinstance(change, Deleted)]
        if gone:
            # In line behind a write of the same record that may be under way.
            self._file_thread.run(partial(self._folder.remove_all, gone), _removed)

    def write_files(self) -> None:
        """Write the files that are due, round by round, then remove the log that they hold."""
        if self._is_writing or self._is_finishing:
            return
        state = self.state
        if due := state.take_due(_FILES_AT_ONCE):
            self._write(self._write_all(due), partial(self._files_written, due))
        elif state.is_retired and self._removed_up_to < state.retires_up_to:
            self._removed_up_to = state.retires_up_to
            self._write(partial(self._log.remove_up_to, state.retires_up_to), lambda *_: None)

    def _write_all(self, due: Sequence[Captured]) -> Callable[[], list[int]]:
        return partial(self._folder.write_all, [each.copy for each in due], self._pool)

    def _write(self, work: Callable[[], Any], done: _Done) -> None:
        self._is_writing = True

        def written(result: Any, error: BaseException | None) -> None:
            self._is_writing = False
            done(result, error)
            if error is None:
                self._is_failing = False
                self.write_files()
            elif isinstance(error, StoreUnusable | FileNotFoundError):
                self._on_damage(error)
            elif not self._is_failing:
                self._is_failing = True
                # The log still holds the changes, and the next commit tries again.
                _log.error("records were not written", extra={"reason": str(error)})
            self._on_written()

        self._file_thread.run(work, written)

    @property
    def is_behind(self) -> bool:
        """Whether commits have to wait. `on_written` is called when they may continue."""
        return self._is_writing and self.state.due > _MAX_BEHIND

    def _files_written(
        self, due: Sequence[Captured], sizes: Sequence[int], error: BaseException | None
    ) -> None:
        if error is not None:
            self.state.give_back(due)
            return
        for captured, size in zip(due, sizes, strict=True):
            self.state.written(captured, size)

    async def finish(self) -> None:
        """Bring all files up to date and remove the log."""
        self._is_finishing = True
        # A write that is under way would not count, and its files would be written twice.
        await self.in_files(lambda: None)
        self.state.retire()
        try:
            while due := self.state.take_due(_FILES_AT_ONCE):
                self._files_written(due, await self.in_files(self._write_all(due)), None)
            await self.in_files(partial(self._log.remove_all, self.state.n))
        except OSError as error:
            # The log still holds the changes, and the next start reads it.
            _log.error("records were not written", extra={"reason": str(error)})

    def stop(self) -> None:
        self._log_thread.stop()
        self._file_thread.stop()
        self._pool.shutdown()
        self._log.close()


def _removed(_: None, error: BaseException | None) -> None:
    if error is not None:
        # The next start finds the record, and retention removes it once more.
        _log.error("a record was not removed", extra={"reason": str(error)})
