"""`check`: finds every fault of a database, without changing it.

Gateways may run meanwhile: each step reads one state of the database.
"""

from importlib.resources import files

import msgspec
from msgspec import structs

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK, referred_ids, split
from trunkline.ports.store import Scope, Snapshot, StoredTask
from trunkline.stores.findings import TASK_REMEDY, Findings
from trunkline.stores.postgres.connection import (
    Connection,
    ConnectionLost,
    DatabaseError,
    Params,
    Row,
    connect,
)
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.packing import int8
from trunkline.stores.postgres.reader import Reader
from trunkline.stores.postgres.schema import Version, migrations, why_unusable
from trunkline.stores.postgres.writer import SQL as WRITER_SQL
from trunkline.stores.statements import Statements

SQL = Statements(files(__package__).joinpath("check.sql").read_text("utf-8"))

_REMEDY = "Restore a backup."
# A statement that reads a whole table of a large database.
_STATEMENT_S = 3600.0
# Errors of PostgreSQL that are about its files.
_DAMAGED = ("XX", "58")
_ENTRIES_AT_ONCE = 500
_SLICES_AT_ONCE = 16

# Rows that point to nothing: how a fault names them, and the statement that counts them.
_REFERENCES = (
    ("tasks of an unknown scope", "count_tasks_without_scope"),
    ("journal rows of no task", "count_events_without_task"),
    ("snapshots of no task", "count_snapshots_without_task"),
    ("large values of no task", "count_values_without_task"),
    ("large values that are about to be deleted although a task has them", "count_values_twice"),
    ("slices of no large value", "count_slices_without_value"),
    ("records of no task", "count_records_without_task"),
    ("tags of no record", "count_tags_without_record"),
    ("tags that find no record", "count_records_without_tag"),
    ("due records that no claim finds", "count_due_without_scope"),
)


async def check(url: str) -> Findings:
    """Raises StoreUnusable for a database that is not a store of this release, or that does not
    answer."""
    database = Database(url)
    findings = Findings(database.name, "postgres")
    try:
        # Not prepared, so that PostgreSQL plans for whole tables.
        connection = await connect(url, "check", prepares=False, statement_s=_STATEMENT_S)
        try:
            await _Check(connection, database, findings).run()
        finally:
            connection.close()
    except ConnectionLost as error:
        raise database.unreachable(error) from error
    except DatabaseError as error:
        raise database.refused(error) from error
    return findings


class _Check:
    """Reads all that it looks at through one connection."""

    def __init__(self, connection: Connection, database: Database, findings: Findings) -> None:
        self._connection = connection
        self.name = database.name
        self._findings = findings
        self._reader = Reader(self)

    async def read(self, sql: str, params: Params = ()) -> list[Row]:
        return await self._connection.run(sql, params)

    async def run(self) -> None:
        await self._check_version()
        await self._check_schema()
        await self._check_references()
        await self._check_tasks()
        await self._look_at_server()

    async def _check_version(self) -> None:
        latest = len(migrations())
        ((exists,),) = await self.read(SQL["has_schema"])
        found = Version(0, 0)
        if exists:
            found = Version(*(await self.read(SQL["get_version"]))[0])
        reason = why_unusable(found, latest)
        if reason is None and found.version < latest:
            reason = (
                f"The store {self.name} has schema {found.version}, and this release checks "
                f"{latest}. Run `trunkline db migrate` to bring it up to date."
            )
        if reason is not None:
            raise StoreUnusable(reason)

    async def _check_schema(self) -> None:
        add = self._findings.add
        for (month,) in await self.read(SQL["find_missing_months"]):
            remedy = "A gateway adds it when it starts, and once an hour; look at its log."
            add("schema", f"the table of the month {month} is missing", remedy)
        for (index,) in await self.read(SQL["find_invalid_indexes"]):
            remedy = f"Run `REINDEX INDEX CONCURRENTLY {index}`."
            add("schema", f"the index {index} is not valid", remedy)

    async def _check_references(self) -> None:
        findings = self._findings
        for what, statement in _REFERENCES:
            for (count,) in await self._rows(f"{what} cannot be counted", statement):
                if count:
                    findings.add("reference", f"{count} {what}", _REMEDY)
        for (count,) in await self._rows("records cannot be counted", "count_records"):
            findings.records = count
        wrong = await self._rows("tasks cannot be counted", "find_wrong_counts")
        for scope, state, kept, real in wrong:
            findings.add(
                "count",
                f"scope {scope} is said to have {kept} tasks in state {state} and has {real}",
                "Lists show a wrong total. Restore a backup if that matters.",
            )

    async def _rows(self, fault: str, statement: str) -> list[Row]:
        """The rows of a statement; none, and a fault, when PostgreSQL cannot read them."""
        try:
            return await self.read(SQL[statement])
        except DatabaseError as error:
            if not error.sqlstate.startswith(_DAMAGED):
                raise
            self._findings.add("page", f"{fault}: {error}", _REMEDY)
            return []

    async def _check_tasks(self) -> None:
        # Those that gateways create meanwhile are left out, or the check might never end.
        ((last,),) = await self.read(SQL["get_last_key"])
        after = -1
        while True:
            # One state of these tasks, also when a gateway writes to them. Not of all tasks: that
            # would keep old rows from being cleaned away for the whole check.
            await self.read(SQL["begin_read"])
            try:
                found = await self.read(SQL["find_tasks"], [int8(after), int8(last)])
                for key, task_id in found:
                    await self._check_task(key, task_id)
            finally:
                await self.read(SQL["end_read"])
            if not found:
                return
            after = found[-1][0]

    async def _check_task(self, key: int, task_id: str) -> None:
        findings = self._findings
        try:
            stored = await self._reader.by_key(key)
            # It may have been deleted since this task was found, where one before it was damaged.
            if stored is not None:
                journal = await self._journal(stored)
                findings.check_task(await self._with_texts(stored), journal)
                self._check_end(stored, journal)
        except (msgspec.DecodeError, LookupError, ValueError, StoreUnusable) as error:
            findings.add("task", f"it cannot be read: {error!r}", TASK_REMEDY, task_id=task_id)
        except DatabaseError as error:
            if not error.sqlstate.startswith(_DAMAGED):
                raise
            findings.add("page", f"it cannot be read: {error}", _REMEDY, task_id=task_id)
            # The transaction is over.
            await self.read(SQL["end_read"])
            await self.read(SQL["begin_read"])

    def _check_end(self, stored: StoredTask, journal: list[Entry]) -> None:
        last = max(
            stored.snapshot.seq if stored.snapshot is not None else 0,
            journal[-1].seq if journal else 0,
        )
        if last != stored.last_seq:
            what = f"its journal is said to end with entry {stored.last_seq} and ends with {last}"
            self._findings.add("task", what, TASK_REMEDY, task_id=stored.task_id)

    async def _journal(self, stored: StoredTask) -> list[Entry]:
        journal: list[Entry] = []
        after = 0
        while found := await self._reader.entries(stored.task_id, after, _ENTRIES_AT_ONCE):
            for entry in found:
                body = await self._whole(stored.scope, entry.body)
                journal.append(Entry(entry.seq, entry.kind, body))
            after = found[-1].seq
        return journal

    async def _with_texts(self, stored: StoredTask) -> StoredTask:
        """With the large texts in place: a snapshot may refer to a text that the journal holds in
        pieces."""
        snapshot = stored.snapshot
        if snapshot is None:
            return stored
        task = await self._whole(stored.scope, snapshot.task)
        artifacts = await self._whole(stored.scope, snapshot.artifacts)
        return structs.replace(stored, snapshot=Snapshot(snapshot.seq, task, artifacts))

    async def _whole(self, scope: Scope, data: bytes) -> bytes:
        """JSON with the large texts that it refers to. Raises ValueError when some are missing."""
        if MARK not in data:
            return data
        sizes = await self._reader.value_sizes(scope, referred_ids(data))
        pieces: list[bytes] = []
        for piece in split(data, sizes):
            pieces.append(
                await self._text(piece, sizes[piece]) if isinstance(piece, str) else piece
            )
        return b"".join(pieces)

    async def _text(self, value_id: str, size: int) -> bytes:
        slices: list[bytes] = []
        while found := await self._reader.value_slices(value_id, len(slices), _SLICES_AT_ONCE):
            slices += found
        text = b"".join(slices)
        if len(text) != size:
            raise ValueError(f"a large text has {len(text)} of {size} bytes")
        return text

    async def _look_at_server(self) -> None:
        note = self._findings.notes.append
        for (name,) in await self.read(WRITER_SQL["get_unsafe"]):
            note(f"{name} is off: the server may lose what it acknowledged. Turn it on.")
        ((standbys,),) = await self.read(SQL["count_synchronous_standbys"])
        if not standbys:
            note(
                "There is no synchronous standby: a failover may lose what was acknowledged just "
                "before it. Set synchronous_standby_names where that matters."
            )
        for what, seconds in await self.read(SQL["find_long_transactions"]):
            note(
                f"{what} has had a transaction open for {seconds} s: PostgreSQL keeps all rows "
                "that were replaced since. End it."
            )
        for (slot,) in await self.read(SQL["find_idle_slots"]):
            note(
                f"The replication slot {slot} is not in use: PostgreSQL keeps all rows that were "
                "replaced since it was. Drop it if its standby is gone."
            )
