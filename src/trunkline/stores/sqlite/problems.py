"""What an error of SQLite says about the database file."""

import sqlite3

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

# Errors that say something of the file or the disk, whatever the statement was.
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
    """The code without what SQLite says beside it; 0 for an error of the Python module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def damaged(error: Exception) -> Problem:
    return Problem(f"is damaged: {error}", CHECK_REMEDY, is_lasting=True)


def unwritable(error: Exception) -> Problem:
    return Problem(f"cannot be written: {error}", WRITE_REMEDY)


def write_problem(error: sqlite3.Error) -> Problem | None:
    """None when the change is at fault and not the file."""
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
