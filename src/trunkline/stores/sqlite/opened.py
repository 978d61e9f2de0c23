"""What exists between open and close: the connections, and a thread for each use of the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from trunkline.stores.commits import CommitThread
from trunkline.stores.sqlite.connections import Synchronous, connect_reader, connect_writer
from trunkline.stores.sqlite.reads import Reader
from trunkline.stores.sqlite.schema import shipped_schema
from trunkline.stores.sqlite.writer import Writer

T = TypeVar("T")


class Opened:
    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self.loop = asyncio.get_running_loop()
        self.writer = Writer(connect_writer(path, shipped_schema(), synchronous))
        self.reader = Reader(connect_reader(path))
        self.slow_reader = Reader(connect_reader(path))
        self.readers = ThreadPoolExecutor(1, thread_name_prefix="trunkline-sqlite-read")
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

    def finish(self) -> None:
        """Leave one tidy file. The last connection writes the log back and removes it."""
        self.readers.submit(self.slow_reader.close).result()
        self.reader.close()
        self.writer.connection.close()
