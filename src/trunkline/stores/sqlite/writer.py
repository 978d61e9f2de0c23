"""Turning a batch of appends into few statements, and refusing those that may not be."""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from trunkline.model.errors import KeyTaken, StoreError, StoreUnusable
from trunkline.ports.store import Append, Creation, Scope, Settled
from trunkline.stores.heads import refusal
from trunkline.stores.sqlite.bulk import write_rows
from trunkline.stores.sqlite.codes import CODES, FIRST_TERMINAL, MAX_SEQ, SEQ_BITS
from trunkline.stores.sqlite.statements import SQL

# Heads of active tasks, kept so that an append needs no read. Beyond this many the
# oldest are read again when they are needed.
_MAX_HEADS = 8192
_MAX_SCOPES = 65536


# The sqlite3 module looks for an adapter of every `bytes` it binds, in vain, and makes
# an error text each time: 0.4 µs more than copying them into a `bytearray`.
_Blob = bytearray


class Head(Struct, frozen=True, gc=False):
    key: int
    scope: int
    epoch: int
    state: int
    status_ms: int
    last_seq: int


class _Staged:
    """What a batch has changed so far. Becomes the truth when the commit succeeds."""

    __slots__ = (
        "changed",
        "counts",
        "created",
        "events",
        "heads",
        "idempotency",
        "next_key",
        "nodes",
        "scopes",
        "snapshots",
    )

    def __init__(self, next_key: int) -> None:
        self.next_key = next_key
        self.heads: dict[str, Head] = {}
        self.created: dict[str, tuple[Creation, int]] = {}
        self.changed: set[str] = set()
        # Places, kinds and bodies, one entry after the other.
        self.events: list[int | str | _Blob] = []
        self.snapshots: dict[int, tuple[int, int, _Blob, _Blob]] = {}
        self.idempotency: dict[tuple[int, str], tuple[int, str, int, _Blob]] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.scopes: dict[Scope, int] = {}
        self.nodes: dict[str, int] = {}


class Writer:
    """Owns the one connection that writes. Not thread-safe: one caller at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._heads: dict[str, Head] = {}
        self._scopes: dict[Scope, int] = {}
        self._nodes: dict[str, int] = {}
        (last_key,) = connection.execute(SQL["last_key"]).fetchone()
        self._staged = _Staged(last_key + 1)

    def apply(self, batch: Sequence[tuple[Append, Settled]]) -> list[StoreError | None]:
        """Begin a transaction and write the batch. One answer per append.

        Raises sqlite3.Error, with nothing written, when the database fails.
        """
        try:
            return self._apply(batch, is_careful=False)
        except sqlite3.IntegrityError:
            # Some task id or idempotency key exists already. That is so rare that
            # only now each one is looked up before it is written.
            self.rollback()
            return self._apply(batch, is_careful=True)

    def _apply(
        self, batch: Sequence[tuple[Append, Settled]], *, is_careful: bool
    ) -> list[StoreError | None]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            results = [self._stage(append, is_careful=is_careful) for append, _ in batch]
            self._write()
        except BaseException:
            self.rollback()
            raise
        return results

    def commit(self) -> None:
        """Make it durable. Raises sqlite3.Error, with all of it undone."""
        try:
            self.connection.execute("COMMIT")
        except BaseException:
            self.rollback()
            raise
        staged = self._staged
        heads = self._heads
        for task_id, head in staged.heads.items():
            # Nothing follows on a terminal task, but for a rare snapshot.
            if head.state >= FIRST_TERMINAL:
                heads.pop(task_id, None)
            else:
                heads[task_id] = head
        while len(heads) > _MAX_HEADS:
            del heads[next(iter(heads))]
        if len(self._scopes) > _MAX_SCOPES:
            self._scopes.clear()
        self._scopes.update(staged.scopes)
        self._nodes.update(staged.nodes)
        self._staged = _Staged(staged.next_key)

    def rollback(self) -> None:
        # Keys that the failed batch used are left out; gaps do no harm.
        self._staged = _Staged(self._staged.next_key)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def forget(self, task_id: str) -> None:
        """The head changed by other means than an append."""
        self._heads.pop(task_id, None)

    def _stage(self, append: Append, *, is_careful: bool) -> StoreError | None:
        staged = self._staged
        task_id = append.task_id
        head = staged.heads.get(task_id) or self._heads.get(task_id)
        if head is None and (append.creation is None or is_careful):
            head = self._find_head(task_id)
        if head is None:
            refused = refusal(append, 0, 0)
        else:
            refused = refusal(append, head.last_seq, head.epoch)
        if refused is None and append.idempotency is not None:
            refused = self._stage_idempotency(append, head, is_careful=is_careful)
        if refused is not None:
            return refused

        state = CODES[append.state]
        status_ms = append.status_ms
        entries = append.entries
        last_seq = append.expected_seq + len(entries)
        if last_seq > MAX_SEQ:
            # Beyond it an entry would lie in the journal of the next task.
            return StoreUnusable(f"Task {task_id} has {MAX_SEQ} journal entries; no more fit")
        if head is None:
            key, scope = self._create(append, state)
        else:
            key, scope = head.key, head.scope
            if head.state != state:
                counts = staged.counts
                counts[scope, head.state] = counts.get((scope, head.state), 0) - 1
                counts[scope, state] = counts.get((scope, state), 0) + 1
                staged.changed.add(task_id)
            elif head.status_ms != status_ms:
                staged.changed.add(task_id)
        staged.heads[task_id] = Head(
            key,
            scope,
            append.epoch,
            state,
            status_ms,
            last_seq,
        )
        place = key << SEQ_BITS
        for entry in entries:
            staged.events += (place | entry.seq, entry.kind, _Blob(entry.body))
        snapshot = append.snapshot
        if snapshot is not None:
            staged.snapshots[key] = (
                key,
                snapshot.seq,
                _Blob(snapshot.task),
                _Blob(snapshot.artifacts),
            )
        return None

    def _create(self, append: Append, state: int) -> tuple[int, int]:
        staged = self._staged
        creation = append.creation
        assert creation is not None, "refusal() lets no creation pass without one"
        key = staged.next_key
        staged.next_key += 1
        scope = self.scope_id(creation.scope)
        staged.created[append.task_id] = (creation, self.node_id(creation.node))
        staged.counts[scope, state] = staged.counts.get((scope, state), 0) + 1
        return key, scope

    def _stage_idempotency(
        self, append: Append, head: Head | None, *, is_careful: bool
    ) -> StoreError | None:
        record = append.idempotency
        assert record is not None
        staged = self._staged
        scope = self.scope_id(record.scope)
        place = (scope, record.key)
        if place in staged.idempotency or (
            is_careful and self.connection.execute(SQL["has_idempotency"], place).fetchall()
        ):
            return KeyTaken(f"The idempotency key {record.key!r} was used before")
        key = staged.next_key if head is None else head.key
        staged.idempotency[place] = (scope, record.key, key, _Blob(record.digest))
        return None

    def _write(self) -> None:
        staged = self._staged
        db = self.connection
        created, heads = staged.created, staged.heads
        tasks: list[int | str] = []
        for task_id, (creation, node) in created.items():
            head = heads[task_id]
            tasks += (
                head.key,
                task_id,
                head.scope,
                creation.context_id,
                creation.created_ms,
                node,
                head.epoch,
                head.state,
                head.status_ms,
            )
        write_rows(db, "insert_tasks", 9, tasks)
        changed = [heads[task_id] for task_id in staged.changed if task_id not in created]
        if changed:
            db.executemany(
                SQL["update_head"], [(head.state, head.status_ms, head.key) for head in changed]
            )
        write_rows(db, "insert_events", 3, staged.events)
        write_rows(db, "put_snapshots", 4, list(chain.from_iterable(staged.snapshots.values())))
        write_rows(
            db, "insert_idempotency", 4, list(chain.from_iterable(staged.idempotency.values()))
        )
        for (scope, state), n in staged.counts.items():
            if n:
                write_rows(db, "add_counts", 3, [state, scope, n])

    def _find_head(self, task_id: str) -> Head | None:
        rows = self.connection.execute(SQL["find_head"], (task_id,)).fetchall()
        return Head(*rows[0]) if rows else None

    def scope_id(self, scope: Scope) -> int:
        found = self._scopes.get(scope) or self._staged.scopes.get(scope)
        if found is None:
            texts = (scope.agent, scope.tenant, scope.principal)
            found = self._intern("find_scope", "insert_scope", texts)
            self._staged.scopes[scope] = found
        return found

    def node_id(self, node: str) -> int:
        found = self._nodes.get(node) or self._staged.nodes.get(node)
        if found is None:
            found = self._intern("find_node", "insert_node", (node,))
            self._staged.nodes[node] = found
        return found

    def _intern(self, find: str, insert: str, texts: tuple[str, ...]) -> int:
        rows = self.connection.execute(SQL[find], texts).fetchall()
        if rows:
            return int(rows[0][0])
        inserted = self.connection.execute(SQL[insert], texts).lastrowid
        assert inserted is not None
        return inserted
