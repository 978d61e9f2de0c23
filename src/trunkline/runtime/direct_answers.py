"""`DirectAnswers`: stores the answers that made no task, each with the key of its request.

A run without a task stores its key as *begun* before the first step of the agent. Its answer, and
the key with that answer, are one change of the store, made before a client reads the answer. A key
that has begun and has no answer means that the process ended while the agent worked, and that the
effects of the agent are unknown: a repeat of the request gets a failed task, and the agent does not
run again.
"""

from collections.abc import Iterator
from itertools import count

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from trunkline.model.errors import ContentTypeNotSupported, TrunklineError
from trunkline.model.values import Message
from trunkline.ports.caller_records import (
    ANSWER,
    RefusedAnswer,
    UsedKey,
    answer_id,
    answer_ms,
    caller_tag,
    put_answer,
)
from trunkline.ports.clock import Clock
from trunkline.ports.records import Put
from trunkline.ports.store import Scope, Store
from trunkline.runtime.idempotency import RequestKey
from trunkline.runtime.run import Run

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class DirectAnswers(Struct, frozen=True, kw_only=True, eq=False):
    store: Store
    clock: Clock
    # Tells answers of the same millisecond apart.
    _numbers: Iterator[int] = field(default_factory=count)

    async def begin(self, run: Run, key: RequestKey) -> None:
        """Store that the request has begun. Raises StoreError."""
        await self.store.change(_put_key(run, key, expected=0))

    async def answer(self, run: Run, message: Message) -> None:
        """Store the answer with the message that it answers. Raises StoreError."""
        # The answer is JSON once for both records.
        answer = _encode(message)
        number = answer_id(self.clock.now_ms(), next(self._numbers), run.task_id)
        messages = _encode((run.message, Raw(answer)))
        put = put_answer(run.lane.scope, run.context_id, number, messages)
        key = run.key
        if key is None:
            await self.store.change(put)
        else:
            used = _put_key(run, key, answer=Raw(answer), expected=key.expected)
            await self.store.change(put, used)

    async def refuse(self, run: Run, error: TrunklineError) -> None:
        """Store that the caller accepts no part of the answer. Raises StoreError."""
        key = run.key
        if key is not None and isinstance(error, ContentTypeNotSupported):
            refused = RefusedAnswer(error.message, dict(error.metadata))
            await self.store.change(_put_key(run, key, refused=refused, expected=key.expected))

    async def latest(
        self, scope: Scope, context_id: str, limit: int
    ) -> list[tuple[int, tuple[Message, ...]]]:
        """The latest answers with their time, the latest first, in one context or in all. Each
        comes with the message that it answers."""
        found = await self.store.records(
            ANSWER,
            scope=scope.agent,
            tag=caller_tag(scope, context_id),
            newest_first=True,
            limit=limit,
        )
        return [(answer_ms(record.key), _decode(record.body)) for record in found]


def _put_key(
    run: Run,
    key: RequestKey,
    *,
    answer: Raw | UnsetType = UNSET,
    refused: RefusedAnswer | None = None,
    expected: int | None,
) -> Put:
    used = UsedKey(key.digest, run.task_id, run.context_id, answer, refused)
    return Put(key=key.record, body=_encode(used), due_in_ms=0, expected=expected)
