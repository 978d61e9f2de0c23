"""`MainStore`: changes of the main store that are committed together with a task of any store.

Registry, tokens, audit and sessions are in the gateway's main store. Where a task is in another
store, a change that belongs to it is committed there, as an entry of an outbox in the same append.
Due work then makes the change in the main store, together with a *marker* whose id is that of the
entry and which must be new. So the change is made exactly once, whatever process dies meanwhile.

The entries of a scope are worked off in the order in which they were committed, unless the clock
was set back in between.
"""

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs

from trunkline.model.errors import (
    LimitReached,
    RecordConflict,
    StoreError,
    Unavailable,
    Unstorable,
)
from trunkline.ports.clock import Ids
from trunkline.ports.records import Add, Change, Defer, Delete, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DEAD, DueKind, retry_after_s

_log = logging.getLogger("trunkline.due")

OUTBOX = "outbox.1"
MARKER = "outbox-done.1"
# For how long the main store knows that an entry was worked off, and for how long an entry is tried
# again. The day between them is for clocks that do not run alike.
MARKER_KEPT_MS = 30 * 24 * 3600 * 1000
_TRIED_MS = MARKER_KEPT_MS - 24 * 3600 * 1000

MainChange: TypeAlias = Put | Delete | Add


class _Stored(Struct, frozen=True, omit_defaults=True):
    """A change in the body of an entry: one of the three is set."""

    put: Put | None = None
    delete: Delete | None = None
    add: Add | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[_Stored, ...]).decode


def nothing() -> None:
    """Where the due work of the main store is that of the tasks."""


class MainStore(Struct, frozen=True, kw_only=True, eq=False):
    """The way from the tasks of one store to the main store."""

    # Returns the main store, and opens it before if no agent has its tasks there. Raises
    # StoreError, or Unavailable while the gateway stops.
    open: Callable[[], Awaitable[Store]]
    # Whether the tasks are in the main store itself.
    has_tasks: bool
    ids: Ids
    # Has the due work of the main store looked for, after a change of it.
    wake: Callable[[], None] = nothing

    @classmethod
    def own(cls, store: Store, *, ids: Ids) -> "MainStore":
        """For tasks in the main store itself."""

        async def main() -> Store:
            return store

        return cls(open=main, has_tasks=True, ids=ids)

    def changes(self, scope: str, *changes: MainChange) -> tuple[Change, ...]:
        """What to commit with a task, in a group of its append, to make these changes of the main
        store. `DueWork.wake` after the commit has them made at once.

        The main store makes all of them or, when they meet another version than they expect or a
        limit, none: the entry then stays in the outbox as a dead letter.
        """
        if self.has_tasks:
            return changes
        body = _encode([_stored(change) for change in changes])
        return (Put(key=Key(OUTBOX, scope, self.ids.new()), body=body, due_in_ms=0, expected=0),)

    def due_kinds(self) -> tuple[DueKind, ...]:
        """The due work of the store that has the tasks."""
        if self.has_tasks:
            return (DueKind(name=MARKER, handle=_forget),)
        # An entry waits for as long as the main store is unusable.
        return (DueKind(name=OUTBOX, handle=self._work_off, max_attempts=sys.maxsize),)

    async def _work_off(self, entry: Record) -> Sequence[Change]:
        try:
            return await self._apply(entry, await self.open())
        except (StoreError, Unavailable) as error:
            delay_s = retry_after_s(entry.attempts)
            extra = {"reason": error.message, "retry_in_s": delay_s}
            _log.warning("the main store cannot be changed", extra=extra)
            in_ms = round(delay_s * 1000)
            return (Defer(key=entry.key, in_ms=in_ms, expected=entry.version),)

    async def _apply(self, entry: Record, main: Store) -> Sequence[Change]:
        """Make the changes in the main store. Returns what becomes of the entry."""
        marker = Put(
            key=Key(MARKER, entry.key.scope, entry.key.id), due_in_ms=MARKER_KEPT_MS, expected=0
        )
        if _may_have_lost_marker(entry) and await main.record(marker.key) is None:
            return _dead(entry, "it is too old to tell whether an earlier attempt succeeded")
        try:
            # The marker first: it says that the others were made before.
            await main.change(marker, *_changes(entry))
            self.wake()
        except RecordConflict as error:
            if await main.record(marker.key) is None:
                return _dead(entry, error.message)
        except (LimitReached, Unstorable, msgspec.DecodeError) as error:
            return _dead(entry, str(error))
        return ()


def _may_have_lost_marker(entry: Record) -> bool:
    """Whether an earlier attempt may have succeeded so long ago that its marker is gone. Both times
    are by the clock of the store: that of this machine may differ from it by any amount."""
    age_ms = entry.claimed_ms - (entry.due_ms or 0)
    return entry.attempts > 1 and age_ms > _TRIED_MS


async def _forget(marker: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()


def _stored(change: MainChange) -> _Stored:
    if isinstance(change, Put):
        assert not change.goes_with_task, "a record of the main store goes with no task of another"
        return _Stored(put=change)
    return _Stored(add=change) if isinstance(change, Add) else _Stored(delete=change)


def _changes(entry: Record) -> list[Change]:
    found = [(each.put, each.delete, each.add) for each in _decode(entry.body)]
    # A due time counts from the commit of the entry, however long that waited.
    waited_ms = max(0, entry.claimed_ms - (entry.due_ms or 0))
    return [_earlier(change, waited_ms) for each in found for change in each if change is not None]


def _earlier(change: MainChange, waited_ms: int) -> MainChange:
    if not isinstance(change, Put) or not change.due_in_ms:
        return change
    return structs.replace(change, due_in_ms=max(0, change.due_in_ms - waited_ms))


def _dead(entry: Record, reason: str) -> Sequence[Change]:
    """Leave the entry as a dead letter, so that its scope continues."""
    extra = {"scope": entry.key.scope, "record": entry.key.id, "reason": reason}
    _log.error("an entry of the outbox is given up", extra=extra)
    return (Put(key=entry.key, body=entry.body, tags=(DEAD,)),)
