"""`RecordNode`: changes and claims records over one connection, in a transaction where a test wants
to hold it open."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trunkline.model.errors import StoreError
from trunkline.ports.records import Change, Group, Key, Record
from trunkline.stores.postgres import packing
from trunkline.stores.postgres.connection import Connection, Row, connect
from trunkline.stores.postgres.records import SQL, PackedChanges, claimed_records
from trunkline.stores.records.reader import record_of_row

_CHANGE = """
SELECT codes, stored, skipped FROM change_records_1(
    $1::int8[], $2::int4[], $3::int4[], $4::int2[], $5::text[], $6::text[], $7::text[],
    $8::int8[], $9::int8[], $10::bytea[], $11::text[], $12::int4[], $13::int8[]
)"""
_IS_WAITING = "SELECT cardinality(pg_blocking_pids($1::int4)) > 0"


def key(name: str, scope: str = "scope", kind: str = "check.1") -> Key:
    return Key(kind, scope, name)


class RecordNode:
    def __init__(self, connection: Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        # The node for which it claims; 0 for none.
        self.node = 0

    async def run(self, sql: str) -> list[Row]:
        return await self.connection.run(sql)

    async def batch(
        self, *items: Sequence[Group], tasks: Sequence[int] = ()
    ) -> list[StoreError | tuple[int, ...]]:
        """The result of each item: why it was refused, or its groups that were skipped."""
        packed = PackedChanges()
        for number, groups in enumerate(items, 1):
            packed.add(number, groups)
        none = [0] * len(items)
        params = [
            packing.int8s(tasks or none),
            *packed.params(),
            packing.int4s(none),
            packing.int8s(none),
        ]
        ((codes, stored, groups),) = await self.connection.run(_CHANGE, params)
        skipped = packed.skipped(groups)
        return [
            packed.why_refused(code, found) if code else skipped.get(number, ())
            for number, (code, found) in enumerate(zip(codes, stored, strict=True), 1)
        ]

    async def change(self, *changes: Change) -> StoreError | None:
        (result,) = await self.batch([Group(changes)])
        return result if isinstance(result, StoreError) else None

    async def must_change(self, *changes: Change) -> None:
        assert await self.change(*changes) is None

    async def claim(self, *, limit: int = 9, lease_ms: int = 60_000) -> list[Record]:
        params = [
            packing.texts(["check.1"]),
            packing.int4s([limit]),
            packing.int8(lease_ms),
            packing.int8(self.node),
        ]
        rows = await self.connection.run(SQL["claim_due"], params)
        return list(claimed_records(rows))

    async def claim_ids(self, *, limit: int = 9) -> list[str]:
        return [record.key.id for record in await self.claim(limit=limit)]

    async def record(self, wanted: Key) -> Record | None:
        params = [wanted.kind.encode(), wanted.scope.encode(), wanted.id.encode()]
        rows = await self.connection.run(SQL["get_record"], params)
        return record_of_row(wanted, *rows[0]) if rows else None

    async def until_waiting(self, other: "RecordNode") -> None:
        """Return when the other node waits for a lock."""
        while True:
            ((is_waiting,),) = await self.connection.run(_IS_WAITING, [packing.int4(other.pid)])
            if is_waiting:
                return
            await asyncio.sleep(0.001)


@asynccontextmanager
async def record_nodes(url: str, count: int) -> AsyncIterator[list[RecordNode]]:
    nodes = []
    try:
        for number in range(count):
            connection = await connect(url, f"records {number}")
            ((pid,),) = await connection.run("SELECT pg_backend_pid()")
            nodes.append(RecordNode(connection, pid))
        yield nodes
    finally:
        for node in nodes:
            node.connection.close()
