"""`Writer`: writes a batch of appends with few statements, and refuses the invalid ones."""

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports import store as port
from trunkline.ports.clock import Clock
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Committed, Group
from trunkline.stores.commits import Item, why_refused
from trunkline.stores.large_appends import large_bodies
from trunkline.stores.records.table import RecordWriter
from trunkline.stores.sqlite.rows import (
    CODES,
    FIRST_TERMINAL,
    MAX_SEQ,
    SEQ_BITS,
    Blob,
    add_rows,
    by_time,
)
from trunkline.stores.sqlite.statements import SQL

# Heads of active tasks, kept so that an append needs no read. Beyond this number the writer
# forgets the oldest, and reads them again for their next append.
_MAX_HEADS = 8192
_MAX_SCOPES = 65536


class Head(Struct, frozen=True, gc=False):
    key: int
    scope: int
    state: int
    status_ms: int
    last_seq: int


class _Change(Struct, eq=False, gc=False):
    """The change of one task by a batch, in one or more appends."""

    key: int
    scope: int
    # As it was before the batch; None for a task that the batch creates.
    head: Head | None
    creation: port.Creation | None
    last: port.Append
    entries: tuple[Entry, ...]
    snapshot: port.Snapshot | None
    last_seq: int

    def add(self, append: port.Append) -> None:
        self.last = append
        self.last_seq += len(append.entries)
        self.entries += append.entries
        if append.snapshot is not None:
            self.snapshot = append.snapshot


class _Staged(Struct, eq=False):
    """The changes of a batch so far. They count once the commit succeeds."""

    next_key: int
    changes: dict[str, _Change] = {}
    # Heads of tasks that have not ended. An ended task gets a rare snapshot at most.
    heads: dict[str, Head] = {}
    ended: list[str] = []
    scopes: dict[port.Scope, int] = {}
    # Number, id, task and size.
    large_values: list[tuple[int, str, int, int]] = []
    # Tasks whose snapshot may have been large before.
    replaced: list[int] = []


class Writer:
    """Owns the one connection that writes. Not thread-safe: one caller at a time."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock
        self.records = RecordWriter(connection, clock)
        self._heads: dict[str, Head] = {}
        self._scopes: dict[port.Scope, int] = {}
        (last_key,) = connection.execute(SQL["last_key"]).fetchone()
        self._staged = _Staged(last_key + 1)
        # Number and size of large values whose slices are written: texts by the id of the
        # value, bodies by the id of the object.
        self.written: dict[str | int, tuple[int, int]] = {}

    def apply(self, batch: Sequence[tuple[Item, port.Settled]]) -> list[port.Result]:
        """Begin a transaction and write the batch. Returns one result per append.

        Raises sqlite3.Error, with nothing written, when the database fails.
        """
        is_careful = False
        while True:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                results: list[port.Result] = []
                for item, _ in batch:
                    if isinstance(item, port.Append):
                        results.append(self._stage(item, is_careful))
                    else:
                        assert isinstance(item, Group)
                        results.append(self.records.apply(item.changes, is_careful=is_careful))
                # The test spares most batches the call.
                if self.records.new or self.records.raised:
                    self.records.write()
                self._write()
            except BaseException as error:
                self.rollback()
                if is_careful or not isinstance(error, sqlite3.IntegrityError):
                    raise
                # Some task id or record exists already. That is rare, so the writer
                # looks each one up only now, before it writes it.
                is_careful = True
            else:
                return results

    def commit(self) -> None:
        """Make the batch durable. Raises sqlite3.Error, with all of it undone."""
        try:
            self.connection.execute("COMMIT")
        except BaseException:
            self.rollback()
            raise
        staged = self._staged
        heads = self._heads
        for task_id in staged.ended:
            heads.pop(task_id, None)
        heads.update(staged.heads)
        while len(heads) > _MAX_HEADS:
            del heads[next(iter(heads))]
        if len(self._scopes) > _MAX_SCOPES:
            self._scopes.clear()
        self._scopes.update(staged.scopes)
        self._staged = _Staged(staged.next_key)

    def rollback(self) -> None:
        # Task keys of the failed batch stay unused; gaps do no harm.
        self._staged = _Staged(self._staged.next_key)
        self.records.discard()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def put_copies(self, copies: Sequence[RecordCopy]) -> None:
        """Write records as they are, inside a transaction."""
        for copy in copies:
            task = None
            if copy.task_id:
                head = self._find_head(copy.task_id)
                task = None if head is None else head.key
            held_ms = copy.held_until_ms
            self.records.replace(
                copy.record, task, held_until_ms=held_ms, is_deferred=bool(held_ms)
            )

    def forget(self, task_id: str) -> None:
        """Forget the head of a task that was changed other than by an append."""
        self._heads.pop(task_id, None)

    def _stage(self, append: port.Append, is_careful: bool) -> port.Result:
        staged = self._staged
        task_id = append.task_id
        head: Head | None = None
        change = staged.changes.get(task_id)
        if change is not None:
            refused = why_refused(append, change.last_seq)
        else:
            head = self._heads.get(task_id)
            if head is None and (append.creation is None or is_careful):
                head = self._find_head(task_id)
            refused = why_refused(append, 0 if head is None else head.last_seq)
        if refused is not None:
            return refused
        if append.expected_seq + len(append.entries) > MAX_SEQ:
            # Beyond it an entry would lie in the journal of the next task.
            return StoreUnusable(f"Task {task_id} has {MAX_SEQ} journal entries; no more fit")
        known = change or head
        key = staged.next_key if known is None else known.key
        skipped: Committed | None = None
        if append.also:
            refused = self.records.apply_required(append.also, key, is_careful=is_careful)
            if refused is not None:
                return refused
            skipped = self.records.apply_optional(append.also, key)
        for value in append.values:
            number, size = self.written[value.id]
            staged.large_values.append((number, value.id, key, size))
        if change is not None:
            change.add(append)
            return skipped
        if head is not None:
            scope = head.scope
        else:
            creation = append.creation
            assert creation is not None, "why_refused() lets no creation pass without one"
            scope = self.scope_id(creation.scope)
            staged.next_key += 1
        entries = append.entries
        staged.changes[task_id] = _Change(
            key,
            scope,
            head,
            append.creation,
            append,
            entries,
            append.snapshot,
            append.expected_seq + len(entries),
        )
        return skipped

    def _add_apart(
        self,
        change: _Change,
        events: list[int | str | Blob | None],
        snapshots: list[int | Blob],
        now_ms: int,
    ) -> None:
        """The rows of a copy, whose entries have times of their own, and those that have the number
        of a value in place of a large body."""
        start = change.key << SEQ_BITS
        is_large = self.written and large_bodies(change.entries, change.snapshot)
        runs: Iterable[tuple[int | None, Sequence[Entry]]] = ((now_ms, change.entries),)
        if change.last.keeps_times:
            runs = by_time(change.entries)
        for committed_ms, run in runs:
            if not is_large:
                add_rows(events, start, run, committed_ms)
                continue
            for entry in run:
                body = self._body(entry.body, change.key, "entry")
                events += (start | entry.seq, entry.kind, body, committed_ms)
        snapshot = change.snapshot
        if snapshot is not None:
            self._staged.replaced.append(change.key)
            snapshots += (
                change.key,
                snapshot.seq,
                self._body(snapshot.task, change.key, "snapshot"),
                self._body(snapshot.artifacts, change.key, "snapshot"),
            )

    def _body(self, body: bytes, key: int, what: str) -> Blob | int:
        if len(body) <= SLICE_BYTES:
            return Blob(body)
        number, size = self.written[id(body)]
        self._staged.large_values.append((number, f"{what}:{number}", key, size))
        return number

    def _write(self) -> None:
        staged = self._staged
        created: list[int | str] = []
        changed: list[int] = []
        events: list[int | str | Blob | None] = []
        snapshots: list[int | Blob] = []
        counts: dict[tuple[int, int], int] = {}
        now_ms = self._clock.now_ms()
        for task_id, change in staged.changes.items():
            key, scope, head, last = change.key, change.scope, change.head, change.last
            state, status_ms = CODES[last.state], last.status_ms
            if head is None:
                creation = change.creation
                assert creation is not None
                created += (
                    key,
                    task_id,
                    scope,
                    creation.context_id,
                    creation.created_ms,
                    state,
                    status_ms,
                )
                counts[state, scope] = counts.get((state, scope), 0) + 1
            elif head.state != state:
                changed += (key, state, status_ms)
                counts[state, scope] = counts.get((state, scope), 0) + 1
                counts[head.state, scope] = counts.get((head.state, scope), 0) - 1
            elif head.status_ms != status_ms:
                changed += (key, state, status_ms)
            if state < FIRST_TERMINAL:
                staged.heads[task_id] = Head(key, scope, state, status_ms, change.last_seq)
            elif head is not None:
                staged.ended.append(task_id)
            has_large = self.written and large_bodies(change.entries, change.snapshot)
            if has_large or last.keeps_times:
                self._add_apart(change, events, snapshots, now_ms)
                continue
            add_rows(events, key << SEQ_BITS, change.entries, now_ms)
            snapshot = change.snapshot
            if snapshot is not None:
                snapshots += (key, snapshot.seq, Blob(snapshot.task), Blob(snapshot.artifacts))
        added: list[int] = []
        for (state, scope), n in counts.items():
            if n:
                added += (state, scope, n)
        SQL.write_rows(
            self.connection,
            ("insert_tasks", 7, created),
            ("update_heads", 3, changed),
            ("insert_events", 4, events),
            ("put_snapshots", 4, snapshots),
            ("add_counts", 3, added),
        )
        if staged.large_values:
            self._write_large_values()

    def _write_large_values(self) -> None:
        replaced = [(key,) for key in self._staged.replaced]
        self.connection.executemany(SQL["loosen_snapshot"], replaced)
        self.connection.executemany(SQL["delete_large_snapshot"], replaced)
        values = self._staged.large_values
        self.connection.executemany(SQL["insert_large_value"], values)
        numbers = [(number,) for number, _, _, _ in values]
        self.connection.executemany(SQL["delete_loose_value"], numbers)

    def _find_head(self, task_id: str) -> Head | None:
        rows = self.connection.execute(SQL["find_head"], (task_id,)).fetchall()
        return Head(*rows[0]) if rows else None

    def scope_id(self, scope: port.Scope) -> int:
        found = self._scopes.get(scope) or self._staged.scopes.get(scope)
        if found is None:
            texts = (scope.agent, scope.tenant, scope.principal)
            found = self._intern("find_scope", "insert_scope", texts)
            self._staged.scopes[scope] = found
        return found

    def _intern(self, find: str, insert: str, texts: tuple[str, ...]) -> int:
        rows = self.connection.execute(SQL[find], texts).fetchall()
        if rows:
            return int(rows[0][0])
        inserted = self.connection.execute(SQL[insert], texts).lastrowid
        assert inserted is not None
        return inserted
