"""Records: durable things that are not tasks, such as idempotency keys, notes and timers.

A record has a *key* (kind, scope and id), a *version* that rises with every change, a *body*
that a store never interprets, and a *count* for those that only count. A kind names its format
too (`note.1`), and never gets another one: a new format is a new kind. The scope is the
partition: pages go through one scope, and the due records of a scope are worked off in order.

Every store implements this part of the port in the same way, and
`trunkline.testing.check_store` proves it:

- The changes of a *group* take effect together or not at all. A group that an append carries is
  committed with it. A required one that is refused refuses the append; an optional one that is
  refused is skipped, and the append stands.
- A change may name the version that it expects; 0 expects that there is no such record.
- A record with a due time can be claimed from then on, by the store's own clock. A claim raises
  its version, so that the holder of an older claim cannot change it, and holds its scope: no
  other record of the kind and scope is claimed until the record changes or the lease ends.
  So the records of a scope are worked off one by one, those that are due the longest first.
  A store that belongs to one process ends the claims of the process before when it is opened.
  In one that several nodes share, the claims of a node end with it.
- A record that belongs to a task goes when the task goes.
"""

from typing import TypeAlias

from msgspec import Struct


class Key(Struct, frozen=True, cache_hash=True, gc=False):
    kind: str
    scope: str
    id: str


class Record(Struct, frozen=True, kw_only=True, gc=False):
    key: Key
    version: int
    body: bytes
    count: int = 0
    # When it can be claimed; None for a record that waits for nothing.
    due_ms: int | None = None
    # How often it was claimed since it was last put.
    attempts: int = 0
    tags: tuple[str, ...] = ()
    # When it was claimed, by the store's clock; 0 for a record that was read.
    claimed_ms: int = 0


class Put(Struct, frozen=True, kw_only=True, gc=False):
    """Write a record in place of the one with this key."""

    key: Key
    body: bytes = b""
    # From the moment of the commit, by the store's clock.
    due_in_ms: int | None = None
    tags: tuple[str, ...] = ()
    # In an append: the record belongs to the task of the append.
    goes_with_task: bool = False
    # The version that it replaces; 0: there must be none; None: whatever is there.
    expected: int | None = None


class Delete(Struct, frozen=True, kw_only=True, gc=False):
    """Delete a record. Without an expected version, the change succeeds also where there is no such
    record."""

    key: Key
    expected: int | None = None


class Add(Struct, frozen=True, kw_only=True, gc=False):
    """Raise the count of a record, which begins at 0, unless it would exceed `at_most`."""

    key: Key
    amount: int
    at_most: int


class Defer(Struct, frozen=True, kw_only=True, gc=False):
    """Leave a claimed record as it is, to be claimed again after this time. Its scope waits.

    For a record that is not due, or while another one of the scope is claimed, it does nothing.
    """

    key: Key
    in_ms: int
    expected: int


Change: TypeAlias = Put | Delete | Add | Defer


class Group(Struct, frozen=True, gc=False):
    """Changes that take effect together. No two of them have the same key."""

    changes: tuple[Change, ...]
    is_required: bool = True


class Committed(Struct, frozen=True, gc=False):
    """An append that was committed, where there is more to say than that."""

    # The optional groups that were skipped, counted from 0.
    skipped: tuple[int, ...] = ()
    # The epoch of the lane, if the append took it.
    epoch: int = 0
