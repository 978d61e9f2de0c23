"""`IdempotencyKeys` and `DirectAnswers`: a request that repeats a key gets the task or the answer
of the first request."""

import hashlib

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import ContentTypeNotSupported, IdempotencyConflict, TrunklineError
from trunkline.model.values import Message
from trunkline.ports.clock import Clock
from trunkline.ports.store import IdempotencyRecord, Scope, Snapshot, Store
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.registry import Registry, snapshot_of
from trunkline.runtime.run import Run
from trunkline.runtime.sessions import StoredNotes

# The prefix of the notes that hold keys. Agents choose the names of their own notes, and none of
# those begins like this.
_PREFIX = "idempotency-key "
# The answer and the note of its key are two records. After a crash between them, a repeat looks for
# the answer among this many of the latest ones of the conversation.
_LOOKED_AT = 100


class _Refused(Struct, frozen=True):
    message: str
    metadata: dict[str, str]


class _Kept(Struct, frozen=True, omit_defaults=True):
    digest: bytes
    task_id: str
    context_id: str
    # At most one of them is set: the message as JSON, or the reason why there is none.
    answer: Raw | UnsetType = UNSET
    refused: _Refused | None = None


class Unanswered(Struct, frozen=True):
    """An earlier request with the same key has begun, and its answer was not stored."""

    task_id: str
    context_id: str


class _Id(Struct, frozen=True, rename="camel"):
    message_id: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Kept).decode
_decode_exchange = msgspec.json.Decoder(tuple[Raw, Raw]).decode
_decode_id = msgspec.json.Decoder(_Id).decode


class IdempotencyKeys(Struct, kw_only=True, eq=False):
    """The keys of requests that made a task. The task carries its keys to the store."""

    store: Store
    registry: Registry
    journal: Journal
    # The keys of tasks in memory, which the store may not have yet.
    _known: dict[tuple[Scope, str], tuple[bytes, LiveTask]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, live: LiveTask, record: IdempotencyRecord) -> None:
        """Remember the key, and store it with the next append of the task."""
        self.journal.attach_key(live, record)
        live.keys += (record,)
        self._known[record.scope, record.key] = (record.digest, live)

    async def recall(self, wanted: IdempotencyRecord) -> LiveTask | Snapshot | None:
        """The task of an earlier request with the key, if there was one."""
        scope, record = wanted.scope, None
        if (scope, wanted.key) not in self._known:
            record = await self.store.recall(scope, wanted.key)
        # Another request with the key may have come while this one waited.
        known = self.in_memory(wanted)
        if known is not None or record is None:
            return known
        check_digest(record.digest, wanted.digest)
        live = self.registry.live(scope, record.task_id)
        if live is not None:
            return live
        stored = await self.store.get(scope, record.task_id)
        return snapshot_of(stored) if stored is not None else None

    async def until_free(
        self, live: LiveTask, record: IdempotencyRecord
    ) -> LiveTask | Snapshot | None:
        """Wait until the next append has room for the key: an append carries one at most."""
        known: LiveTask | Snapshot | None = self.in_memory(record)
        while known is None and live.idempotency is not None:
            await self.journal.durable(live)
            known = await self.recall(record)
        return known

    def forget(self, live: LiveTask) -> None:
        """Forget the keys of the task, unless it has uncommitted entries that may carry one."""
        if live.unflushed or live.in_flight:
            return
        for record in live.keys:
            known = self._known.get((record.scope, record.key))
            if known is not None and known[1] is live:
                del self._known[record.scope, record.key]
        live.keys = ()

    def in_memory(self, wanted: IdempotencyRecord) -> LiveTask | None:
        """The task in memory whose request had the key. Raises IdempotencyConflict."""
        known = self._known.get((wanted.scope, wanted.key))
        if known is None:
            return None
        check_digest(known[0], wanted.digest)
        return known[1]


class DirectAnswers(Struct, kw_only=True, eq=False):
    """Requests with a key that are answered without a task, each of them once.

    A run without a task stores its key as a note of the caller's scope: as *begun* before the first
    step of the agent, and with the answer before a client reads it. A repeat gets that answer.
    Without an answer, the process ended while the agent worked, and its effects are unknown: the
    repeat gets a failed task, and the agent does not run again.
    """

    store: Store
    clock: Clock
    # Runs that may still answer without a task, by their keys.
    _running: dict[tuple[Scope, str], Run] = {}

    def __len__(self) -> int:
        return len(self._running)

    def enter(self, run: Run) -> None:
        """Let repeats of the request join the run."""
        assert run.key is not None
        self._running[run.key.scope, run.key.key] = run

    def leave(self, run: Run) -> None:
        """Stop repeats from joining the run: the store has its answer, or its task has the key."""
        if run.key is not None:
            self._running.pop((run.key.scope, run.key.key), None)

    def joined(self, wanted: IdempotencyRecord) -> Run | None:
        """The run of an earlier request with this key, if it has not ended. Raises
        IdempotencyConflict."""
        run = self._running.get((wanted.scope, wanted.key))
        if run is not None and run.key is not None:
            check_digest(run.key.digest, wanted.digest)
        return run

    async def recall(self, wanted: IdempotencyRecord) -> Run | Reply | NoReply | Unanswered | None:
        """The outcome of an earlier request with the key."""
        if (run := self.joined(wanted)) is not None:
            return run
        text = await self.store.kept(wanted.scope, "", _PREFIX + wanted.key)
        # Another request with the key may have come while this one waited.
        run = self.joined(wanted)
        if run is not None or text is None:
            return run
        kept = _decode(text)
        check_digest(kept.digest, wanted.digest)
        if kept.refused is not None:
            refused = kept.refused
            return NoReply(ContentTypeNotSupported(refused.message, metadata=refused.metadata))
        answer = (
            kept.answer if isinstance(kept.answer, Raw) else await self._answer_of(wanted, kept)
        )
        if answer is not None:
            return Reply(bytes(answer))
        return Unanswered(kept.task_id, kept.context_id)

    async def _answer_of(self, wanted: IdempotencyRecord, kept: _Kept) -> Raw | None:
        exchanges = await self.store.exchanges(
            wanted.scope, context_id=kept.context_id, limit=_LOOKED_AT
        )
        for exchange in exchanges:
            _, answer = _decode_exchange(exchange.messages)
            if _decode_id(answer).message_id == kept.task_id:
                return answer
        return None

    async def begin(self, run: Run) -> None:
        """Store that the request has begun. Raises StoreError."""
        await self._keep(run)

    async def answer(self, run: Run, message: Message) -> None:
        """Store the answer. Raises StoreError."""
        await self._keep(run, answer=Raw(_encode(message)))

    async def refuse(self, run: Run, error: TrunklineError) -> None:
        """Store that the caller accepts no part of the answer. Raises StoreError."""
        if isinstance(error, ContentTypeNotSupported):
            refused = _Refused(error.message, dict(error.metadata))
            await self._keep(run, refused=refused)

    async def _keep(
        self, run: Run, *, answer: Raw | UnsetType = UNSET, refused: _Refused | None = None
    ) -> None:
        assert run.key is not None
        kept = _Kept(run.key.digest, run.task_id, run.context_id, answer, refused)
        notes = StoredNotes(self.store, self.clock, run.key.scope, "")
        await notes.keep(_PREFIX + run.key.key, _encode(kept).decode())


def key_of(caller: Caller, message: Message) -> str:
    """The idempotency key that the caller sent, or else one made of the id of the message."""
    if caller.idempotency_key:
        return f"key:{caller.idempotency_key}"
    return f"message:{message.message_id}"


def digest_of(request: SendMessageRequest) -> bytes:
    return hashlib.sha256(_encode(request)).digest()


def check_digest(known: bytes, digest: bytes) -> None:
    """Raises IdempotencyConflict when the key came with a different request before."""
    if known != digest:
        raise IdempotencyConflict(
            "The idempotency key was used before for another request; use a new key"
        )
