"""`StagedBatch`: the items of one commit as parameters of `append_1`, and its answer as results.

Appends of one task become one, because a task has one slot in a batch.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.model.errors import LeaseLost, StaleSeq, StoreError, StoreUnusable, Unstorable
from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.cluster import read_lane_name
from trunkline.ports.records import Committed, Group
from trunkline.ports.store import Append, Result, Scope, Settled, Snapshot
from trunkline.stores.commits import Item, why_refused
from trunkline.stores.large_appends import is_large
from trunkline.stores.postgres import records
from trunkline.stores.postgres.packing import (
    byteas,
    int2s,
    int4,
    int4s,
    int8s,
    nullable_int8s,
    texts,
)
from trunkline.stores.postgres.records import PackedChanges
from trunkline.stores.postgres.rows import event_rows, stored_or_mark
from trunkline.stores.sqlite.rows import CODES, MAX_SEQ, by_time

# What one commit takes. The server works on a batch of this size for some 10 ms, and all that is
# submitted meanwhile waits.
MAX_ITEMS = 256
MAX_CHANGES = 256
MAX_BYTES = 4 * 1024 * 1024

# An entry of an index of PostgreSQL has at most 2,704 bytes.
_MAX_TEXT_BYTES = 2600

# Number and size of the large values whose slices are written: texts by the id of the value,
# bodies by the identity of the object.
Written: TypeAlias = Mapping[str | int, tuple[int, int]]

_NOT_OURS = -1
_STALE = -2
_lane_and_task = attrgetter("lane", "task_id")


class _Slot(Struct, eq=False, gc=False):
    """What the batch does to one task, by one or more appends."""

    lane: str
    task_id: str
    first: Append
    last: Append
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None
    last_seq: int
    # Places of the appends in the batch.
    places: list[int]
    # The expected sequence, and -n for the n-th task that the batch creates.
    was: int
    is_large: bool

    def add(self, append: Append, place: int) -> None:
        self.last = append
        self.entries += append.entries
        self.last_seq += len(append.entries)
        if append.snapshot is not None:
            self.snapshot = append.snapshot
        self.places.append(place)


class StagedBatch:
    def __init__(self, items: Sequence[tuple[Item, Settled]], written: Written) -> None:
        """Take as many of the items as one commit may have, at least one."""
        self._written = written
        # Refused before they are sent, by place.
        self._refused: dict[int, StoreError] = {}
        self._by_task: dict[str, _Slot] = {}
        # Groups of changes that belong to no append, with their places.
        self._groups: list[tuple[int, Group]] = []
        # Scopes of new tasks.
        self.scopes: set[Scope] = set()
        # How many of the items the batch has, and how many tasks it creates.
        self.count = 0
        self._new = 0
        size = changes = 0
        for place, (item, _) in enumerate(items[:MAX_ITEMS]):
            if isinstance(item, Append):
                size += item.counted_bytes or item.size_bytes
                if item.also:
                    changes += sum([len(group.changes) for group in item.also])
            else:
                changes += len(item.changes)
            is_full = size > MAX_BYTES or changes > MAX_CHANGES
            if (is_full and place) or not self._take(item, place):
                break
            self.count += 1
        # Each lane and each task is locked in this order.
        self._slots = sorted(self._by_task.values(), key=_lane_and_task)
        self._changes = PackedChanges()
        if changes:
            self._add_changes()

    def _take(self, item: Item, place: int) -> bool:
        """Whether the item can be in this batch."""
        if not isinstance(item, Append):
            unstorable = records.why_unstorable(item.changes)
            if unstorable is None:
                self._groups.append((place, item))
            else:
                self._refused[place] = unstorable
            return True
        slot = self._by_task.get(item.task_id)
        if slot is not None:
            if not _can_follow(item, slot):
                return False
            slot.add(item, place)
            return True
        refused = _why_unstorable(item)
        if refused is not None:
            self._refused[place] = refused
            return True
        slot = self._by_task[item.task_id] = _slot(item, place)
        if item.creation is not None:
            self.scopes.add(item.creation.scope)
            if not item.expected_seq or item.begins_pruned:
                self._new += 1
                slot.was = -self._new
        return True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be sent."""
        return not self._slots and not self._groups

    def params(self, scopes: Mapping[Scope, int]) -> list[bytes | None]:
        """The parameters of `append_1` behind the first three. `scopes` has the numbers of all
        `scopes`."""
        params: list[bytes | None] = [int4(self._new)]
        if self._slots:
            self._pack_appends(params, scopes)
            self._pack_rows(params)
            self._pack_large_values(params)
        else:
            params += [None] * 22
        params.append(int4(len(self._groups)))
        params += self._changes.params() if self._changes else [None] * 10
        return params

    def _add_changes(self) -> None:
        """Pack the changes in the order of submission, whatever the slots of their items."""
        found: list[tuple[int, int, Sequence[Group]]] = [
            (slot.places[0], number, slot.first.also)
            for number, slot in enumerate(self._slots, 1)
            if slot.first.also
        ]
        for number, (place, group) in enumerate(self._groups, len(self._slots) + 1):
            found.append((place, number, (group,)))
        for _, number, groups in sorted(found):
            self._changes.add(number, groups)

    def _pack_appends(self, params: list[bytes | None], scopes: Mapping[Scope, int]) -> None:
        slots = self._slots
        creations = [slot.first.creation for slot in slots]
        params += (
            texts([slot.lane for slot in slots]),
            int8s([slot.first.epoch for slot in slots]),
            texts([slot.task_id for slot in slots]),
            int4s([slot.was for slot in slots]),
            int4s([slot.last_seq for slot in slots]),
            int2s([CODES[slot.last.state] for slot in slots]),
            int8s([slot.last.status_ms for slot in slots]),
            int4s([0 if each is None else scopes[each.scope] for each in creations]),
            texts(["" if each is None else each.context_id for each in creations]),
            int8s([0 if each is None else each.created_ms for each in creations]),
        )

    def _pack_rows(self, params: list[bytes | None]) -> None:
        numbers: Mapping[int, int] = {}
        places: list[int] = []
        seqs: list[int] = []
        kinds: list[str] = []
        bodies: list[bytes] = []
        with_snapshot: list[tuple[int, Snapshot]] = []
        for number, slot in enumerate(self._slots, 1):
            if slot.is_large:
                numbers = _numbers(self._written)
            for run in _runs(slot):
                for seq, kind, body in event_rows(run, numbers):
                    places.append(number)
                    seqs.append(seq)
                    kinds.append(kind)
                    bodies.append(body)
            if slot.snapshot is not None:
                with_snapshot.append((number, slot.snapshot))
        if places:
            params += (int4s(places), int4s(seqs), texts(kinds), byteas(bodies))
        else:
            params += (None, None, None, None)
        if with_snapshot:
            params += (
                int4s([number for number, _ in with_snapshot]),
                int4s([snapshot.seq for _, snapshot in with_snapshot]),
                byteas([stored_or_mark(each.task, numbers) for _, each in with_snapshot]),
                byteas([stored_or_mark(each.artifacts, numbers) for _, each in with_snapshot]),
            )
        else:
            params += (None, None, None, None)

    def times(self) -> list[bytes | None]:
        """The parameters behind those of `append_1` where the rows keep the times that they have:
        task, sequence and time of each. Empty where the database sets them."""
        if not any([slot.last.keeps_times for slot in self._slots]):
            return []
        numbers = _numbers(self._written)
        rows = [
            (slot.task_id, seq, run[0].committed_ms)
            for slot in self._slots
            if slot.last.keeps_times
            for run in _runs(slot)
            for seq, _, _ in event_rows(run, numbers)
        ]
        return [
            texts([task_id for task_id, _, _ in rows]),
            int4s([seq for _, seq, _ in rows]),
            nullable_int8s([committed_ms for _, _, committed_ms in rows]),
        ]

    def _pack_large_values(self, params: list[bytes | None]) -> None:
        found: list[tuple[int, int, str, int]] = []
        for place, slot in enumerate(self._slots, 1):
            if not slot.is_large:
                continue
            for value in slot.first.values:
                number, size = self._written[value.id]
                found.append((place, number, value.id, size))
            bodies = [("entry", entry.body) for entry in slot.entries]
            if slot.snapshot is not None:
                bodies += [("snapshot", slot.snapshot.task), ("snapshot", slot.snapshot.artifacts)]
            for what, body in bodies:
                if len(body) > SLICE_BYTES:
                    number, size = self._written[id(body)]
                    found.append((place, number, f"{what}:{number}", size))
        if found:
            slots, numbers, ids, sizes = zip(*found, strict=True)
            params += (int4s(slots), int8s(numbers), texts(ids), int8s(sizes))
        else:
            params += (None, None, None, None)

    def results(self, answer: Sequence[Any]) -> tuple[list[Result], list[int]]:
        """The result of each item, and the places of those that have none, because the append that
        they were one with was refused without them."""
        epochs, codes, seen, skipped_groups = answer
        results: list[Result] = [None] * self.count
        again: list[int] = []
        for place, refused in self._refused.items():
            results[place] = refused
        skipped = self._changes.skipped(skipped_groups) if self._changes.has_optional else {}
        if epochs is None and codes is None and not skipped:
            return results, again
        for index, slot in enumerate(self._slots):
            if codes is not None and codes[index]:
                results[slot.places[0]] = self._refusal(slot.first, codes[index], seen[index])
                again += slot.places[1:]
                continue
            epoch = 0 if epochs is None else epochs[index]
            if epoch or index + 1 in skipped:
                committed = Committed(skipped.get(index + 1, ()), epoch)
                for place in slot.places:
                    results[place] = committed
        if codes is not None:
            for index, (place, _) in enumerate(self._groups, len(self._slots)):
                if codes[index]:
                    results[place] = self._changes.why_refused(codes[index], seen[index])
        again.sort()
        return results, again

    def _refusal(self, append: Append, code: int, seen: int) -> StoreError:
        if code == _NOT_OURS:
            return LeaseLost(f"Lane {append.lane} belongs to another node, or to none")
        if code == _STALE:
            return why_refused(append, seen) or StaleSeq(f"Task {append.task_id} exists already")
        return self._changes.why_refused(code, seen)


def _slot(append: Append, place: int) -> _Slot:
    entries = append.entries
    last_seq = append.expected_seq + len(entries)
    if not last_seq and append.snapshot is not None:
        last_seq = append.snapshot.seq
    large = (append.counted_bytes or append.size_bytes) > SLICE_BYTES or append.values
    return _Slot(
        append.lane,
        append.task_id,
        append,
        append,
        entries,
        append.snapshot,
        last_seq,
        [place],
        append.expected_seq,
        bool(large) and is_large(append),
    )


def _runs(slot: _Slot) -> Sequence[Sequence[Entry]]:
    """The entries that may share a row: all of them, unless they keep different times."""
    if not slot.last.keeps_times:
        return (slot.entries,)
    return [run for _, run in by_time(slot.entries)]


def _can_follow(append: Append, slot: _Slot) -> bool:
    """Whether the append can be one with those before it of the same task."""
    first = slot.first
    return (
        not append.also
        and not first.also
        and not slot.is_large
        and append.expected_seq == slot.last_seq > 0
        and append.lane == first.lane
        and append.epoch == first.epoch
        and append.keeps_times == first.keeps_times
        and not append.values
        and (append.counted_bytes or append.size_bytes) <= SLICE_BYTES
        and _why_unstorable(append) is None
    )


def _numbers(written: Written) -> dict[int, int]:
    return {key: number for key, (number, _) in written.items() if isinstance(key, int)}


def _why_unstorable(append: Append) -> StoreError | None:
    """Why the append cannot be committed whatever is in the database; None when it may be.
    PostgreSQL would refuse all that is in the same batch."""
    expected, entries, creation = append.expected_seq, append.entries, append.creation
    if (entries and entries[-1].seq != expected + len(entries)) or not (expected or creation):
        return why_refused(append, expected)
    if expected + len(entries) > MAX_SEQ:
        return StoreUnusable(f"Task {append.task_id} has {MAX_SEQ} journal entries; no more fit")
    text = append.task_id + append.lane
    if creation is not None:
        scope = creation.scope
        text += creation.context_id + scope.agent + scope.tenant + scope.principal
    is_plain = text.isascii() and "\0" not in text and "\\u0000" not in text and len(text) < 1000
    refused: StoreError | None = None if is_plain else _why_text_unstorable(append)
    for group in append.also:
        if refused is None and group.is_required:
            refused = records.why_unstorable(group.changes)
    return refused


def _why_text_unstorable(append: Append) -> Unstorable | None:
    named = {"id": append.task_id, "lane": append.lane}
    if append.lane:
        named["lane's name"] = "".join(_lane_texts(append.lane))
    if append.creation is not None:
        scope = append.creation.scope
        named["contextId"] = append.creation.context_id
        named["owner"] = scope.agent + scope.tenant + scope.principal
    for name, text in named.items():
        reason = ""
        if "\0" in text:
            reason = "has the character U+0000, which PostgreSQL does not store"
        else:
            try:
                if len(text.encode()) > _MAX_TEXT_BYTES:
                    reason = f"is longer than {_MAX_TEXT_BYTES} bytes"
            except UnicodeEncodeError as error:
                reason = f"cannot be encoded: {error.reason}"
        if reason:
            return Unstorable(f"The task {append.task_id!r} cannot be stored: its {name} {reason}")
    return None


def _lane_texts(lane: str) -> tuple[str, ...]:
    scope, name = read_lane_name(lane)
    return (scope.agent, scope.tenant, scope.principal, name)
