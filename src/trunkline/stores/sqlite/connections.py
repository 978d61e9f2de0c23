"""`Opened`: the connections and threads of an open database file, and how they are made."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar

from trunkline.model.errors import StoreUnusable
from trunkline.ports.clock import Clock
from trunkline.stores.commits import CommitThread
from trunkline.stores.health import Health
from trunkline.stores.sqlite.problems import FileWatch
from trunkline.stores.sqlite.reader import Reader
from trunkline.stores.sqlite.schema import Schema, prepare
from trunkline.stores.sqlite.writer import Writer

T = TypeVar("T")
Synchronous = Literal["full", "normal"]

# Statements are few and all are hot, so none is ever compiled twice.
_CACHED_STATEMENTS = 256


def create_file(path: Path) -> None:
    """Make the file before SQLite does, readable by its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def connect_writer(path: Path, schema: Schema, synchronous: Synchronous) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=_CACHED_STATEMENTS
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        # macOS acknowledges a plain fsync before the data is on the disk.
        connection.execute(f"PRAGMA fullfsync = {synchronous == 'full'}")
        # Freed pages are not overwritten with zeros; some builds do so by default.
        connection.execute("PRAGMA secure_delete = OFF")
        # New rows go to the end of each table, so the pages in use are few. A cache of
        # 64 MB filled with pages that were never read again.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        prepare(connection, schema, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path, *, is_immutable: bool = False) -> sqlite3.Connection:
    """`is_immutable`: no process writes to the file; SQLite then creates no files beside it."""
    options = "mode=ro&immutable=1" if is_immutable else "mode=ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
    )
    connection.execute("PRAGMA query_only = ON")
    # Room for pages that are read often. A look-up in a large store reads about four pages that
    # no other look-up needs; with a cache of 16 MB it took a quarter more CPU. SQLite takes the
    # memory only as it reads pages.
    connection.execute("PRAGMA cache_size = -65536")
    return connection


def cannot_open(path: Path, error: Exception) -> StoreUnusable:
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return StoreUnusable(
            f"{path} is not a SQLite database, or is damaged. Restore a backup, "
            "or give the store another file."
        )
    # The text of an OSError names the file a second time.
    why = error.strerror if isinstance(error, OSError) else error
    return StoreUnusable(
        f"The store {path} cannot be opened: {why}. File and folder must be writable for the user "
        "that runs the gateway."
    )


class Opened:
    def __init__(
        self,
        path: Path,
        schema: Schema,
        synchronous: Synchronous,
        *,
        look_every_s: float,
        clock: Clock,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.writer = Writer(connect_writer(path, schema, synchronous), clock)
        # One process at a time has the store, so those that made them are gone.
        self.writer.records.release_claims()
        self.reader = Reader(connect_reader(path))
        self.slow_reader = Reader(connect_reader(path), has_thread=True)
        self.readers = ThreadPoolExecutor(1, thread_name_prefix="trunkline-sqlite-read")
        self.watch = FileWatch(path, self.writer.connection, every_s=look_every_s)
        self.thread = CommitThread(self.loop, "trunkline-sqlite-commit")

    def in_transaction(self, work: Callable[[], T]) -> T:
        try:
            self.writer.connection.execute("BEGIN IMMEDIATE")
            result = work()
        except BaseException:
            self.writer.rollback()
            raise
        self.writer.commit()
        return result

    def try_write(self) -> None:
        """Commit a page without changing its contents. Raises sqlite3.Error."""
        db = self.writer.connection
        (version,) = db.execute("PRAGMA user_version").fetchone()
        self.in_transaction(lambda: db.execute(f"PRAGMA user_version = {version}"))

    def finish(self, health: Health) -> None:
        """Leave one file behind: the last connection writes the log back and removes it. Only a
        connection that writes does so; closed first, it leaves lost files as they are."""
        self.watch.close()
        if health.is_lost:
            self.writer.connection.close()
        self.readers.submit(self.slow_reader.close).result()
        self.reader.close()
        self.writer.connection.close()
