"""Stores of task handles: in memory, or in a file that several processes may share."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.remote.tool.handles import (
    FORGET_AFTER_MS,
    HandleRecord,
    Handles,
    is_forgotten,
)

T = TypeVar("T")

_KEY_BYTES: Final = 32
# Another process may be writing; its write takes a few milliseconds.
_BUSY_TIMEOUT_S: Final = 10.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HandleRecord).decode

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS handles (
    handle TEXT PRIMARY KEY,
    last_accessed_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    record BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS handles_by_use ON handles (last_accessed_at_ms);
CREATE TABLE IF NOT EXISTS signing_key (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    key BLOB NOT NULL
);
"""


def open_handles(path: Path | None, *, durable: bool) -> Handles:
    """A store at `path`, unless the setting asks for handles that end with the process."""
    return FileHandles(path) if durable and path is not None else MemoryHandles()


class MemoryHandles:
    is_durable = False

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._key = random_bytes(_KEY_BYTES)
        # In order of use, the latest last.
        self._records: dict[str, HandleRecord] = {}

    async def get(self, handle: str) -> HandleRecord | None:
        return self._records.get(handle)

    async def put(self, record: HandleRecord, *, now_ms: int, room: int) -> None:
        self._records.pop(record.handle, None)
        self._records[record.handle] = record
        for old in [each for each in self._records.values() if is_forgotten(each, now_ms)]:
            del self._records[old.handle]
        while len(self._records) > room:
            del self._records[next(iter(self._records))]

    async def signing_key(self) -> bytes:
        return self._key

    async def close(self) -> None:
        self._records.clear()


class FileHandles:
    """One SQLite file. Each change is one durable transaction, made off the event loop."""

    is_durable = True

    def __init__(self, path: Path, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._path = path
        self._random_bytes = random_bytes
        self._key = b""

    async def get(self, handle: str) -> HandleRecord | None:
        return await self._off_the_loop(lambda: self._get(handle))

    async def put(self, record: HandleRecord, *, now_ms: int, room: int) -> None:
        await self._off_the_loop(lambda: self._put(record, now_ms, room))

    async def signing_key(self) -> bytes:
        if not self._key:
            self._key = await self._off_the_loop(self._read_key)
        return self._key

    async def close(self) -> None:
        """Nothing is held open between two calls."""

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            raise StoreUnusable(f"task handles at {self._path}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        # The file holds the key that signs continuations, so no other user may read it.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _get(self, handle: str) -> HandleRecord | None:
        with closing(self._connect()) as connection:
            query = "SELECT record FROM handles WHERE handle = ?"
            row = connection.execute(query, (handle,)).fetchone()
        return None if row is None else _decode(row[0])

    def _put(self, record: HandleRecord, now_ms: int, room: int) -> None:
        row = (record.handle, record.last_accessed_at_ms, record.expires_at_ms, _encode(record))
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR REPLACE INTO handles VALUES (?, ?, ?, ?)", row)
            forgotten = now_ms - FORGET_AFTER_MS
            connection.execute("DELETE FROM handles WHERE expires_at_ms <= ?", (forgotten,))
            connection.execute(
                "DELETE FROM handles WHERE handle IN (SELECT handle FROM handles"
                " WHERE handle <> ? ORDER BY last_accessed_at_ms DESC LIMIT -1 OFFSET ?)",
                (record.handle, room - 1),
            )
            connection.execute("COMMIT")

    def _read_key(self) -> bytes:
        fresh = self._random_bytes(_KEY_BYTES)
        with closing(self._connect()) as connection:
            # The first process stores its key; all others use that one.
            connection.execute("INSERT OR IGNORE INTO signing_key VALUES (1, ?)", (fresh,))
            row = connection.execute("SELECT key FROM signing_key").fetchone()
        return bytes(row[0])
