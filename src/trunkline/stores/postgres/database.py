"""`Database`: makes the connections of one node, and reads through a few of them."""

import asyncio
import random
from functools import partial

from psycopg import conninfo

from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres.connection import (
    STATEMENT_S,
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
# A read is repeated after a loss within this time; later the caller has waited long enough.
_REPEAT_WITHIN_S = 1.0

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
        # Reads that wait for a connection, in their order. A turn without one is for a read that
        # may try to open another.
        self._waiting: dict[asyncio.Future[Connection | None], None] = {}
        self._is_closed = False
        self._wait_s = 0.0
        self._next_attempt = 0.0
        # One node at a time knocks while the database is away: many would keep it from coming up.
        self._is_trying = False

    async def connect(self, role: str, *, statement_s: float = STATEMENT_S) -> Connection:
        """A new connection. Raises ConnectionLost, at once where an attempt failed just now."""
        loop = asyncio.get_running_loop()
        if self._wait_s and (self._is_trying or loop.time() < self._next_attempt):
            raise ConnectionLost("the database could not be reached just now")
        self._is_trying = True
        try:
            connection = await connect(
                self.url, role, prepares=self._prepares, statement_s=statement_s
            )
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
        began = asyncio.get_running_loop().time()
        try:
            try:
                return await self._read(sql, params)
            except ConnectionLost:
                if asyncio.get_running_loop().time() - began > _REPEAT_WITHIN_S:
                    raise
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
        """Readers that still wait are refused."""
        self._is_closed = True
        for connection in list(self._readers):
            connection.close("the store is closed")
        while self._waiting:
            self._wake_next(None)

    async def _read(self, sql: str, params: Params) -> list[Row]:
        connection = await self._reader()
        # A reader that hangs up leaves its statement behind; the connection is free after it.
        return connection.rows(await connection.send(sql, params))

    async def _reader(self) -> Connection:
        while not self._is_closed:
            if self._idle:
                return self._idle.pop()
            connection = None
            if len(self._readers) + self._opening < self._max_readers:
                connection = await self._open_reader()
            if connection is None:
                connection = await self._turn()
            # It may have been lost before this reader came to its turn.
            if connection is not None and connection.closed is None:
                return connection
        raise ConnectionLost("the store is closed")

    async def _open_reader(self) -> Connection | None:
        """None where the database takes no more connections, but there are others to wait for."""
        self._opening += 1
        connection = None
        try:
            connection = await self.connect("read")
        except ConnectionLost:
            if not self._readers:
                raise
        finally:
            self._opening -= 1
            if connection is None:
                # Another one may try, or has to know that this failed.
                self._wake_next(None)
        if connection is not None:
            if self._is_closed:
                connection.close()
                return None
            connection.on_closed = partial(self._forget, connection)
            connection.on_idle = partial(self._release, connection)
            self._readers.add(connection)
        return connection

    async def _turn(self) -> Connection | None:
        """Wait for a free connection. None when there may be one to open instead."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting[turn] = None
        timer = loop.call_later(STATEMENT_S, self._waited_too_long, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The connection that it was woken for is for the next one.
                self._give(turn.result())
            raise
        finally:
            timer.cancel()
            self._waiting.pop(turn, None)

    def _waited_too_long(self, turn: "asyncio.Future[Connection | None]") -> None:
        if not turn.done():
            turn.set_exception(ConnectionLost(f"no connection became free for {STATEMENT_S:g} s"))

    def _release(self, connection: Connection) -> None:
        if not self._wake_next(connection):
            self._idle.append(connection)

    def _give(self, connection: Connection | None) -> None:
        if connection is not None and connection.closed is None:
            self._release(connection)
        else:
            self._wake_next(None)

    def _forget(self, connection: Connection) -> None:
        self._readers.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake_next(None)

    def _wake_next(self, connection: Connection | None) -> bool:
        """Whether a reader waited."""
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(connection)
                return True
        return False
