"""`inspect`: whether a database file is sound, before the gateway writes to it.

Of a file that has not changed since a gateway closed it, the check reads the header, the tables
and their ends. It reads any other file completely: after a crash, or a change by another program.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from trunkline.model.errors import StoreUnusable
from trunkline.stores.sqlite.connections import cannot_open, connect_reader
from trunkline.stores.sqlite.schema import Schema, check_version

_log = logging.getLogger("trunkline.store")

# `PRAGMA quick_check` reads about 1 GB per second from memory, and a tenth of that from a
# slow disk. A start must not take minutes, so larger files are left to `trunkline db check`.
READ_THROUGH_BYTES = 1 << 30

# In the lock file while a process has the store open.
OPEN = "open"

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_CHUNK_BYTES = 1 << 20
_REMEDY = "Look at it with `trunkline db check`, and restore a backup."
_LOG_REMEDY = "If it was restored just now, delete {name}-wal, which belongs to the file before."


def closed_mark(path: Path) -> str:
    """The mark in the lock file of a closed store; empty when its log is still there."""
    return "" if log_bytes(path) is not None else _mark_of(path.stat())


def _mark_of(found: os.stat_result) -> str:
    return f"closed {found.st_size} {found.st_mtime_ns}"


def log_bytes(path: Path) -> int | None:
    """The size of the write-ahead log; None without one."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return None


def inspect(path: Path, schema: Schema, mark: str, *, existed: bool) -> None:
    """Raises StoreUnusable when the file is damaged, foreign or of a newer release.

    `mark` is that of the last process in the lock file.
    """
    found = path.stat()
    size = found.st_size
    if size == 0:
        if mark == OPEN or (mark and existed):
            raise StoreUnusable(
                f"The store {path} is empty or gone, and there were tasks in it. Restore a backup, "
                f"or delete {path}.lock to begin with an empty store."
            )
        return
    has_log = bool(log_bytes(path))
    if mark == OPEN and log_bytes(path) is None:
        _log.warning(
            "the log of the last process is gone",
            extra={
                "store": str(path),
                "remedy": f"What was stored last may be missing. Put {path.name}-wal back if you "
                "have it and no other program has written it to the database.",
            },
        )
    is_as_left = not has_log and mark == _mark_of(found)
    try:
        if not has_log:
            # With a log, the file alone may be inconsistent: a crash may have cut off a write
            # that the log repeats.
            check_header(path, size)
        with closing(connect_reader(path)) as connection:
            version = check_version(connection, schema, str(path))
            if version == schema.version:
                _check_tables(connection, schema, path)
            _read_ends(connection)
            if is_as_left:
                return
            if size <= READ_THROUGH_BYTES:
                read_through(connection, path)
            else:
                _log.warning(
                    "the store was not read through",
                    extra={
                        "store": str(path),
                        "remedy": "It was not closed properly or was changed since, and is too "
                        "large to be checked now. Run `trunkline db check` when you can.",
                    },
                )
    except sqlite3.Error as error:
        if "not a database" in str(error):
            raise cannot_open(path, error) from error
        raise damaged(path, str(error)) from error


def damaged(path: Path, what: str) -> StoreUnusable:
    remedy = f"{_REMEDY} {_LOG_REMEDY.format(name=path.name)}" if log_bytes(path) else _REMEDY
    return StoreUnusable(f"The store {path} is damaged: {what}. {remedy}")


def check_header(path: Path, size: int) -> None:
    """Only for a file without a log. Raises StoreUnusable."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(_MAGIC):
        raise StoreUnusable(
            f"{path} is not a SQLite database, or is damaged. Restore a backup, "
            "or give the store another file."
        )
    page_bytes = page_size(header)
    pages = int.from_bytes(header[28:32])
    if size < pages * page_bytes:
        raise damaged(path, f"it has {size} bytes where {pages * page_bytes} should be")


def page_size(header: bytes) -> int:
    # 1 stands for 65536, which does not fit.
    size = int.from_bytes(header[16:18])
    return 65536 if size == 1 else size


def _check_tables(connection: sqlite3.Connection, schema: Schema, path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(schema.latest)
        missing = sorted(_names(fresh) - _names(connection))
    if missing:
        raise damaged(path, f"it lacks {', '.join(missing)}")


def _names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}


def _read_ends(connection: sqlite3.Connection) -> None:
    """The first and the last row of every table. Raises sqlite3.Error."""
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    for name, sql in tables.fetchall():
        connection.execute(f'SELECT * FROM "{name}" LIMIT 1').fetchall()
        if "WITHOUT ROWID" not in sql:
            connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid DESC LIMIT 1').fetchall()


def read_through(connection: sqlite3.Connection, path: Path) -> None:
    """Check every page, but not the contents of the rows. Raises StoreUnusable."""
    ((found,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise damaged(path, found.replace("\n", " "))
    if not log_bytes(path):
        for page in zero_pages(path):
            raise damaged(path, f"page {page} is empty")


def zero_pages(path: Path) -> Iterator[int]:
    """Pages in use that are all zeros: SQLite does not look into long values. Only for a file
    without a log."""
    free: set[int] | None = None
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = page_size(header)
        zeros = bytes(size)
        file.seek(0)
        number = 0
        while chunk := file.read(_CHUNK_BYTES):
            for start in range(0, len(chunk), size):
                number += 1
                if chunk[start] == 0 and chunk[start : start + size] == zeros:
                    free = _free_pages(path, header) if free is None else free
                    if number not in free:
                        yield number


def _free_pages(path: Path, header: bytes) -> set[int]:
    """Pages that were freed, which may never have been written."""
    size, trunk = page_size(header), int.from_bytes(header[32:36])
    free: set[int] = set()
    with path.open("rb") as file:
        while trunk and trunk not in free:
            free.add(trunk)
            file.seek((trunk - 1) * size)
            page = file.read(size)
            count = min(int.from_bytes(page[4:8]), size // 4 - 2)
            free.update(int.from_bytes(page[8 + 4 * n : 12 + 4 * n]) for n in range(count))
            trunk = int.from_bytes(page[:4])
    return free
