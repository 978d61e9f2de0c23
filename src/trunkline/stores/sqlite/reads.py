"""Reading what was committed."""

import sqlite3
from typing import Any

from trunkline.model.events import Entry
from trunkline.ports.store import (
    IdempotencyRecord,
    Scope,
    Snapshot,
    StoredTask,
    TaskPage,
    TaskQuery,
)
from trunkline.stores.sqlite.codes import CODES, STATES
from trunkline.stores.sqlite.statements import SQL

_MAX_SCOPES = 65536


class Reader:
    """Owns a connection that only reads. Every answer is one state of the store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._scopes: dict[Scope, int] = {}

    def close(self) -> None:
        self._db.close()

    def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        scope_id = self._scope_id(scope)
        if scope_id is None:
            return None
        rows = self._db.execute(SQL["get_task"], (task_id, scope_id)).fetchall()
        return self._stored(rows[0], scope) if rows else None

    def claimed(self, key: int) -> StoredTask:
        (row,) = self._db.execute(SQL["get_claimed"], (key,)).fetchall()
        return self._stored(row[:11], Scope(*row[11:]))

    def entries(self, task_id: str, after: int, limit: int) -> tuple[Entry, ...]:
        found = self._db.execute(SQL["find_key"], (task_id,)).fetchall()
        if not found:
            return ()
        rows = self._db.execute(SQL["get_entries"], (found[0][0], after, limit)).fetchall()
        return tuple([Entry(seq, kind, body) for seq, kind, body in rows])

    def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        scope_id = self._scope_id(scope)
        rows = self._db.execute(SQL["get_idempotency"], (scope_id, key)).fetchall()
        return IdempotencyRecord(scope, key, rows[0][0], rows[0][1]) if rows else None

    def list(self, query: TaskQuery) -> TaskPage:
        scope_id = self._scope_id(query.scope)
        if scope_id is None:
            return TaskPage(tasks=(), total=0, next=None)
        # One transaction, so that the total fits the page.
        self._db.execute("BEGIN")
        try:
            return self._list(query, scope_id)
        finally:
            self._db.execute("COMMIT")

    def _list(self, query: TaskQuery, scope_id: int) -> TaskPage:
        filters = ["t.scope = :scope"]
        values: dict[str, Any] = {"scope": scope_id, "limit": query.limit + 1}
        if query.context_id:
            filters.append("t.context = :context")
            values["context"] = query.context_id
        if query.state is not None:
            filters.append("t.state = :state")
            values["state"] = CODES[query.state]
        if query.status_from_ms is not None:
            filters.append("t.status_ms >= :from_ms")
            values["from_ms"] = query.status_from_ms
        if not needs_count(query):
            name = "total_by_counter" if query.state is None else "total_of_state_by_counter"
            total_sql = SQL[name]
        else:
            total_sql = SQL["total_by_index"].format(filters=" AND ".join(filters))
        ((total,),) = self._db.execute(total_sql, values).fetchall()
        if query.after is not None:
            filters.append("(t.status_ms, t.key) < (:after_ms, :after_key)")
            values["after_ms"], values["after_key"] = query.after
        page_sql = SQL["page"].format(
            artifacts="s.artifacts" if query.with_artifacts else "x''",
            filters=" AND ".join(filters),
        )
        rows = self._db.execute(page_sql, values).fetchall()
        has_more = len(rows) > query.limit
        if has_more:
            rows.pop()
        last = rows[-1] if rows else None
        return TaskPage(
            tasks=tuple([self._stored(row, query.scope) for row in rows]),
            total=total,
            next=(last[4], last[0]) if has_more and last else None,
        )

    def _stored(self, row: tuple[Any, ...], scope: Scope) -> StoredTask:
        key, task_id, context, state, status_ms, created_ms, epoch, node, seq, body, artifacts = (
            row[:11]
        )
        snapshot = None if seq is None else Snapshot(seq, body, artifacts)
        tail: tuple[Entry, ...] = ()
        # A list brings the last sequence along, and spares the look at the journal.
        if len(row) == 11 or (row[11] is not None and row[11] > (seq or 0)):
            rows = self._db.execute(SQL["get_tail"], (key, seq or 0)).fetchall()
            tail = tuple([Entry(*entry) for entry in rows])
        return StoredTask(
            task_id=task_id,
            scope=scope,
            context_id=context,
            state=STATES[state],
            status_ms=status_ms,
            created_ms=created_ms,
            last_seq=tail[-1].seq if tail else seq or 0,
            epoch=epoch,
            node=node,
            snapshot=snapshot,
            tail=tail,
        )

    def _scope_id(self, scope: Scope) -> int | None:
        found = self._scopes.get(scope)
        if found is None:
            texts = (scope.agent, scope.tenant, scope.principal)
            for (found,) in self._db.execute(SQL["find_scope"], texts).fetchall():
                if len(self._scopes) >= _MAX_SCOPES:
                    self._scopes.clear()
                self._scopes[scope] = found
        return found


def needs_count(query: TaskQuery) -> bool:
    """Whether the total is counted row by row, for no counter knows it."""
    return bool(query.context_id) or query.status_from_ms is not None
