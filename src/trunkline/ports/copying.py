"""`CopyableStore`: a store that can be copied to another one, for `trunkline db copy`.

Tasks are read and written by the calls of every store. What is added here are the orders in which
a copy goes through a store, and records as they are: their versions, attempts and due times.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Key, Record
from trunkline.ports.store import Scope, Store

# The record of a copy that has not ended, in its target.
UNFINISHED_COPY: Final = Key("copy.1", "", "")


class RecordCopy(Struct, frozen=True, kw_only=True, gc=False):
    """A record with all that a store knows of it."""

    record: Record
    # The task that it goes with, if any.
    task_id: str = ""
    # Until then nothing of its scope is claimed, because this record was put off.
    held_until_ms: int = 0


class CopyableStore(Store, Protocol):
    async def tasks_after(
        self, number: int | None, *, limit: int
    ) -> Sequence[tuple[int, Scope, str]]:
        """Number, scope and id of tasks, in the order in which they were created, behind the one
        with this number."""
        ...

    async def records_after(self, key: Key | None, *, limit: int) -> Sequence[RecordCopy]:
        """Records of all kinds in the order of kind, scope and id, behind this key."""
        ...

    async def put_copies(self, copies: Sequence[RecordCopy]) -> None:
        """Write the records as they are, each in place of the one with its key. The tasks that
        they go with exist. Durable when it returns."""
        ...


async def require_whole(store: Store) -> None:
    """Raises StoreUnusable for the target of a copy that has not ended."""
    if await store.record(UNFINISHED_COPY) is not None:
        raise StoreUnusable(
            "The store holds a part of another one: `trunkline db copy` was ended before it was "
            "done. Run the same command again, which continues it."
        )
