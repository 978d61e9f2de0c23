"""`PackedChanges` and `Records`: changes of records as a batch carries them, and what is read.

The changes themselves are made by `change_records_1` (migrations/002_records.sql).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from trunkline.model.errors import StoreError, Unstorable
from trunkline.ports.records import Add, Change, Delete, Group, Key, Put, Record
from trunkline.stores.postgres import packing
from trunkline.stores.postgres.connection import Row
from trunkline.stores.postgres.database import Database
from trunkline.stores.records import refusals
from trunkline.stores.records.reader import record_of_row, tags_text
from trunkline.stores.statements import parse_statements

SQL = parse_statements(files(__package__).joinpath("records.sql").read_text("utf-8"))

# How many bytes of a key and a tag an index of PostgreSQL takes.
MAX_KEY_BYTES = 2600

_PUT, _PUT_WITH_TASK, _DELETE, _ADD, _DEFER = range(1, 6)
# A version that no record has.
_NO_VERSION = -1
_MAX_VERSION = 1 << 62


def why_unstorable(changes: Sequence[Change]) -> StoreError | None:
    """Why one of the changes cannot be stored whatever is there; None when all can."""
    refused = refusals.why_unstorable(changes)
    if refused is not None:
        return refused
    for change in changes:
        key = change.key
        text = f"{key.kind}{key.scope}{key.id}"
        size = len(text.encode())
        if isinstance(change, Put) and change.tags:
            size += max([len(tag.encode()) for tag in change.tags])
            text += "".join(change.tags)
        if "\0" in text:
            return Unstorable(f"The record {key} cannot be stored: PostgreSQL takes no U+0000")
        if size > MAX_KEY_BYTES:
            return Unstorable(
                f"The record {key.kind} {key.id[:80]!r}… cannot be stored: its key has {size} "
                f"bytes, with its longest tag; PostgreSQL takes {MAX_KEY_BYTES}"
            )
    return None


class PackedChanges:
    """The changes of the items of a batch, as the arrays of `change_records_1`."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._items: list[int] = []
        self._groups: list[int] = []
        # The item and the place in it of each optional group; their numbers begin at 1.
        self._optional: list[tuple[int, int]] = []
        # The same of those that are not sent, because they cannot be stored.
        self._unstorable: list[tuple[int, int]] = []

    @property
    def has_optional(self) -> bool:
        return bool(self._optional or self._unstorable)

    def __bool__(self) -> bool:
        return bool(self._changes)

    def add(self, item: int, groups: Sequence[Group]) -> None:
        """Add the groups of an item, whose required ones are storable. Changes are made in the
        order in which they were added. Items are numbered from 1."""
        for group in groups:
            if group.is_required:
                self._add(item, 0, group.changes)
        for place, group in enumerate(groups):
            if group.is_required:
                continue
            if why_unstorable(group.changes) is not None:
                self._unstorable.append((item, place))
            else:
                self._optional.append((item, place))
                self._add(item, len(self._optional), group.changes)

    def _add(self, item: int, group: int, changes: tuple[Change, ...]) -> None:
        self._changes += changes
        self._items += [item] * len(changes)
        self._groups += [group] * len(changes)

    def params(self) -> list[bytes]:
        """The values of c_item to c_tags."""
        ops: list[int] = []
        expected: list[int | None] = []
        numbers: list[int | None] = []
        bodies: list[bytes] = []
        tags: list[str | None] = []
        for change in self._changes:
            if isinstance(change, Put):
                ops.append(_PUT_WITH_TASK if change.goes_with_task else _PUT)
                expected.append(_version(change.expected))
                numbers.append(change.due_in_ms)
                bodies.append(change.body)
                tags.append(tags_text(change.tags))
                continue
            bodies.append(b"")
            tags.append(None)
            if isinstance(change, Delete):
                ops.append(_DELETE)
                expected.append(_version(change.expected))
                numbers.append(None)
            elif isinstance(change, Add):
                ops.append(_ADD)
                expected.append(change.at_most)
                numbers.append(change.amount)
            else:
                ops.append(_DEFER)
                expected.append(_version(change.expected))
                numbers.append(change.in_ms)
        keys = [change.key for change in self._changes]
        return [
            packing.int4s(self._items),
            packing.int4s(self._groups),
            packing.int2s(ops),
            packing.texts([key.kind for key in keys]),
            packing.texts([key.scope for key in keys]),
            packing.texts([key.id for key in keys]),
            packing.nullable_int8s(expected),
            packing.nullable_int8s(numbers),
            packing.byteas(bodies),
            packing.texts(tags),
        ]

    def why_refused(self, number: int, stored: int) -> StoreError:
        """The error of an item that the change of this number refused, which found this version or
        count."""
        error = refusals.why_change_refused(self._changes[number - 1], version=stored, count=stored)
        assert error is not None, "the database refuses by the same rules"
        return error

    def skipped(self, groups: Sequence[int] | None) -> dict[int, tuple[int, ...]]:
        """For each item, its optional groups that were skipped, counted from 0."""
        found: dict[int, tuple[int, ...]] = {}
        skipped = [self._optional[number - 1] for number in groups or ()]
        for item, place in sorted(skipped + self._unstorable):
            found[item] = (*found.get(item, ()), place)
        return found


def _version(expected: int | None) -> int | None:
    if expected is None or 0 <= expected < _MAX_VERSION:
        return expected
    return _NO_VERSION


class Records:
    """What the store reads of its records, and how it claims them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: Key) -> Record | None:
        rows = await self._read(SQL["get_record"], key.kind, key.scope, key.id)
        return record_of_row(key, *rows[0]) if rows else None

    async def of_task(self, task_id: str) -> tuple[Record, ...]:
        """The records that go with the task."""
        rows = await self._read(SQL["get_of_task"], task_id)
        return tuple([record_of_row(Key(*row[:3]), *row[3:]) for row in rows])

    async def page(
        self,
        kind: str,
        *,
        scope: str | None,
        tag: str | None,
        after: Key | None,
        limit: int,
        newest_first: bool,
    ) -> tuple[Record, ...]:
        texts = [kind]
        if tag is not None:
            texts.append(tag)
        if scope is not None:
            texts.append(scope)
        if after is not None:
            texts += [after.id] if scope is not None else [after.scope, after.id]
        sql = _page_statement(
            scope is None, tag is None, after is None, newest_first, _at_least(limit)
        )
        rows = await self._read(sql, *texts)
        found = [record_of_row(Key(kind, *row[:2]), *row[2:]) for row in rows[:limit]]
        return tuple(found)

    async def claim_due(
        self, shares: Mapping[str, int], *, lease_ms: int, node: int
    ) -> tuple[Record, ...]:
        """Claim for this node; 0 for a process that is none."""
        params = [
            packing.texts(list(shares)),
            packing.int4s(list(shares.values())),
            packing.int8(lease_ms),
            packing.int8(node),
        ]
        return claimed_records(await self._database.execute(SQL["claim_due"], params))

    async def count_due(self, kind: str, scope: str, *, before_ms: int) -> int:
        params = [kind.encode(), scope.encode(), packing.int8(before_ms)]
        ((count,),) = await self._database.read(SQL["count_due"], params)
        return int(count)

    async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
        params = [kind.encode(), scope.encode(), packing.int8(before_ms), packing.int8(limit)]
        ((count,),) = await self._database.execute(SQL["delete_due"], params)
        return int(count)

    async def _read(self, sql: str, *texts: str) -> list[Row]:
        try:
            params = [text.encode() for text in texts]
        except UnicodeEncodeError:
            return []
        # No stored text has it, and PostgreSQL would refuse the statement.
        if any([b"\0" in each for each in params]):
            return []
        return await self._database.read(sql, params)


def claimed_records(rows: Sequence[Row]) -> tuple[Record, ...]:
    """What `claim_due` gives."""
    return tuple([record_of_row(Key(*row[:3]), *row[3:-1], claimed_ms=row[-1]) for row in rows])


def _at_least(limit: int) -> int:
    """The limit as one of few numbers, so that there are few statements."""
    return 1 << max(limit - 1, 0).bit_length()


@cache
def _page_statement(
    is_any_scope: bool, is_any_tag: bool, is_first: bool, newest_first: bool, limit: int
) -> str:
    by = "r" if is_any_tag else "t"
    direction, sign = ("DESC", "<") if newest_first else ("ASC", ">")
    filters = [f"{by}.kind = $1"]
    if not is_any_tag:
        filters.append("t.tag = $2")
    next_param = len(filters) + 1
    if is_any_scope:
        order = f"{by}.scope {direction}, {by}.id {direction}"
        position = f"({by}.scope, {by}.id) {sign} (${next_param}, ${next_param + 1})"
    else:
        filters.append(f"{by}.scope = ${next_param}")
        order = f"{by}.id {direction}"
        position = f"{by}.id {sign} ${next_param + 1}"
    if not is_first:
        filters.append(position)
    return SQL["page"].format(
        source=SQL["tagged_records" if not is_any_tag else "all_records"],
        filters=" AND ".join(filters),
        order=order,
        limit=limit,
    )
