"""`Connection`: one connection to PostgreSQL, driven by the event loop.

psycopg makes the connection; statements then go through its interface to libpq, prepared and in
binary form. That takes a third of the CPU of psycopg's cursors, and no thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg import conninfo, pq
from psycopg.adapt import Transformer

# What a statement takes: values in binary form, as `packing` makes them. None is NULL.
Params: TypeAlias = Sequence[bytes | None]
Row: TypeAlias = tuple[Any, ...]

# A server or a network that does not answer is given up after this time, unless the connection has
# its own.
STATEMENT_S = 10.0
# A statement that takes longer than this is late: the database may hang.
LATE_S = 0.7
# For each host of the URL, and for all of them together with their names.
CONNECT_S = 5.0
ALL_HOSTS_S = 20.0

# Each statement of a function has to see what the locks of the one before it waited for.
ISOLATION = "read committed"
# How PostgreSQL plans prepared statements. All of them find their rows by an index, at any size.
PLANNING = (
    # One plan for all values, from the first time on: to plan takes longer than to run.
    "plan_cache_mode=force_generic_plan",
    # A plan that was made while tables were small would read them from end to end until PostgreSQL
    # plans anew: those of the next month at midnight, for one.
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    # Compiling takes longer than any of these statements.
    "jit=off",
)

_BINARY = 1
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
# What a server says before it closes the connection.
_CLOSING = ("08", "57P")
# Prepared statements do not fit the tables any more, after a migration, or are gone.
OUTDATED = ("0A000", "26000")


class ConnectionLost(Exception):
    """The connection cannot be made, or broke. What it was asked to do is done or not."""


class DatabaseError(Exception):
    """The database refused a statement, and undid all of it."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


async def connect(
    url: str, role: str, *, prepares: bool = True, statement_s: float = STATEMENT_S
) -> "Connection":
    """`role` says what the connection is for, in the server's list of connections. Raises
    ConnectionLost."""
    settings: dict[str, Any] = {
        "connect_timeout": str(int(CONNECT_S)),
        # Dead machines and networks are noticed also while nothing is asked.
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "3",
        "tcp_user_timeout": "10000",
        # After a failover the old server may still answer, as a standby.
        "target_session_attrs": "read-write",
    }
    settings |= conninfo.conninfo_to_dict(url)
    settings["application_name"] = f"trunkline {role}"
    if prepares:
        # A pooler refuses these, and unprepared statements are planned each time anyway.
        chosen = (*PLANNING, "default_transaction_isolation=" + ISOLATION.replace(" ", r"\ "))
        options = [settings.get("options", ""), *[f"-c {setting}" for setting in chosen]]
        settings["options"] = " ".join(options).strip()
    try:
        async with asyncio.timeout(ALL_HOSTS_S):
            made = await psycopg.AsyncConnection.connect(autocommit=True, **settings)
    except (psycopg.Error, OSError) as error:
        raise ConnectionLost(_one_line(error)) from error
    return Connection(made, prepares=prepares, statement_s=statement_s)


class Connection:
    """Answers one statement after the other, in the order in which they were sent."""

    def __init__(
        self, made: psycopg.AsyncConnection[Any], *, prepares: bool, statement_s: float
    ) -> None:
        # Keeps the connection alive.
        self._made = made
        self._pgconn = made.pgconn
        self._pgconn.nonblocking = 1
        self._loop = asyncio.get_running_loop()
        self._fd = self._pgconn.socket
        self._prepares = prepares
        self._statement_s = statement_s
        self._prepared: dict[str, bytes] = {}
        self._transformer = Transformer(made)
        # Statements to be sent after the one under way.
        self._queue: deque[tuple[str, Params, asyncio.Future[pq.abc.PGresult]]] = deque()
        self._answer: asyncio.Future[pq.abc.PGresult] | None = None
        self._result: pq.abc.PGresult | None = None
        # What follows once the statement under way was prepared.
        self._to_run: tuple[bytes, Params] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_writing = False
        # Why the connection is closed; None while it is open.
        self.closed: str | None = None
        self.on_closed: Callable[[], None] = _nothing
        # Called when all statements are answered.
        self.on_idle: Callable[[], None] = _nothing
        # Called when the answer to a statement is late.
        self.on_late: Callable[[], None] = _nothing
        # Gets channel and payload of each notification.
        self.on_notify: Callable[[str, str], None] = lambda _channel, _payload: None
        self._loop.add_reader(self._fd, self._readable)

    @property
    def is_busy(self) -> bool:
        return self._answer is not None

    async def run(self, sql: str, params: Params = ()) -> list[Row]:
        """The rows of the answer. Raises ConnectionLost and DatabaseError."""
        return self.rows(await self.send(sql, params))

    def rows(self, result: pq.abc.PGresult) -> list[Row]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def send(self, sql: str, params: Params = ()) -> "asyncio.Future[pq.abc.PGresult]":
        """Send a statement. It is carried out also when the caller does not wait for its answer."""
        answer: asyncio.Future[pq.abc.PGresult] = self._loop.create_future()
        if self.closed is not None:
            answer.set_exception(ConnectionLost(self.closed))
        elif self._answer is None:
            self._start(sql, params, answer)
        else:
            self._queue.append((sql, params, answer))
        return answer

    def close(self, reason: str = "the connection was closed") -> None:
        """Close at once, whatever is under way."""
        if self.closed is not None:
            return
        self.closed = reason
        self._loop.remove_reader(self._fd)
        self._end_writing()
        self._end_deadline()
        # Sends a farewell if that is possible without waiting.
        self._pgconn.finish()
        waiting = [answer for _, _, answer in self._queue]
        self._queue.clear()
        if self._answer is not None:
            waiting.insert(0, self._answer)
            self._answer = None
        for answer in waiting:
            if not answer.done():
                answer.set_exception(ConnectionLost(reason))
        self.on_closed()

    def _start(self, sql: str, params: Params, answer: "asyncio.Future[pq.abc.PGresult]") -> None:
        self._answer = answer
        self._deadline = self._loop.call_later(min(LATE_S, self._statement_s), self._late)
        try:
            if not self._prepares:
                formats = [_BINARY] * len(params)
                self._pgconn.send_query_params(
                    sql.encode(), params, param_formats=formats, result_format=_BINARY
                )
            elif (name := self._prepared.get(sql)) is not None:
                self._send_prepared(name, params)
            else:
                name = self._prepared[sql] = b"s%d" % len(self._prepared)
                self._to_run = (name, params)
                self._pgconn.send_prepare(name, sql.encode())
            self._flush()
        except psycopg.Error as error:
            self.close(_one_line(error))

    def _send_prepared(self, name: bytes, params: Params) -> None:
        self._pgconn.send_query_prepared(
            name, params, param_formats=[_BINARY] * len(params), result_format=_BINARY
        )

    def _flush(self) -> None:
        if self._pgconn.flush():
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._fd, self._writable)
        else:
            self._end_writing()

    def _writable(self) -> None:
        # The server may have to be read before it reads on. This writes as well, and may find the
        # whole answer already.
        self._readable()
        try:
            if self._is_writing:
                self._flush()
        except psycopg.Error as error:
            self.close(_one_line(error))

    def _end_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._fd)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        left_s = self._statement_s - LATE_S
        if left_s <= 0:
            self._too_late()
            return
        self._deadline = self._loop.call_later(left_s, self._too_late)
        self.on_late()

    def _too_late(self) -> None:
        self._deadline = None
        self.close(f"the database did not answer for {self._statement_s:g} s")

    def _readable(self) -> None:
        pgconn = self._pgconn
        try:
            pgconn.consume_input()
            while self._answer is not None and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    self._answered()
                else:
                    self._result = result
            while (notice := pgconn.notifies()) is not None:
                self.on_notify(notice.relname.decode(), notice.extra.decode())
        except psycopg.Error as error:
            self.close(_one_line(error))

    def _answered(self) -> None:
        """The statement under way has ended."""
        result, answer, to_run = self._result, self._answer, self._to_run
        assert result is not None
        assert answer is not None
        self._result = self._to_run = None
        is_done = result.status in _DONE
        if to_run is not None and is_done:
            self._send_prepared(*to_run)
            self._flush()
            return
        self._answer = None
        self._end_deadline()
        if is_done:
            if not answer.done():
                answer.set_result(result)
        else:
            self._failed(result, answer)
            if to_run is not None:
                self._prepared = {k: v for k, v in self._prepared.items() if v != to_run[0]}
        if self.closed is not None:
            return
        if self._queue:
            self._start(*self._queue.popleft())
        else:
            self.on_idle()

    def _failed(self, result: pq.abc.PGresult, answer: "asyncio.Future[pq.abc.PGresult]") -> None:
        message = result.get_error_message()
        sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if not sqlstate or sqlstate.startswith(_CLOSING):
            self._answer = answer
            self.close(message)
            return
        if not answer.done():
            answer.set_exception(DatabaseError(sqlstate, message))
        if sqlstate in OUTDATED and self._prepares:
            # The next connection prepares them anew.
            self.close("its prepared statements are out of date")


def _nothing() -> None:
    pass


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
