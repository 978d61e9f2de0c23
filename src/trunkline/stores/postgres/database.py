"""`Database`: makes the connections of one node, and reads through a few of them."""

import asyncio
import random
from collections import deque
from functools import partial

from psycopg import conninfo

from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres.connection import (
    Connection,
    ConnectionLost,
    DatabaseError,
    Params,
    Row,
    connect,
)

# Reads that go on at the same time. More of them wait, and cost the server no process each.
READERS = 4
# The database undid the statement because of another one: a deadlock, a conflict.
UNDONE = ("40P01", "40001")
_ATTEMPTS = 5
# After a failed attempt to connect, the next one waits this long, twice as long each time.
_FIRST_WAIT_S = 0.1
_MAX_WAIT_S = 2.0

REMEDY = (
    "Look whether the database runs and can be reached; the gateway continues by itself once it "
    "answers."
)


def display_name(url: str) -> str:
    """The database in messages and logs: host, port and name, never the password."""
    settings = conninfo.conninfo_to_dict(url)
    host, port, name = (settings.get(key) for key in ("host", "port", "dbname"))
    place = f"{host or 'local'}{f':{port}' if port else ''}"
    return f"postgresql://{place}/{name or ''}"


class Database:
    def __init__(self, url: str, *, prepares: bool = True, readers: int = READERS) -> None:
        """`prepares`: whether statements may be prepared, as they may not behind some poolers."""
        self.url = url
        self.name = display_name(url)
        self._prepares = prepares
        self._max_readers = readers
        self._idle: list[Connection] = []
        self._readers: set[Connection] = set()
        self._opening = 0
        # Reads that wait for a connection.
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._wait_s = 0.0
        self._next_attempt = 0.0
        # One node at a time knocks while the database is away: many would keep it from coming up.
        self._is_trying = False

    async def connect(self, role: str) -> Connection:
        """A new connection. Raises ConnectionLost, at once where an attempt failed just now."""
        loop = asyncio.get_running_loop()
        if self._wait_s and (self._is_trying or loop.time() < self._next_attempt):
            raise ConnectionLost("the database could not be reached just now")
        self._is_trying = True
        try:
            connection = await connect(self.url, role, prepares=self._prepares)
        except ConnectionLost:
            self._wait_s = min(max(self._wait_s * 2, _FIRST_WAIT_S), _MAX_WAIT_S)
            self._next_attempt = loop.time() + self._wait_s * random.uniform(0.5, 1.0)
            raise
        finally:
            self._is_trying = False
        self._wait_s = 0.0
        return connection

    async def read(self, sql: str, params: Params = ()) -> list[Row]:
        """The rows that one statement finds, which changes nothing. Raises StoreUnusable."""
        try:
            try:
                return await self._read(sql, params)
            except ConnectionLost:
                # Reading twice does no harm, and most losses are of one idle connection.
                return await self._read(sql, params)
        except ConnectionLost as error:
            raise self.unreachable(error) from error
        except DatabaseError as error:
            raise self.refused(error) from error

    async def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """The rows of one statement that may change something, beside the batches of the writer.
        Raises StoreUnusable, also when it is not known whether the change was made."""
        try:
            for _ in range(_ATTEMPTS - 1):
                try:
                    return await self._read(sql, params)
                except DatabaseError as error:
                    if error.sqlstate not in UNDONE:
                        raise
            return await self._read(sql, params)
        except ConnectionLost as error:
            raise self.unreachable(error) from error
        except DatabaseError as error:
            raise self.refused(error) from error

    def unreachable(self, error: ConnectionLost) -> StoreUnusable:
        return StoreUnusable(f"The store {self.name} cannot be reached: {error}. {REMEDY}")

    def refused(self, error: DatabaseError) -> StoreUnusable:
        return StoreUnusable(f"The store {self.name} refused ({error.sqlstate}): {error}")

    async def close(self) -> None:
        self._is_closed = True
        for connection in list(self._readers):
            connection.close()

    async def _read(self, sql: str, params: Params) -> list[Row]:
        connection = await self._reader()
        answer = connection.send(sql, params)
        # A reader that hangs up leaves its statement behind, and the next one waits for that.
        answer.add_done_callback(partial(self._release, connection))
        return connection.rows(await asyncio.shield(answer))

    async def _reader(self) -> Connection:
        while not self._idle:
            if self._is_closed:
                raise ConnectionLost("the store is closed")
            if len(self._readers) + self._opening < self._max_readers:
                self._opening += 1
                try:
                    connection = await self.connect("read")
                finally:
                    self._opening -= 1
                    self._wake_next()
                connection.on_closed = partial(self._forget, connection)
                self._readers.add(connection)
                return connection
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # The connection that this read was woken for is for the next one.
                if turn.done() and not turn.cancelled():
                    self._wake_next()
                raise
        return self._idle.pop()

    def _release(self, connection: Connection, _: object) -> None:
        if connection.closed is None:
            self._idle.append(connection)
        self._wake_next()

    def _forget(self, connection: Connection) -> None:
        self._readers.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
