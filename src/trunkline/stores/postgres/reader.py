"""`Reader`: reads committed tasks.

Each answer comes from one statement, so it is one state of the store. Only bodies that lie in
slices are read after it; they do not change, and stay for a while after they were replaced.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import repeat
from typing import Any, Protocol

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.model.events import Entry
from trunkline.ports import store as port
from trunkline.stores.postgres.connection import Params, Row
from trunkline.stores.postgres.packing import boolean, int2s, int4, int4s, int8, searched, texts
from trunkline.stores.postgres.rows import TimedRow, entries_after, number_in, numbers_in, plain
from trunkline.stores.sqlite.rows import CODES, STATES
from trunkline.stores.statements import Statements

SQL = Statements(files(__package__).joinpath("reader.sql").read_text("utf-8"))

# Later and earlier than any status.
_FOREVER_MS = (1 << 63) - 1
_NEVER_MS = -_FOREVER_MS
_ALL_STATES = int2s(tuple(CODES.values()))
# How many slices one statement reads: 4 MB.
_SLICES = 16
_MAX_SEQ = (1 << 31) - 1
_MAX_SCOPES = 65536
# Errors of reading a row that has changed since it was written.
_UNREADABLE = (msgspec.DecodeError, LookupError, ValueError)


class Reads(Protocol):
    """What a `Reader` reads through: a `Database`, or one connection."""

    name: str

    async def read(self, sql: str, params: Params = ()) -> list[Row]: ...


class Reader:
    def __init__(self, database: Reads) -> None:
        self._database = database
        # By their number in the database. They never change.
        self._scopes: dict[int, port.Scope] = {}

    async def get(self, scope: port.Scope, task_id: str) -> port.StoredTask | None:
        return await self._one(_GET_TASK, (searched(task_id), *_owner(scope)), scope)

    async def by_key(self, key: int) -> port.StoredTask | None:
        """One task, whoever its caller is."""
        return await self._one(_GET_BY_KEY, (int8(key),), None)

    async def key(self, task_id: str) -> int | None:
        """The number of a task in the database."""
        rows = await self._read("get_key", searched(task_id))
        return rows[0][0] if rows else None

    async def owner(self, task_id: str) -> port.Scope | None:
        rows = await self._read("get_owner", searched(task_id))
        return port.Scope(*rows[0]) if rows else None

    async def entries(self, task_id: str, after: int, limit: int) -> tuple[Entry, ...]:
        limit = min(limit, _MAX_SEQ)
        sql = _entries(_most(limit))
        params = (searched(task_id), int4(min(after, _MAX_SEQ)), int4(limit))
        rows: list[Any] = await self._database.read(sql, params)
        try:
            return entries_after(rows, after, limit, await self._bodies(numbers_in(rows)))
        except _UNREADABLE as error:
            raise self._damaged(f"the journal of task {task_id}", error) from error

    async def list(self, query: port.TaskQuery) -> port.TaskPage:
        context = query.context_id
        if context:
            sql = _PAGE_OF_CONTEXT
        else:
            sql = _page("places_of_caller", _counted(query), _most(query.limit + 1))
        states = _ALL_STATES if query.state is None else int2s([CODES[query.state]])
        who = _owner(query.scope)
        params = _page_params(query, who, states, with_artifacts=query.with_artifacts)
        rows = await self._database.read(sql, (*params, searched(context)) if context else params)
        return await self._page(rows, query.limit, query.scope)

    async def list_all(self, query: port.OperatorQuery) -> port.TaskPage:
        context, is_bare = query.context_id, query.without_tails
        if context:
            sql = _page_of_context_of_all(is_bare=is_bare)
        else:
            most = _most(query.limit + 1)
            sql = _page("places_of_all", _counted(query), most, is_bare=is_bare)
        states = int2s([CODES[state] for state in query.states]) if query.states else _ALL_STATES
        agent = searched(query.agent)
        tenant = None if query.tenant is None else searched(query.tenant)
        if tenant is None and query.tenant is not None:
            # NULL would mean all tenants.
            agent = None
        who = (agent, tenant, searched(query.principal))
        agents = None
        if query.agents is not None:
            agents = texts([each for each in query.agents if searched(each) is not None])
        params = (*_page_params(query, who, states), agents)
        rows = await self._database.read(sql, (*params, searched(context)) if context else params)
        return await self._page(rows, query.limit, None)

    async def unfinished(self) -> tuple[tuple[port.Scope, str], ...]:
        rows = await self._read("get_unfinished")
        return tuple([(port.Scope(*row[:3]), row[3]) for row in rows])

    async def scopes(self) -> tuple[port.Scope, ...]:
        return tuple([port.Scope(*row) for row in await self._read("get_scopes")])

    async def count_ended(self, agent: str, before_ms: int | None) -> int:
        if before_ms is None:
            rows = await self._read("count_ended", searched(agent))
        else:
            rows = await self._read("count_ended_before", searched(agent), int8(before_ms))
        count: int = rows[0][0]
        return count

    async def value_sizes(self, scope: port.Scope, ids: Sequence[str]) -> dict[str, int]:
        storable = [value_id for value_id in ids if searched(value_id) is not None]
        return dict(await self._read("get_value_sizes", texts(storable), *_owner(scope)))

    async def value_slices(self, value_id: str, first: int, limit: int) -> tuple[bytes, ...]:
        rows = await self._read("get_slices", searched(value_id), int4(first), int4(limit))
        return tuple([body for (body,) in rows])

    async def _read(self, name: str, *params: bytes | None) -> Sequence[Row]:
        return await self._database.read(SQL[name], params)

    async def _one(
        self, sql: str, params: Params, scope: port.Scope | None
    ) -> port.StoredTask | None:
        rows = await self._database.read(sql, params)
        if not rows:
            return None
        if scope is None:
            scope = (await self._scopes_of(rows))[rows[0][2]]
        try:
            return _stored(rows[0], scope, await self._bodies(_numbers(rows[0])))
        except _UNREADABLE as error:
            raise self._damaged(f"task {rows[0][1]}", error) from error

    async def _page(
        self, rows: Sequence[Row], limit: int, scope: port.Scope | None
    ) -> port.TaskPage:
        total: int = rows[0][0]
        # The one row of an empty page has the total alone.
        found = [row[1:] for row in rows if row[1] is not None]
        has_more = len(found) > limit
        del found[limit:]
        scopes = await self._scopes_of(found) if scope is None else {}
        bodies = await self._bodies([number for row in found for number in _numbers(row)])
        try:
            tasks = tuple([_stored(row, scope or scopes[row[2]], bodies) for row in found])
        except _UNREADABLE as error:
            raise self._damaged("a page of tasks", error) from error
        next_after = (found[-1][5], found[-1][0]) if has_more else None
        places = tuple([(row[5], row[0]) for row in found]) if scope is None else ()
        return port.TaskPage(tasks=tasks, total=total, next=next_after, places=places)

    def _damaged(self, what: str, error: Exception) -> StoreUnusable:
        return StoreUnusable(
            f"The store {self._database.name} has damaged data in {what}: {error!r}. "
            "Run `trunkline db check`."
        )

    async def _scopes_of(self, rows: Iterable[Row]) -> dict[int, port.Scope]:
        """The scopes of these tasks, by their number."""
        wanted = {row[2] for row in rows}
        known = self._scopes
        if new := [number for number in wanted if number not in known]:
            if len(known) + len(new) > _MAX_SCOPES:
                # Not cleared: another read may be about to look into it.
                known = self._scopes = {}
                new = [*wanted]
            for number, *names in await self._read("get_scopes_by_id", int4s(new)):
                known[number] = port.Scope(*names)
        return known

    async def _bodies(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Bodies that lie in slices, by the number of the value."""
        found: dict[int, bytes] = {}
        for number in numbers:
            pieces: list[bytes] = []
            more: Sequence[Row] = ()
            while not pieces or len(more) == _SLICES:
                place = (int8(number), int4(len(pieces)), int4(_SLICES))
                more = await self._read("get_body", *place)
                if not more:
                    break
                pieces += [body for (body,) in more]
            if not pieces:
                raise StoreUnusable(
                    f"The store {self._database.name} lacks the slices of value {number}. "
                    "`trunkline db check` names the task; restore a backup if it does."
                )
            found[number] = b"".join(pieces)
        return found


def _owner(scope: port.Scope) -> tuple[bytes | None, ...]:
    return searched(scope.agent), searched(scope.tenant), searched(scope.principal)


def _page_params(
    query: port.TaskQuery | port.OperatorQuery,
    who: tuple[bytes | None, ...],
    states: bytes,
    *,
    with_artifacts: bool = False,
) -> tuple[bytes | None, ...]:
    after_ms, after_key = query.after or (_FOREVER_MS, _FOREVER_MS)
    since_ms = _NEVER_MS if query.status_from_ms is None else query.status_from_ms
    return (
        boolean(with_artifacts),
        # One more, which says whether there is another page.
        int8(query.limit + 1),
        *who,
        states,
        int8(after_ms),
        int8(after_key),
        int8(since_ms),
    )


def _counted(query: port.TaskQuery | port.OperatorQuery) -> str:
    return "counted_all" if query.status_from_ms is None else "counted_recent"


def _most(limit: int) -> int:
    """At least the limit, and one of few numbers: each is a statement of its own."""
    return 1 << max(limit - 1, 63).bit_length()


@cache
def _entries(most: int) -> str:
    return SQL["get_entries"].format(most=most)


@cache
def _page(places: str, counted: str, most: int, *, is_bare: bool = False) -> str:
    rows = _BARE_ROWS if is_bare else _ROWS
    return SQL["page"].format(places=SQL[places], counted=SQL[counted], rows=rows, most=most)


@cache
def _page_of_context_of_all(*, is_bare: bool) -> str:
    return SQL["page_of_context_of_all"].format(rows=_BARE_ROWS if is_bare else _ROWS)


_ROWS = SQL["rows"].format(tail=SQL["tail"])
_BARE_ROWS = SQL["rows"].format(tail=SQL["no_tail"])
_GET_TASK = SQL["get_task"].format(tail=SQL["tail"])
_GET_BY_KEY = SQL["get_by_key"].format(tail=SQL["tail"])
_PAGE_OF_CONTEXT = SQL["page_of_context"].format(rows=_ROWS)


def _numbers(row: Row) -> list[int]:
    """The large values that `_stored` needs for a row."""
    body, artifacts, seqs, kinds, bodies = row[9:]
    found = [number_in(piece) for piece in (body or b"", artifacts or b"")]
    numbers = [number for number in found if number is not None]
    return numbers if seqs is None else numbers + numbers_in(zip(seqs, kinds, bodies, strict=True))


def _stored(row: Row, scope: port.Scope, values: dict[int, bytes]) -> port.StoredTask:
    _, task_id, _, context, state, status_ms, created_ms, last_seq, *rest = row
    seq, body, artifacts, seqs, kinds, bodies = rest
    snapshot = None
    if seq is not None:
        snapshot = port.Snapshot(seq, plain(body, values), plain(artifacts, values))
    tail: tuple[Entry, ...] = ()
    if seqs is not None:
        rows: Iterable[TimedRow] = zip(seqs, kinds, bodies, repeat(None, len(seqs)), strict=True)
        tail = entries_after(rows, seq or 0, -1, values)
    return port.StoredTask(
        task_id=task_id,
        scope=scope,
        context_id=context,
        state=STATES[state],
        status_ms=status_ms,
        created_ms=created_ms,
        last_seq=last_seq,
        snapshot=snapshot,
        tail=tail,
    )
