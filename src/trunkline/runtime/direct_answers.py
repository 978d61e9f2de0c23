"""`DirectAnswers`: requests with a key that are answered without a task, each of them once.

A task carries the keys of its requests. A run that may do without a task has none, so its key is
kept as a note of the caller's scope: as *begun* before the agent's first step, and with the answer
before anybody is told of it. A repeat gets that answer. Where there is none, the process went
while the agent was at work, and nobody knows what it did: the repeat gets a failed task, and the
agent does not run again.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from trunkline.model.errors import ContentTypeNotSupported, TrunklineError
from trunkline.model.values import Message
from trunkline.ports.clock import Clock
from trunkline.ports.store import IdempotencyRecord, KeptNote, Scope, Store
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.keys import check_digest
from trunkline.runtime.run import Run

# Notes of agents are below the names that they choose; none of those begins like this.
_PREFIX = "idempotency-key "
# The answer is stored beside its note. When a crash comes in between, it is looked for among
# so many of the latest of its conversation.
_LOOKED_AT = 100


class _Refused(Struct, frozen=True):
    message: str
    metadata: dict[str, str]


class _Kept(Struct, frozen=True, omit_defaults=True):
    digest: bytes
    task_id: str
    context_id: str
    # At most one of them is set: JSON of the message, or why there is none.
    answer: Raw | UnsetType = UNSET
    refused: _Refused | None = None


class Unanswered(Struct, frozen=True):
    """The request was begun before, and no answer was stored."""

    task_id: str
    context_id: str


class _Id(Struct, frozen=True, rename="camel"):
    message_id: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Kept).decode
_decode_exchange = msgspec.json.Decoder(tuple[Raw, Raw]).decode
_decode_id = msgspec.json.Decoder(_Id).decode


class DirectAnswers:
    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # Runs that may still answer without a task, by their keys.
        self._running: dict[tuple[Scope, str], Run] = {}

    def __len__(self) -> int:
        return len(self._running)

    def enter(self, run: Run) -> None:
        """Repeats join the run from now on."""
        assert run.key is not None
        self._running[run.key.scope, run.key.key] = run

    def leave(self, run: Run) -> None:
        """The store knows its answer, or its task has the key."""
        if run.key is not None:
            self._running.pop((run.key.scope, run.key.key), None)

    def joined(self, wanted: IdempotencyRecord) -> Run | None:
        """The run that the request with this key is in. Raises IdempotencyConflict."""
        run = self._running.get((wanted.scope, wanted.key))
        if run is not None and run.key is not None:
            check_digest(run.key.digest, wanted.digest)
        return run

    async def recall(self, wanted: IdempotencyRecord) -> Run | Reply | NoReply | Unanswered | None:
        """What became of the request that was made with the key before."""
        if (run := self.joined(wanted)) is not None:
            return run
        text = await self._store.kept(wanted.scope, "", _PREFIX + wanted.key)
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
        exchanges = await self._store.exchanges(
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
        """Store that the caller takes nothing of the answer. Raises StoreError."""
        if isinstance(error, ContentTypeNotSupported):
            refused = _Refused(error.message, dict(error.metadata))
            await self._keep(run, refused=refused)

    async def _keep(
        self, run: Run, *, answer: Raw | UnsetType = UNSET, refused: _Refused | None = None
    ) -> None:
        assert run.key is not None
        kept = _Kept(run.key.digest, run.task_id, run.context_id, answer, refused)
        await self._store.keep(
            KeptNote(
                scope=run.key.scope,
                context_id="",
                name=_PREFIX + run.key.key,
                text=_encode(kept).decode(),
                at_ms=self._clock.now_ms(),
            )
        )
