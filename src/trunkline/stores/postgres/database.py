"""`Database`: makes the connections of one node, and reads through a few of them."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from trunkline.background import BackgroundTasks
from trunkline.config.urls import postgres_place
from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres.connection import (
    LATE_S,
    OUTDATED,
    STATEMENT_S,
    Connection,
    ConnectionLost,
    DatabaseError,
    Params,
    Row,
    connect,
)
from trunkline.stores.postgres.silence import Silence

# Reads that go on at the same time. More of them wait, and cost the server no process each.
READERS = 4
# The database undid the statement, which may be repeated: a deadlock, a conflict, an old plan.
UNDONE = ("40P01", "40001", *OUTDATED)
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


_PROBE = "probe"
_ASK = "SELECT 1"
_SILENT = "the database does not answer"


class Database:
    def __init__(
        self,
        url: str,
        *,
        prepares: bool = True,
        readers: int = READERS,
        read_s: float = STATEMENT_S,
        on_late: Callable[[], None] | None = None,
    ) -> None:
        """`prepares`: whether statements may be prepared, as they may not behind some poolers.
        `read_s`: how long a read waits for a connection, and then for its answer. `on_late` is
        called when an answer is late, in place of finding out whether the database is silent."""
        self.url = url
        self.name = postgres_place(url)
        self._prepares = prepares
        self._max_readers = readers
        self._read_s = read_s
        self._idle: list[Connection] = []
        self._readers: set[Connection] = set()
        self._opening = 0
        self._tasks = BackgroundTasks("database")
        # Reads that wait for a connection, in their order.
        self._waiting: dict[asyncio.Future[Connection], None] = {}
        self._is_closed = False
        # How often the database was reached again after an attempt had failed.
        self.reconnects = 0
        # Why the last attempt failed, how long to wait after it, and until when.
        self._last_failure = ""
        self._wait_s = 0.0
        self._next_attempt = 0.0
        # One node at a time knocks while the database is away: many would keep it from coming up.
        self._is_trying = False
        # Called when the database does not answer any more.
        self.on_silence: Callable[[], None] = _nothing
        self._silence = Silence(self._ask, self._fell_silent)
        self._on_late = on_late or self._silence.suspect

    @property
    def waiting(self) -> int:
        """How many reads wait for a connection."""
        return len(self._waiting)

    async def connect(self, role: str, *, statement_s: float = STATEMENT_S) -> Connection:
        """A new connection. Raises ConnectionLost, at once where an attempt failed just now."""
        loop = asyncio.get_running_loop()
        if self._silence.is_silent and role != _PROBE:
            raise ConnectionLost(_SILENT)
        if self._wait_s and (self._is_trying or loop.time() < self._next_attempt):
            raise ConnectionLost(
                f"the database could not be reached just now: {self._last_failure}"
            )
        self._is_trying = True
        late = loop.call_later(LATE_S, self._on_late)
        try:
            connection = await connect(
                self.url, role, prepares=self._prepares, statement_s=statement_s
            )
        except ConnectionLost as error:
            self._last_failure = str(error)
            self._wait_s = min(max(self._wait_s * 2, _FIRST_WAIT_S), _MAX_WAIT_S)
            self._next_attempt = loop.time() + self._wait_s * random.uniform(0.5, 1.0)
            raise
        finally:
            self._is_trying = False
            late.cancel()
        if self._wait_s:
            self.reconnects += 1
            self._wait_s = 0.0
        connection.on_late = self._on_late
        return connection

    def suspect(self) -> None:
        """Find out whether the database answers, because it was late somewhere else."""
        self._silence.suspect()

    async def _ask(self) -> None:
        """Get any answer, over a connection that is free. Raises ConnectionLost."""
        if self._idle:
            await self._read(_ASK, ())
            return
        connection = await self.connect(_PROBE)
        try:
            await connection.run(_ASK)
        finally:
            connection.close()

    def _fell_silent(self) -> None:
        """Nobody waits for what may never be answered."""
        self._refuse_waiting(ConnectionLost(_SILENT))
        for connection in list(self._readers):
            connection.close(_SILENT)
        self.on_silence()

    async def read(self, sql: str, params: Params = ()) -> list[Row]:
        """The rows that one statement finds, which changes nothing. Raises StoreUnusable."""
        began = asyncio.get_running_loop().time()
        try:
            try:
                return await self._read(sql, params)
            except (ConnectionLost, DatabaseError) as error:
                if isinstance(error, DatabaseError) and error.sqlstate not in UNDONE:
                    raise
                if asyncio.get_running_loop().time() - began > _REPEAT_WITHIN_S:
                    raise
                # Reading twice does no harm. The idle connections broke as well, most likely.
                for connection in list(self._idle):
                    connection.close("another connection broke")
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
        reason = str(error).rstrip(".")
        return StoreUnusable(f"The store {self.name} cannot be reached: {reason}. {REMEDY}")

    def refused(self, error: DatabaseError) -> StoreUnusable:
        return StoreUnusable(f"The store {self.name} refused ({error.sqlstate}): {error}")

    async def close(self) -> None:
        """Reads that still wait are refused."""
        self._is_closed = True
        for connection in list(self._readers):
            connection.close("the store is closed")
        self._refuse_waiting(ConnectionLost("the store is closed"))
        await self._silence.close()
        await self._tasks.close()

    async def _read(self, sql: str, params: Params) -> list[Row]:
        connection = self._idle.pop() if self._idle else await self._turn()
        # A reader that hangs up leaves its statement behind; the connection is free after it.
        return connection.rows(await connection.send(sql, params))

    async def _turn(self) -> Connection:
        """Wait for a free connection. Raises ConnectionLost."""
        if self._is_closed:
            raise ConnectionLost("the store is closed")
        if self._silence.is_silent:
            raise ConnectionLost(_SILENT)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection] = loop.create_future()
        self._waiting[turn] = None
        self._open_more()
        too_late = ConnectionLost(f"no connection became free for {self._read_s:g} s")
        timer = loop.call_later(self._read_s, _refuse, turn, too_late)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The connection that it was woken for is for the next one.
                self._release(turn.result())
            raise
        finally:
            timer.cancel()
            self._waiting.pop(turn, None)

    def _open_more(self) -> None:
        """Open one more connection, if there are reads for it."""
        count = len(self._readers) + self._opening
        if count < self._max_readers and self._opening < len(self._waiting):
            self._opening += 1
            # Not by the read that wants it: a connection whose reader hangs up while it is made
            # would stay open until its objects are collected.
            self._tasks.spawn(self._open_reader(), name="open a connection")

    async def _open_reader(self) -> None:
        try:
            connection = await self.connect("read", statement_s=self._read_s)
        except ConnectionLost as error:
            self._opening -= 1
            # Where the database takes no more connections, reads wait for those that there are.
            if not self._readers and not self._opening:
                self._refuse_waiting(error)
            return
        self._opening -= 1
        if self._is_closed:
            connection.close()
            return
        connection.on_closed = partial(self._forget, connection)
        connection.on_idle = partial(self._release, connection)
        self._readers.add(connection)
        self._release(connection)

    def _release(self, connection: Connection) -> None:
        """Give the connection to the read that waits the longest."""
        if connection.closed is not None:
            return
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(connection)
                return
        self._idle.append(connection)

    def _forget(self, connection: Connection) -> None:
        self._readers.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._is_closed:
            self._open_more()

    def _refuse_waiting(self, reason: ConnectionLost) -> None:
        for turn in self._waiting:
            _refuse(turn, reason)


def _nothing() -> None:
    pass


def _refuse(turn: "asyncio.Future[Connection]", reason: ConnectionLost) -> None:
    if not turn.done():
        turn.set_exception(reason)


class LastingConnection:
    """One connection for statements that may be repeated, made again when it broke."""

    def __init__(self, database: Database, role: str, *, statement_s: float = STATEMENT_S) -> None:
        self._database = database
        self._role = role
        self._statement_s = statement_s
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def run(self, sql: str, params: Params = (), *, again: Params = ()) -> list[Row]:
        """Raises StoreUnusable, after a second attempt, which goes with the parameters `again` if
        there are any."""
        try:
            try:
                return await self._run(sql, params)
            except ConnectionLost:
                return await self._run(sql, again or params)
            except DatabaseError as error:
                if error.sqlstate not in UNDONE:
                    raise
                return await self._run(sql, params)
        except ConnectionLost as error:
            raise self._database.unreachable(error) from error
        except DatabaseError as error:
            raise self._database.refused(error) from error

    async def _run(self, sql: str, params: Params) -> list[Row]:
        async with self._connecting:
            if self._connection is None or self._connection.closed is not None:
                self._connection = await self._database.connect(
                    self._role, statement_s=self._statement_s
                )
        return await self._connection.run(sql, params)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
