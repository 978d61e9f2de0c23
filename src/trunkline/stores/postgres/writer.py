"""`Writer`: commits one batch after the other, each exactly once, over one connection."""

import secrets
from collections.abc import Callable
from importlib.resources import files

from trunkline.ports.clock import Clock
from trunkline.ports.store import Result, Scope
from trunkline.stores.postgres.batches import StagedBatch
from trunkline.stores.postgres.connection import Connection, ConnectionLost, DatabaseError
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.packing import int8, texts
from trunkline.stores.postgres.problems import READ_ONLY, is_of_one_item, is_undone
from trunkline.stores.statements import parse_statements

SQL = parse_statements(files(__package__).joinpath("writer.sql").read_text("utf-8"))

# How long the writer waits before it tries again. `Database` itself tries less often, the longer
# the database is away.
_RETRY_S = 0.05
_MAX_SCOPES = 65536


class Writer:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        lost: Callable[[ConnectionLost], None],
        late: Callable[[], None],
        broke: Callable[[], None],
    ) -> None:
        """`lost` is called when the database cannot be reached, `late` when it does not answer
        soon, `broke` when the connection has ended."""
        self._database = database
        self._clock = clock
        self._lost = lost
        self._late = late
        self._broke = broke
        # Random, because a database that lost its last commits would give a number twice.
        self.id = secrets.randbits(62) + 1
        # The number of the last batch, and how many were answered.
        self._batch = 0
        self.committed = 0
        self._connection: Connection | None = None
        self._scopes: dict[Scope, int] = {}

    async def open(self) -> None:
        """Raises ConnectionLost and DatabaseError."""
        connection = await self._connected()
        await connection.run(SQL["add_writer"], (int8(self.id),))

    async def commit(self, batch: StagedBatch, node: int) -> tuple[list[Result], list[int]]:
        """The results of the batch, as `StagedBatch.results` gives them. Waits for a database that
        is away. Raises DatabaseError, with nothing written.

        The outcome is unknown when the connection breaks: the writer asks again, with the same
        number, until it knows.
        """
        self._batch += 1
        head: list[bytes | None] = [int8(self.id), int8(self._batch), int8(node)]
        is_sent = is_unknown = False
        while True:
            try:
                connection = self._connection or await self._connected()
                if not batch.scopes <= self._scopes.keys():
                    await self._find_scopes(connection, batch.scopes)
                params = head + batch.params(self._scopes)
                is_sent = True
                times = batch.times()
                sql = SQL["append_copies" if times else "append"]
                rows = await connection.run(sql, params + times)
            except ConnectionLost as error:
                is_unknown = is_sent
                await self._reconnect(error)
            except DatabaseError as error:
                if error.sqlstate == READ_ONLY:
                    self.close()
                elif is_unknown and not is_of_one_item(error):
                    # The connection that broke may still commit the batch.
                    await self._clock.sleep(_RETRY_S)
                elif not is_undone(error):
                    raise
            else:
                self.committed += 1
                return batch.results(rows[0])

    async def look(self, *, tries_write: bool) -> None:
        """Look whether the database answers. Raises ConnectionLost and DatabaseError."""
        connection = self._connection
        if connection is None or connection.closed is not None:
            connection = await self._connected()
        params = (int8(self.id),)
        await connection.run(SQL["try_write" if tries_write else "get_batch"], params)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        connection = self._connection = await self._database.connect("write")
        connection.on_late, connection.on_closed = self._late, self._broke
        # A database that lost its last commits may give their numbers to others.
        self._scopes.clear()
        return connection

    async def _reconnect(self, error: ConnectionLost) -> None:
        self.close()
        while True:
            try:
                await self._connected()
            except ConnectionLost:
                self._lost(error)
                await self._clock.sleep(_RETRY_S)
            else:
                return

    async def _find_scopes(self, connection: Connection, scopes: set[Scope]) -> None:
        """Learn the numbers of these scopes, and give one to those that are new."""
        if len(self._scopes) > _MAX_SCOPES:
            self._scopes.clear()
        wanted = list(scopes - self._scopes.keys())
        params = (
            texts([scope.agent for scope in wanted]),
            texts([scope.tenant for scope in wanted]),
            texts([scope.principal for scope in wanted]),
        )
        found = await connection.run(SQL["find_scopes"], params)
        if (None,) in found:
            await connection.run(SQL["add_scopes"], params)
            found = await connection.run(SQL["find_scopes"], params)
        self._scopes.update(zip(wanted, [number for (number,) in found], strict=True))
