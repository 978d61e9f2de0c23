"""What exists between open and close: the connections, and a thread for each use of the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from trunkline.stores.commits import CommitThread
from trunkline.stores.sqlite.connections import Synchronous, connect_reader, connect_writer
from trunkline.stores.sqlite.reads import Reader
from trunkline.stores.sqlite.schema import Schema
from trunkline.stores.sqlite.watch import FileWatch
from trunkline.stores.sqlite.writer import Writer

T = TypeVar("T")


class Opened:
    def __init__(
        self, path: Path, schema: Schema, synchronous: Synchronous, *, look_every_s: float
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.writer = Writer(connect_writer(path, schema, synchronous))
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
        """Commit a page that says what it said before. Raises sqlite3.Error."""
        db = self.writer.connection
        (version,) = db.execute("PRAGMA user_version").fetchone()
        self.in_transaction(lambda: db.execute(f"PRAGMA user_version = {version}"))

    def finish(self, *, is_lost: bool) -> None:
        """Leave one tidy file. The last connection writes the log back and removes it, which
        only a connection that writes can do, so files that are lost stay as they are."""
        self.watch.close()
        if is_lost:
            self.writer.connection.close()
        self.readers.submit(self.slow_reader.close).result()
        self.reader.close()
        self.writer.connection.close()
