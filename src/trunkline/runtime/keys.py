"""Requests that were made before: the same key is the same task."""

import hashlib

import msgspec

from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import IdempotencyConflict
from trunkline.model.profile import Profile
from trunkline.model.values import Message
from trunkline.ports.store import IdempotencyRecord, Scope, Snapshot, Store
from trunkline.runtime.journal import Journal
from trunkline.runtime.live import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of

_encode = msgspec.json.Encoder().encode


class Keys:
    def __init__(self, *, store: Store, registry: Registry, journal: Journal) -> None:
        self._store = store
        self._registry = registry
        self._journal = journal
        # Keys whose task is not in the store yet, or has not left the memory.
        self._known: dict[tuple[Scope, str], tuple[bytes, LiveTask]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, live: LiveTask, record: IdempotencyRecord) -> None:
        """Know the key from now on, and store it with what is recorded next."""
        live.idempotency = record
        live.keys += (record,)
        self._known[record.scope, record.key] = (record.digest, live)

    async def recall(self, wanted: IdempotencyRecord) -> LiveTask | Snapshot | None:
        """What became of the request that was made with the key before, if there was one."""
        scope, record = wanted.scope, None
        if (scope, wanted.key) not in self._known:
            record = await self._store.recall(scope, wanted.key)
        # Another request with the key may have come while this one waited.
        known = self.in_memory(wanted)
        if known is not None or record is None:
            return known
        check_digest(record.digest, wanted.digest)
        live = self._registry.live(scope, record.task_id)
        if live is not None:
            return live
        stored = await self._store.get(scope, record.task_id)
        return snapshot_of(stored) if stored is not None else None

    async def until_free(
        self, live: LiveTask, record: IdempotencyRecord
    ) -> LiveTask | Snapshot | None:
        """Wait until the key can go with the next append, which holds one at most."""
        known: LiveTask | Snapshot | None = self.in_memory(record)
        while known is None and live.idempotency is not None:
            await self._journal.durable(live)
            known = await self.recall(record)
        return known

    def forget(self, live: LiveTask) -> None:
        """The store knows the keys by now, unless one came with what is not committed yet."""
        if live.unflushed or live.in_flight:
            return
        for record in live.keys:
            known = self._known.get((record.scope, record.key))
            if known is not None and known[1] is live:
                del self._known[record.scope, record.key]
        live.keys = ()

    def in_memory(self, wanted: IdempotencyRecord) -> LiveTask | None:
        """The task of the key, if the store may not know it yet. Raises IdempotencyConflict."""
        known = self._known.get((wanted.scope, wanted.key))
        if known is None:
            return None
        check_digest(known[0], wanted.digest)
        return known[1]


def key_of(profile: Profile, caller: Caller, message: Message) -> str:
    """The key of a request; empty when it has none."""
    if caller.idempotency_key:
        return f"key:{caller.idempotency_key}"
    return f"message:{message.message_id}" if profile.deduplicate_messages else ""


def digest_of(request: SendMessageRequest) -> bytes:
    return hashlib.sha256(_encode(request)).digest()


def check_digest(known: bytes, digest: bytes) -> None:
    """Raises IdempotencyConflict when a key comes with another request than before."""
    if known != digest:
        raise IdempotencyConflict(
            "The idempotency key was used before for another request; use a new key"
        )
