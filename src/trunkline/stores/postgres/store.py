"""`PostgresStore`: durable tasks in PostgreSQL, for one process or for several nodes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from trunkline.clock import SystemClock
from trunkline.config.urls import postgres_place
from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure
from trunkline.ports.records import Key, Record
from trunkline.stores.postgres.commit_queue import CommitQueue, Opened
from trunkline.stores.postgres.connect_problems import no_connection
from trunkline.stores.postgres.connection import ISOLATION, ConnectionLost, DatabaseError
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.large_values import LargeValues
from trunkline.stores.postgres.maintenance import Maintenance
from trunkline.stores.postgres.problems import unsafe, wrong_isolation
from trunkline.stores.postgres.reader import Reader
from trunkline.stores.postgres.records import Records
from trunkline.stores.postgres.schema import migrate
from trunkline.stores.postgres.writer import SQL, Writer


class PostgresStore(CommitQueue):
    keeps_large_values = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        direct_url: str = "",
        prepares: bool = True,
        allow_unsafe: bool = False,
    ) -> None:
        """`direct_url` reaches the database itself where `url` leads to a pooler. `prepares`:
        whether statements may be prepared, as they may not behind some poolers. `allow_unsafe` is
        for tests: the server may lose what it acknowledged."""
        super().__init__(postgres_place(url), clock or SystemClock())
        self._url = url
        self._direct_url = direct_url or url
        self._prepares = prepares
        self._allow_unsafe = allow_unsafe

    @property
    def database(self) -> Database:
        return self._require_open().database

    @property
    def writer_id(self) -> int:
        """The number under which this store counts tasks and batches."""
        return self._require_open().writer.id

    def figures(self) -> Iterator[Figure]:
        opened = self._opened
        if opened is None:
            return
        batches, items, seconds = opened.writer.committed, self.committed_items, self.commit_s
        reconnects, reads = opened.database.reconnects, opened.database.waiting
        yield "trunkline_store_batches_total", "Batches that the database committed.", batches
        yield "trunkline_store_batch_items_total", "Appends and changes in them.", items
        yield "trunkline_store_batch_seconds_total", "Time until they were committed.", seconds
        yield "trunkline_store_queue", "Appends and changes that wait.", self.waiting_items
        yield "trunkline_store_reads_waiting", "Reads that wait for a connection.", reads
        yield "trunkline_store_reconnects_total", "Times the database was back.", reconnects

    async def open(self) -> None:
        database = Database(self._url, prepares=self._prepares)
        database.on_silence = self._fell_silent
        writer = Writer(database, self._clock, lost=self._lost, late=self._late, broke=self._broke)
        opened = Opened(
            asyncio.get_running_loop(),
            database,
            writer,
            LargeValues(database, self._clock, self._submit_large, self._explain),
            Reader(database),
            Records(database),
            Maintenance(database, self._clock),
        )
        try:
            await migrate(self._direct_url)
            off = [name for (name,) in await database.read(SQL["get_unsafe"])]
            if off and not self._allow_unsafe:
                raise unsafe(self._name, off)
            ((level,),) = await database.read(SQL["get_isolation"])
            if level != ISOLATION:
                raise wrong_isolation(self._name, level)
            await writer.open()
            await opened.maintenance.start()
        except BaseException as error:
            await opened.close()
            reason = error.__cause__ if isinstance(error, StoreUnusable) else error
            if isinstance(reason, ConnectionLost | DatabaseError):
                raise no_connection(str(self._name), reason) from error
            raise
        self._opened = opened

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        return await self._require_open().reader.get(scope, task_id)

    async def owner(self, task_id: str) -> port.Scope | None:
        return await self._require_open().reader.owner(task_id)

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        return await self._require_open().reader.entries(task_id, after, limit)

    async def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        return await self._require_open().reader.value_sizes(scope, ids)

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return await self._require_open().reader.value_slices(value_id, first, limit)

    async def list(self, query: port.TaskQuery) -> port.TaskPage:
        return await self._require_open().reader.list(query)

    async def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        return await self._require_open().reader.list_all(query)

    async def unfinished(self) -> tuple[tuple[port.Scope, str], ...]:
        return await self._require_open().reader.unfinished()

    async def scopes(self) -> tuple[port.Scope, ...]:
        return await self._require_open().reader.scopes()

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        return await self._require_open().reader.count_ended(agent, before_ms)

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        maintenance = self._require_open().maintenance
        return await maintenance.prune(agent, limit=limit, before_ms=before_ms)

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        await self._require_open().maintenance.prune_journal(task_id, up_to=up_to)

    async def record(self, key: Key) -> Record | None:
        return await self._require_open().records.get(key)

    async def task_records(self, task_id: str) -> tuple[Record, ...]:
        return await self._require_open().records.of_task(task_id)

    async def records(
        self,
        kind: str,
        *,
        scope: str | None = None,
        tag: str | None = None,
        after: Key | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> tuple[Record, ...]:
        return await self._require_open().records.page(
            kind, scope=scope, tag=tag, after=after, newest_first=newest_first, limit=limit
        )

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        return await self._require_open().records.claim_due(
            shares, lease_ms=lease_ms, node=self._node
        )

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        return await self._require_open().records.count_due(kind, scope, before_ms=before_ms)

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        return await self._require_open().records.delete_due(
            kind, scope, before_ms=before_ms, limit=limit
        )
