"""Task handles: short names for delegated tasks, with a time to live.

A handle is `rah_` and a random UUID. It is valid until it expires, and each use in a follow-up
postpones that. An *expired* handle is remembered as such for a week, or until newer handles need
its place.
"""

from typing import Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.ports.clock import Clock, Ids
from trunkline.remote.target import Target
from trunkline.remote.tool.config import TaskHandleSettings

PREFIX: Final = "rah_"
# For this long a late caller learns that its handle has expired and how to continue.
FORGET_AFTER_MS: Final = 7 * 86_400_000


class HandleRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Routing and ids alone: credentials of a target are never stored."""

    handle: str
    target_url: str
    card_path: str
    transports: tuple[str, ...]
    target_alias: str = ""
    task_id: str
    context_id: str = ""
    created_at_ms: int
    last_accessed_at_ms: int
    expires_at_ms: int


class Live(Struct, frozen=True):
    record: HandleRecord


class Expired(Struct, frozen=True):
    record: HandleRecord


class Unknown(Struct, frozen=True):
    pass


Lookup: TypeAlias = Live | Expired | Unknown


class Handles(Protocol):
    """A store of task handles. `is_durable`: they outlive the process."""

    is_durable: bool

    async def get(self, handle: str) -> HandleRecord | None: ...

    async def put(self, record: HandleRecord, *, now_ms: int, room: int) -> None:
        """Store it, and drop forgotten records, then the least recently used beyond `room`."""
        ...

    async def signing_key(self) -> bytes:
        """Random, and the same for as long as the handles themselves are kept."""
        ...

    async def close(self) -> None: ...


def is_forgotten(record: HandleRecord, now_ms: int) -> bool:
    return record.expires_at_ms + FORGET_AFTER_MS <= now_ms


class TaskHandles:
    """The handles of one tool."""

    def __init__(
        self, store: Handles, settings: TaskHandleSettings, clock: Clock, ids: Ids
    ) -> None:
        self.store = store
        self._settings = settings
        self._clock = clock
        self._ids = ids

    async def look_up(self, handle: str) -> Lookup:
        """A lookup counts as a use, so the handle is not dropped; its expiry does not change."""
        record, now = await self.store.get(handle), self._clock.now_ms()
        if record is None or is_forgotten(record, now):
            return Unknown()
        if record.expires_at_ms <= now:
            return Expired(record)
        record = replace(record, last_accessed_at_ms=now)
        await self._put(record, now)
        return Live(record)

    async def issue(self, target: Target, task_id: str, context_id: str) -> str:
        now = self._clock.now_ms()
        record = HandleRecord(
            handle=PREFIX + self._ids.new(),
            target_url=target.url,
            card_path=target.card_path,
            transports=target.transports,
            target_alias=target.alias,
            task_id=task_id,
            context_id=context_id,
            created_at_ms=now,
            last_accessed_at_ms=now,
            expires_at_ms=now + self._settings.ttl_ms,
        )
        await self._put(record, now)
        return record.handle

    async def refresh(self, record: HandleRecord, *, context_id: str) -> None:
        now = self._clock.now_ms()
        renewed = replace(
            record,
            context_id=context_id or record.context_id,
            last_accessed_at_ms=now,
            expires_at_ms=now + self._settings.ttl_ms,
        )
        await self._put(renewed, now)

    async def _put(self, record: HandleRecord, now_ms: int) -> None:
        await self.store.put(record, now_ms=now_ms, room=self._settings.max_entries)
