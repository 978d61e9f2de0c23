"""Why a change of a record is refused, with the same words in every store."""

from collections.abc import Sequence

from trunkline.model.errors import LimitReached, RecordConflict, StoreError, Unstorable
from trunkline.ports.records import Add, Change, Defer, Put

# Leaves room for what databases add to it in their integers of 64 bits.
_MAX_NUMBER = 1 << 62


def why_change_refused(change: Change, *, version: int, count: int) -> StoreError | None:
    """Why the change may not follow on a record with this version and count, which are 0 where
    there is none; None when it may."""
    key = change.key
    name = f"The record {key.kind} {key.id!r} in {key.scope!r}"
    if isinstance(change, Add):
        if count + change.amount > change.at_most:
            return LimitReached(
                f"{name} counts {count}; {change.amount} more would exceed {change.at_most}",
                key=key,
            )
    elif change.expected is not None and change.expected != version:
        found = f"has version {version}" if version else "does not exist"
        expected = f"version {change.expected}" if change.expected else "none"
        return RecordConflict(f"{name} {found}; the change expects {expected}")
    return None


def why_unstorable(changes: Sequence[Change]) -> StoreError | None:
    """Why one of the changes cannot be stored whatever is there; None when all can. A database
    would refuse all that is in the same transaction."""
    for change in changes:
        key = change.key
        texts, number = f"{key.kind}{key.scope}{key.id}", 0
        # Most texts are ASCII, which is a flag of theirs; and this runs for every change.
        if type(change) is Put:
            texts += "".join(change.tags)
            number = change.due_in_ms or 0
        elif type(change) is Add:
            number = max(change.at_most, change.amount, key=abs)
        elif type(change) is Defer:
            number = change.in_ms
        if not texts.isascii():
            try:
                texts.encode()
            except UnicodeEncodeError as error:
                return Unstorable(f"The record {key} cannot be stored: {error}")
        if abs(number) >= _MAX_NUMBER:
            return Unstorable(f"The record {key} cannot be stored: {number} is too large")
    return None
