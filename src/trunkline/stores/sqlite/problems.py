"""Problems of a database file: from errors of SQLite, and from looks of `FileWatch` at the file.

SQLite keeps writing to a file that was deleted or replaced, and loses everything when the
process ends. So the store looks before a commit, but not before every one: a look costs 7 µs
of a commit, and one at the log 15 µs, because on Linux a write that follows a look must give
the file a new time.
"""

import os
import sqlite3
from pathlib import Path

from trunkline.stores.health import CHECK_REMEDY, FULL_REMEDY, WRITE_REMEDY, Problem

RESTART = (
    "Nothing was acknowledged since this was noticed. Put the original back, or restore a backup "
    "and delete the file that ends in -wal, then restart the gateway."
)
GONE = Problem("was deleted or moved away while the gateway ran", RESTART, is_lasting=True)
REPLACED = Problem("was replaced by another file while the gateway ran", RESTART, is_lasting=True)
CUT_OFF = Problem("was cut short while the gateway ran", RESTART, is_lasting=True)
_LOG = "has lost its write-ahead log (the file that ends in -wal) while the gateway ran"
LOG_GONE = Problem(_LOG, RESTART, is_lasting=True)
LOG_SAVED = Problem(
    _LOG,
    "All that was acknowledged is in the database, and nothing was since. Restart the gateway.",
    is_lasting=True,
)
BAD_ROW = Problem("is damaged: a row makes no sense", CHECK_REMEDY, is_lasting=True)

_FULL = Problem("cannot be written: the disk is full", FULL_REMEDY)

# Errors of the file or the disk, independent of the statement.
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NOT_WRITABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for an error of the Python module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def damaged(error: Exception) -> Problem:
    return Problem(f"is damaged: {error}", CHECK_REMEDY, is_lasting=True)


def unwritable(error: Exception) -> Problem:
    return Problem(f"cannot be written: {error}", WRITE_REMEDY)


def write_problem(error: sqlite3.Error) -> Problem | None:
    """None when the fault is in the change, not in the file."""
    code = primary_code(error)
    if code in _DAMAGED:
        return damaged(error)
    if code == sqlite3.SQLITE_FULL:
        return _FULL
    return unwritable(error) if code in _NOT_WRITABLE else None


def read_problem(error: sqlite3.Error) -> Problem | None:
    """None when another attempt may succeed."""
    code = primary_code(error)
    if code in _DAMAGED:
        return damaged(error)
    if code == sqlite3.SQLITE_IOERR and error.sqlite_errorcode != sqlite3.SQLITE_IOERR_NOMEM:
        return Problem(f"cannot be read: {error}", CHECK_REMEDY, is_lasting=True)
    return None


# The least time between two looks at the log is this many times longer.
_LOG_FACTOR = 25


class FileWatch:
    """Whether the database file and its log are still those that were opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, every_s: float) -> None:
        """`connection` is asked when a file got shorter, which SQLite itself may have done.
        `every_s` is the least time between two looks."""
        self._every_s = every_s
        # When it is time for the next look, by the clock of the event loop.
        self.next_look = self._next_log_look = 0.0
        self._file = str(path.absolute())
        self._log = f"{self._file}-wal"
        self._db = connection
        found = os.stat(self._file)
        self._file_dev, self._file_ino = found.st_dev, found.st_ino
        self._file_size = found.st_size
        # SQLite takes no locks on this file; those on the database would be lost when a
        # second descriptor of it is closed.
        self._log_fd = os.open(self._log, os.O_RDONLY)
        self._log_size = 0

    def close(self) -> None:
        os.close(self._log_fd)

    def problem_before_commit(self, now: float) -> Problem | None:
        """Looks before the commit: after it, a log that was cut short has its old length again,
        with a hole, and SQLite would have stored an append that the store refuses."""
        self.next_look = now + self._every_s
        problem = self._file_problem()
        if problem is not None or now < self._next_log_look:
            return problem
        self._next_log_look = now + self._every_s * _LOG_FACTOR
        return self._log_problem()

    def _file_problem(self) -> Problem | None:
        try:
            found = os.stat(self._file)
        except OSError:
            return GONE
        if found.st_ino != self._file_ino or found.st_dev != self._file_dev:
            return REPLACED
        if found.st_size != self._file_size:
            if found.st_size < self._file_size and not self._holds_all_pages(found.st_size):
                return CUT_OFF
            self._file_size = found.st_size
        return None

    def _log_problem(self) -> Problem | None:
        """Misses a cut that removed less than the writer has added since the last look."""
        log = os.fstat(self._log_fd)
        if log.st_size != self._log_size:
            if log.st_size < self._log_size and not self._writes_log_back():
                return LOG_GONE
            self._log_size = log.st_size
        return self._saved() if log.st_nlink == 0 else None

    def thorough_problem(self) -> Problem | None:
        """Looks at both, and also notices a log that has another name by now."""
        problem = self._file_problem() or self._log_problem()
        if problem is not None:
            return problem
        try:
            is_same = os.path.samestat(os.stat(self._log), os.fstat(self._log_fd))
        except OSError:
            is_same = False
        return None if is_same else self._saved()

    def _saved(self) -> Problem:
        """The log has no name any more, but SQLite still has it open."""
        return LOG_SAVED if self._writes_log_back() else LOG_GONE

    def _holds_all_pages(self, size: int) -> bool:
        # VACUUM in another program makes the file shorter as well.
        try:
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        except sqlite3.Error:
            return False
        return bool(size >= pages * page_bytes)

    def _writes_log_back(self) -> bool:
        # SQLite cuts the log to its limit when all of it is in the database. A checkpoint then
        # does nothing, and it fails when a part of the log is missing.
        try:
            is_busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        except sqlite3.Error:
            return False
        return not is_busy
