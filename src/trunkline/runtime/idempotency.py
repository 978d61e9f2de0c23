"""`IdempotencyKeys`: a request that repeats a key gets the task or the answer of the first one."""

import hashlib
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import ContentTypeNotSupported, IdempotencyConflict
from trunkline.ports.caller_records import decode_used_key, key_body, request_key
from trunkline.ports.records import Group, Key, Put
from trunkline.ports.store import Scope, Snapshot, Store
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of
from trunkline.runtime.run import Run

_encode = msgspec.json.Encoder().encode


def digest_of(request: SendMessageRequest) -> bytes:
    """Tells a request from others with the same key."""
    return hashlib.sha256(_encode(request)).digest()


class RequestKey(Struct, frozen=True, gc=False):
    """The idempotency key of a request, and the task that the request leads to if it needs one."""

    record: Key
    scope: Scope
    digest: bytes
    task_id: str
    # The version of the stored key that this one replaces; 0: there must be none; None: any.
    expected: int | None = 0

    @classmethod
    def of(
        cls,
        scope: Scope,
        caller: Caller,
        request: SendMessageRequest,
        task_id: str,
        given: str = "",
    ) -> "RequestKey":
        """The key that the caller sent, or else the given one or the id of the message."""
        key = given or f"message:{request.message.message_id}"
        if caller.idempotency_key:
            key = f"key:{caller.idempotency_key}"
        # The same as `digest_of`, without a call.
        digest = hashlib.sha256(_encode(request)).digest()
        return cls(request_key(scope, key), scope, digest, task_id)

    @classmethod
    def of_given(
        cls, scope: Scope, caller: Caller, message_id: str, digest: bytes, task_id: str
    ) -> "RequestKey":
        """The key of a request that another gateway has read."""
        key = f"key:{caller.idempotency_key}" if caller.idempotency_key else f"message:{message_id}"
        return cls(request_key(scope, key), scope, digest, task_id)


class Unanswered(Struct, frozen=True):
    """An earlier request with the same key has begun, and its answer was not stored."""

    task_id: str
    context_id: str
    # Of the stored key.
    version: int


# The outcome of an earlier request with the same key. A run may still answer without a task.
Earlier: TypeAlias = LiveTask | Snapshot | Run | Reply | NoReply


class IdempotencyKeys(Struct, kw_only=True, eq=False):
    store: Store
    registry: Registry
    journal: Journal
    # The keys of tasks and runs in memory, which the store may not have yet.
    _known: dict[Key, tuple[bytes, LiveTask | Run]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def enter(self, run: Run, key: RequestKey) -> None:
        """Let repeats of the request join the run, which may answer without a task."""
        self._known[key.record] = (key.digest, run)

    def leave(self, run: Run) -> None:
        """Stop repeats from joining the run: the store has its answer, or its task has the key."""
        key = run.key
        if key is not None and self._known.get(key.record, (b"", None))[1] is run:
            del self._known[key.record]

    def keep(self, live: LiveTask, key: RequestKey) -> None:
        """Remember the key, and store it with the next append of the task."""
        self._attach(live, key)
        live.keys += (key,)
        self._known[key.record] = (key.digest, live)

    def keep_again(self, live: LiveTask) -> None:
        """Store the keys of a task with its next append, because the store refused the last one."""
        for key in live.keys:
            self._attach(live, key)

    def _attach(self, live: LiveTask, key: RequestKey) -> None:
        put = Put(
            key=key.record,
            body=key_body(key.digest, key.task_id),
            goes_with_task=True,
            expected=key.expected,
        )
        self.journal.attach(live, Group((put,)))

    def forget(self, live: LiveTask) -> None:
        """Forget the keys of the task, unless it has uncommitted entries that may carry one."""
        if live.unflushed or live.in_flight:
            return
        for key in live.keys:
            known = self._known.get(key.record)
            if known is not None and known[1] is live:
                del self._known[key.record]
        live.keys = ()

    def in_memory(self, wanted: RequestKey) -> LiveTask | Run | None:
        """The task or run in memory whose request had the key. Raises IdempotencyConflict."""
        known = self._known.get(wanted.record)
        if known is None:
            return None
        _check_digest(known[0], wanted.digest)
        return known[1]

    async def first_task(self, wanted: RequestKey) -> str:
        """The id of the task that an earlier request with the key led to, or may lead to; empty for
        none."""
        if (known := self._known.get(wanted.record)) is not None:
            return known[1].task_id
        record = await self.store.record(wanted.record)
        return "" if record is None else decode_used_key(record.body).task_id

    async def recall(self, wanted: RequestKey) -> Earlier | Unanswered | None:
        """The outcome of an earlier request with the key. Raises IdempotencyConflict."""
        record = None
        if wanted.record not in self._known:
            record = await self.store.record(wanted.record)
        # Another request with the key may have come while this one waited.
        known = self.in_memory(wanted)
        if known is not None or record is None:
            return known
        used = decode_used_key(record.body)
        _check_digest(used.digest, wanted.digest)
        if used.refused is not None:
            refused = used.refused
            return NoReply(ContentTypeNotSupported(refused.message, metadata=refused.metadata))
        if isinstance(used.answer, Raw):
            return Reply(bytes(used.answer))
        if used.context_id:
            return Unanswered(used.task_id, used.context_id, record.version)
        live = self.registry.live(wanted.scope, used.task_id)
        if live is not None:
            return live
        stored = await self.store.get(wanted.scope, used.task_id)
        return snapshot_of(stored) if stored is not None else None


def _check_digest(known: bytes, digest: bytes) -> None:
    """Raises IdempotencyConflict when the key came with a different request before."""
    # The digest of a request that another gateway has read may not be known.
    if known != digest and known and digest:
        raise IdempotencyConflict(
            "The idempotency key was used before for another request; use a new key"
        )
