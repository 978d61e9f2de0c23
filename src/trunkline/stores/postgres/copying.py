"""`CopyablePostgresStore`: a PostgreSQL store as source or target of `trunkline db copy`."""

from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import psycopg

from trunkline.model.errors import StoreError, StoreInUse, StoreUnusable, Unstorable
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Key
from trunkline.ports.store import Scope
from trunkline.stores.postgres.connect_problems import no_connection
from trunkline.stores.postgres.connection import CONNECT_S
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.records.reader import record_of_row, tags_text
from trunkline.stores.statements import Statements

SQL = Statements(files(__package__).joinpath("copying.sql").read_text("utf-8"))

# The advisory lock of a copy: "TRNK" and a number.
_LOCK = (0x54524E4B, 3)


class CopyablePostgresStore(PostgresStore):
    """Goes through all tasks and records by a connection of its own, which also has the lock."""

    _connection: psycopg.AsyncConnection[Any] | None = None

    async def open(self) -> None:
        try:
            self._connection = await psycopg.AsyncConnection.connect(
                self._direct_url, autocommit=True, connect_timeout=int(CONNECT_S)
            )
            ((is_free,),) = await self._rows("lock", *_LOCK)
        except psycopg.Error as error:
            raise no_connection(str(self._name), error) from error
        if not is_free:
            await self.close()
            raise StoreInUse(f"Another copy uses {self._name}. Wait until it has ended.")
        await super().open()

    async def close(self) -> None:
        await super().close()
        if self._connection is not None:
            # The server notices a closed connection a little later.
            with suppress(psycopg.Error):
                await self._rows("unlock", *_LOCK)
            await self._connection.close()
            self._connection = None

    async def tasks_after(
        self, number: int | None, *, limit: int
    ) -> Sequence[tuple[int, Scope, str]]:
        rows = await self._read("get_tasks_after", -1 if number is None else number, limit)
        return [(key, Scope(*scope), task_id) for key, *scope, task_id in rows]

    async def records_after(self, key: Key | None, *, limit: int) -> Sequence[RecordCopy]:
        place = ("", "", "") if key is None else (key.kind, key.scope, key.id)
        rows = await self._read("get_records_after", *place, limit)
        return [
            RecordCopy(
                record=record_of_row(Key(*row[:3]), *row[3:9]),
                task_id=row[9] or "",
                held_until_ms=row[10] or 0,
            )
            for row in rows
        ]

    async def put_copies(self, copies: Sequence[RecordCopy]) -> None:
        records = [copy.record for copy in copies]
        kinds = [record.key.kind for record in records]
        scopes = [record.key.scope for record in records]
        ids = [record.key.id for record in records]
        dues = [record.due_ms for record in records]
        tags = [tags_text(record.tags) for record in records]
        names = (kinds, scopes, ids)
        values = (
            [record.version for record in records],
            [record.count for record in records],
            [record.attempts for record in records],
            dues,
            [copy.task_id or None for copy in copies],
            tags,
            [record.body for record in records],
        )
        connection = self._require_connection()
        try:
            async with connection.transaction():
                await self._rows("delete_tags", *names)
                await self._rows("put_records", *names, *values)
                await self._rows("put_tags", *names, tags)
                await self._rows("put_due_scopes", kinds, scopes, dues)
                await self._rows("hold_scopes", *names, [copy.held_until_ms for copy in copies])
        except psycopg.Error as error:
            raise self._failed_copy(error) from error

    async def _read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return await self._rows(statement, *values)
        except psycopg.Error as error:
            raise self._failed_copy(error) from error

    async def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self._require_connection().cursor(binary=True)
        await cursor.execute(SQL[statement].encode(), values)
        return [] if cursor.description is None else await cursor.fetchall()

    def _require_connection(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            raise StoreUnusable("The store is not open")
        return self._connection

    def _failed_copy(self, error: psycopg.Error) -> StoreError:
        text = " ".join(str(error).split())
        if isinstance(error, psycopg.DataError):
            return Unstorable(f"A record cannot be stored in {self._name}: {text}")
        return StoreUnusable(f"The store {self._name} failed: {text}. Run the command again.")
