"""`Reader`: reads committed tasks and records."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import Any

from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.ports.copying import RecordCopy
from trunkline.ports.records import Key, Record
from trunkline.stores.records.reader import RecordReader, record_of_row
from trunkline.stores.sqlite.rows import CODES, MAX_SEQ, SEQ_BITS, STATES, entries_after
from trunkline.stores.sqlite.statements import (
    SQL,
    count_statement,
    needs_count,
    page_statement,
    rows_statement,
)

_MAX_SCOPES = 65536
# Later than any status: all tasks are older.
_FOREVER_MS = (1 << 63) - 1
_STATUS_MS_AND_KEY = itemgetter(4, 0)


class TakesLong(Exception):
    """The answer has a body in slices; ask a reader that has a thread of its own."""


class Reader:
    """Owns a connection that only reads. Every answer is one state of the store."""

    def __init__(self, connection: sqlite3.Connection, *, has_thread: bool = False) -> None:
        """`has_thread`: only the caller waits for it, so a read may take long."""
        self._db = connection
        self.records = RecordReader(connection)
        self._has_thread = has_thread
        self._scopes: dict[port.Scope, int] = {}

    def close(self) -> None:
        self._db.close()

    def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        scope_id = self._scope_id(scope)
        if scope_id is None:
            return None
        # Every read fetches all rows or closes its cursor: an unfinished statement would keep
        # its view of the database, and SQLite could not write the log back.
        rows = self._db.execute(SQL["get_task"], (task_id, scope_id)).fetchall()
        return self._stored(rows[0], scope) if rows else None

    def by_key(self, key: int) -> port.StoredTask | None:
        rows = self._db.execute(SQL["get_by_key"], (key,)).fetchall()
        return self._stored(rows[0][:9], port.Scope(*rows[0][9:])) if rows else None

    def unfinished(self) -> tuple[tuple[port.Scope, str], ...]:
        rows = self._db.execute(SQL["get_unfinished"]).fetchall()
        return tuple([(port.Scope(*row[:3]), row[3]) for row in rows])

    def entries(self, task_id: str, after: int, limit: int) -> tuple[Entry, ...]:
        found = self._db.execute(SQL["find_key"], (task_id,)).fetchall()
        return self._entries(found[0][0], after, limit) if found else ()

    def task_records(self, task_id: str) -> tuple[Record, ...]:
        found = self._db.execute(SQL["find_key"], (task_id,)).fetchall()
        return self.records.of_task(found[0][0]) if found else ()

    def _entries(self, key: int, after: int, limit: int) -> tuple[Entry, ...]:
        start = key << SEQ_BITS
        bounds = (start | min(after, MAX_SEQ), start | MAX_SEQ, limit)
        cursor = self._db.execute(SQL["get_entries"], bounds)
        try:
            return entries_after(cursor, after, limit, self._whole)
        finally:
            cursor.close()

    def _whole(self, body: bytes | int) -> bytes:
        """A body, which may have been written in slices. Raises TakesLong."""
        if isinstance(body, bytes):
            return body
        if not self._has_thread:
            raise TakesLong
        rows = self._db.execute(SQL["get_body"], {"value": body}).fetchall()
        return b"".join([piece for (piece,) in rows])

    def ended(self, agent: str, before_ms: int | None, limit: int) -> list[int]:
        """The numbers of an agent's ended tasks, the longest ended first."""
        before = _FOREVER_MS if before_ms is None else before_ms
        places = self._db.execute(SQL["get_ended"], (agent,)).fetchall()
        found: list[tuple[int, int]] = []
        for scope, state, _ in places:
            found += self._db.execute(SQL["find_ended"], (scope, state, before, limit)).fetchall()
        return [key for _, key in nsmallest(limit, found)]

    def owner(self, task_id: str) -> port.Scope | None:
        rows = self._db.execute(SQL["get_scope"], (task_id,)).fetchall()
        return port.Scope(*rows[0]) if rows else None

    def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        scope_id = self._scope_id(scope)
        sizes: dict[str, int] = {}
        for value_id in ids:
            for (size,) in self._db.execute(SQL["get_value_size"], (value_id, scope_id)).fetchall():
                sizes[value_id] = size
        return sizes

    def value_slices(self, value_id: str, first: int, limit: int) -> tuple[bytes, ...]:
        where = {"id": value_id, "first": first, "limit": limit}
        return tuple([body for (body,) in self._db.execute(SQL["get_slices"], where).fetchall()])

    def loose_values(self, limit: int) -> list[int]:
        return [row[0] for row in self._db.execute(SQL["get_loose_values"], (limit,)).fetchall()]

    def list(self, query: port.TaskQuery) -> port.TaskPage:
        scope_id = self._scope_id(query.scope)
        if scope_id is None:
            return port.TaskPage(tasks=(), total=0, next=None)
        # One transaction, so that the total fits the page.
        self._db.execute("BEGIN")
        try:
            return self._list(query, scope_id)
        finally:
            self._db.execute("COMMIT")

    def _list(self, query: port.TaskQuery, scope_id: int) -> port.TaskPage:
        values: dict[str, Any] = {
            "scope": scope_id,
            "context": query.context_id,
            "from_ms": query.status_from_ms,
            "limit": query.limit + 1,
        }
        if query.after is not None:
            values["after_ms"], values["after_key"] = query.after
        counts = dict(self._db.execute(SQL["get_counts"], values).fetchall())
        if query.state is not None:
            state = CODES[query.state]
            counts = {state: counts[state]} if state in counts else {}
        if not counts:
            return port.TaskPage(tasks=(), total=0, next=None)
        total = sum(counts.values())
        if needs_count(query):
            sql = count_statement(tuple(counts), query)
            ((total,),) = self._db.execute(sql, values).fetchall()
        rows = self._db.execute(page_statement(tuple(counts), query), values).fetchall()
        rows.sort(key=_STATUS_MS_AND_KEY, reverse=True)
        has_more = len(rows) > query.limit
        if has_more:
            rows.pop()
        return port.TaskPage(
            tasks=tuple([self._stored(row, query.scope) for row in rows]),
            total=total,
            next=(rows[-1][4], rows[-1][0]) if has_more else None,
        )

    def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        self._db.execute("BEGIN")
        try:
            return self._list_all(query)
        finally:
            self._db.execute("COMMIT")

    def _list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        agents = None if query.agents is None else json.dumps(query.agents)
        owners = {
            "agent": query.agent,
            "principal": query.principal,
            "tenant": query.tenant,
            "agents": agents,
        }
        wanted = [CODES[state] for state in query.states] or list(CODES.values())
        after = query.after or (_FOREVER_MS, 0)
        values = {"after_ms": after[0], "after_key": after[1], "limit": query.limit + 1}
        first_ms = -_FOREVER_MS if query.status_from_ms is None else query.status_from_ms
        places = self._db.execute(SQL["get_places"], owners).fetchall()
        if query.context_id:
            return self._list_context(query, places, wanted, after, first_ms)
        # The latest tasks so far, the oldest of them first.
        page: list[tuple[int, int]] = []
        scopes: dict[int, port.Scope] = {}
        total = 0
        for scope_id, state, count, *scope in places:
            if state not in wanted:
                continue
            place = {"scope": scope_id, "state": state, "from_ms": first_ms}
            if query.status_from_ms is not None:
                ((count,),) = self._db.execute(SQL["count_recent"], place).fetchall()
            total += count
            if len(page) > query.limit:
                # Nothing older than the page has a place on it.
                place["from_ms"] = max(first_ms, page[0][0])
            found = self._db.execute(SQL["get_latest"], values | place).fetchall()
            scopes |= {key: port.Scope(*scope) for _, key in found}
            page = sorted([*page, *found])[-query.limit - 1 :]
        return self._page_of(query, page, scopes, total)

    def _list_context(
        self,
        query: port.OperatorQuery,
        places: Sequence[tuple[Any, ...]],
        wanted: Sequence[int],
        after: tuple[int, int],
        first_ms: int,
    ) -> port.TaskPage:
        page: list[tuple[int, int]] = []
        scopes: dict[int, port.Scope] = {}
        total = 0
        for scope_id, scope in {place[0]: port.Scope(*place[3:]) for place in places}.items():
            place = {"scope": scope_id, "context": query.context_id, "from_ms": first_ms}
            for status_ms, key, state in self._db.execute(SQL["get_conversation"], place):
                if state not in wanted:
                    continue
                total += 1
                if (status_ms, key) < after:
                    page.append((status_ms, key))
                    scopes[key] = scope
        return self._page_of(query, sorted(page)[-query.limit - 1 :], scopes, total)

    def _page_of(
        self,
        query: port.OperatorQuery,
        page: Sequence[tuple[int, int]],
        scopes: Mapping[int, port.Scope],
        total: int,
    ) -> port.TaskPage:
        """`page` has one task more than the limit where there is another page, oldest first."""
        listed = page[::-1][: query.limit]
        sql = rows_statement([key for _, key in listed])
        rows = self._db.execute(sql, {"limit": len(listed)}).fetchall()
        rows.sort(key=_STATUS_MS_AND_KEY, reverse=True)
        tailed = not query.without_tails
        return port.TaskPage(
            tasks=tuple([self._stored(row, scopes[row[0]], with_tail=tailed) for row in rows]),
            total=total,
            next=listed[-1] if len(page) > query.limit else None,
            places=tuple([(row[4], row[0]) for row in rows]),
        )

    def tasks_after(self, number: int | None, limit: int) -> Sequence[tuple[int, port.Scope, str]]:
        where = (-1 if number is None else number, limit)
        rows = self._db.execute(SQL["get_tasks_after"], where).fetchall()
        return [(key, port.Scope(*scope), task_id) for key, *scope, task_id in rows]

    def records_after(self, key: Key | None, limit: int) -> Sequence[RecordCopy]:
        place = ("", "", "") if key is None else (key.kind, key.scope, key.id)
        rows = self._db.execute(SQL["get_records_after"], (*place, limit)).fetchall()
        return [
            RecordCopy(
                record=record_of_row(Key(*row[:3]), *row[3:9]),
                task_id=row[9] or "",
                held_until_ms=row[10] or 0,
            )
            for row in rows
        ]

    def scopes(self) -> tuple[port.Scope, ...]:
        return tuple([port.Scope(*row) for row in self._db.execute(SQL["get_scopes"]).fetchall()])

    def count_ended(self, agent: str, before_ms: int | None) -> int:
        places = self._db.execute(SQL["get_ended"], (agent,)).fetchall()
        if before_ms is None:
            return sum(count for _, _, count in places)
        return sum(
            self._db.execute(SQL["count_ended"], (scope, state, before_ms)).fetchall()[0][0]
            for scope, state, _ in places
        )

    def _stored(
        self, row: tuple[Any, ...], scope: port.Scope, *, with_tail: bool = True
    ) -> port.StoredTask:
        key, task_id, context, state, status_ms, created_ms, seq, body, artifacts = row[:9]
        snapshot = None
        if seq is not None:
            if type(body) is int or type(artifacts) is int:
                body, artifacts = self._whole(body), self._whole(artifacts)
            snapshot = port.Snapshot(seq, body, artifacts)
            # SQLite does not notice an empty page inside a long value, and JSON has no such byte.
            if b"\0" in snapshot.task or b"\0" in snapshot.artifacts:
                raise ValueError(f"the snapshot of task {task_id} is damaged")
        folded = last = seq or 0
        tail: tuple[Entry, ...] = ()
        # A row of a list includes the last sequence, which spares a look at the journal.
        if len(row) == 10:
            last = max(row[9] or 0, folded)
        if with_tail and (len(row) == 9 or last > folded):
            tail = self._entries(key, folded, -1)
            last = tail[-1].seq if tail else folded
        return port.StoredTask(
            task_id=task_id,
            scope=scope,
            context_id=context,
            state=STATES[state],
            status_ms=status_ms,
            created_ms=created_ms,
            last_seq=last,
            snapshot=snapshot,
            tail=tail,
        )

    def _scope_id(self, scope: port.Scope) -> int | None:
        found = self._scopes.get(scope)
        if found is None:
            texts = (scope.agent, scope.tenant, scope.principal)
            for (found,) in self._db.execute(SQL["find_scope"], texts).fetchall():
                if len(self._scopes) >= _MAX_SCOPES:
                    self._scopes.clear()
                self._scopes[scope] = found
        return found
