"""`TurnGate`: takes every message that asks for a turn through the `Gate`.

A gate that raises stops no task: messages are refused, and everything else continues.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.engine.queue_limits import QUEUE_FULL
from trunkline.model.calls import Caller, Refusal
from trunkline.model.errors import (
    LimitReached,
    RecordConflict,
    StoreError,
    TrunklineError,
    Unavailable,
)
from trunkline.model.values import Message, TaskState
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.gate import Admission, Attempt, DecidesAtOnce, Gate, Usage
from trunkline.ports.store import Store
from trunkline.runtime.admitted import shutting_down
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.run import Run

_log = logging.getLogger("trunkline.gate")

RETRY_AFTER_S = 5
# The longest time for a decision: later messages of the lane wait for it.
ADMIT_S = 30.0


class Passage(Struct, eq=False):
    """The passage of one message through the gate."""

    attempt: Attempt
    decision: Admission | Refusal
    # Whether the message led to a run.
    is_used: bool = False
    # Whether changes of the admission are committed by themselves.
    is_spent: bool = False
    # Why the store refused them.
    refusal: Refusal | None = None


class _Queue(Struct, eq=False):
    lock: asyncio.Lock
    users: int = 0


class TurnGate(Struct, kw_only=True, eq=False):
    gate: Gate
    store: Store
    clock: Clock
    ids: Ids
    tasks: BackgroundTasks
    is_closed: bool = False
    _queues: dict[Lane, _Queue] = {}
    _at_once: Callable[[Attempt], Admission | Refusal | None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.gate, DecidesAtOnce):
            self._at_once = self.gate.admit_at_once

    def attempt(
        self,
        agent: PublishedAgent,
        caller: Caller,
        message: Message,
        task_id: str = "",
        context_id: str = "",
    ) -> Attempt:
        return Attempt(
            id=self.ids.new(),
            at_ms=self.clock.now_ms(),
            principal=caller.principal,
            tenant=caller.tenant,
            agent=agent.handle,
            task_id=task_id or message.task_id,
            context_id=context_id or message.context_id,
            is_follow_up=bool(message.task_id),
            message=message,
            operation=caller.operation,
            binding=caller.binding,
            asked_by=caller.asked_by,
        )

    def pass_at_once(
        self, attempt: Attempt, lane: Lane, refusal: Callable[[], Refusal | None]
    ) -> Passage | None:
        """Take an attempt through the gate where neither the gate nor an earlier message of the
        lane needs time; None for all others, which go by `passing`. The caller ends the passage
        with `leave`, without an await before."""
        if self._at_once is None or self.is_closed or lane in self._queues:
            return None
        decision = self._decide_at_once(attempt, refusal())
        return None if decision is None else self._passage(attempt, decision)

    @asynccontextmanager
    async def passing(
        self,
        attempt: Attempt,
        lane: Lane,
        refusal: Callable[[], Refusal | None],
        *,
        max_waiting: int,
    ) -> AsyncIterator[Passage]:
        """Take an attempt through the gate, unless there is a `refusal` before. Until the end of
        the block, later messages of the lane wait, so that they keep their order."""
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = _Queue(asyncio.Lock())
        elif queue.users > max_waiting:
            self.record(attempt, QUEUE_FULL)
            yield Passage(attempt, QUEUE_FULL)
            return
        queue.users += 1
        try:
            async with queue.lock:
                passage = self._passage(attempt, await self._decide(attempt, refusal()))
                try:
                    if self.is_closed:
                        raise shutting_down()
                    yield passage
                finally:
                    self.leave(passage)
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[lane]

    def leave(self, passage: Passage) -> None:
        """Give back an admission that was not used."""
        if passage.is_used or isinstance(passage.decision, Refusal):
            return
        attempt = passage.attempt
        usage = Usage(TaskState.REJECTED, None, passage.refusal)
        self._tell(attempt, partial(self.gate.settle, attempt, usage))
        if passage.is_spent and passage.decision.returns:
            self.tasks.spawn(self._give_back(passage), name="give back")

    async def _decide(self, attempt: Attempt, refused: Refusal | None) -> Admission | Refusal:
        decision = self._decide_at_once(attempt, refused)
        if decision is not None:
            return decision
        try:
            async with asyncio.timeout(ADMIT_S):
                return await self.gate.admit(attempt)
        except Exception as error:  # noqa: BLE001 - logged, and the message is refused
            raise self._failure(attempt, error) from None

    def _decide_at_once(
        self, attempt: Attempt, refused: Refusal | None
    ) -> Admission | Refusal | None:
        """Most decisions need no timer."""
        if refused is not None or self._at_once is None:
            return refused
        try:
            return self._at_once(attempt)
        except Exception as error:  # noqa: BLE001 - logged, and the message is refused
            raise self._failure(attempt, error) from None

    def _failure(self, attempt: Attempt, error: Exception) -> TrunklineError:
        """The answer to a message about which the gate could not decide."""
        if not isinstance(error, TrunklineError):
            _log.error("the gate failed", exc_info=error, extra=_extra(attempt))
            error = Unavailable(
                "The gateway cannot decide about this message now; try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        self.record(attempt, Refusal("error", error.message))
        return error

    def _passage(self, attempt: Attempt, decision: Admission | Refusal) -> Passage:
        self.record(attempt, decision if isinstance(decision, Refusal) else None)
        return Passage(attempt, decision)

    async def commit(self, passage: Passage) -> None:
        """Commit the changes of an admission by themselves. Raises TooManyRequests where a required
        one exceeds its limit, and StoreError."""
        admission = passage.decision
        assert isinstance(admission, Admission)
        required = [each for group in admission.also if group.is_required for each in group.changes]
        try:
            if required:
                await self.store.change(*required)
                passage.is_spent = True
        except LimitReached as error:
            passage.refusal = admission.refusal(error)
            raise passage.refusal.as_error() from None
        for group in admission.also:
            if not group.is_required:
                try:
                    await self.store.change(*group.changes)
                except (LimitReached, RecordConflict):
                    continue

    async def _give_back(self, passage: Passage) -> None:
        """Undo the changes of a message that was not accepted after all."""
        assert isinstance(passage.decision, Admission)
        try:
            await self.store.change(*passage.decision.returns)
        except StoreError as error:
            extra = {**_extra(passage.attempt), "reason": error.message}
            _log.error("a budget could not be given back", extra=extra)

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        self._tell(attempt, partial(self.gate.record, attempt, refusal))

    def settle(self, run: Run) -> None:
        """Settle the turn of a run that leaves its lane."""
        attempt = run.attempt
        if attempt is None:
            return
        if run.live is not None:
            state = run.live.state
        else:
            state = TaskState.COMPLETED if isinstance(run.outcome, Message) else TaskState.FAILED
        ran_ms = None
        if run.started is not None:
            ran_ms = round((self.clock.monotonic() - run.started) * 1000)
        usage = Usage(state, ran_ms, run.refusal)
        self._tell(attempt, partial(self.gate.settle, attempt, usage))

    def _tell(self, attempt: Attempt, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:  # noqa: BLE001 - logged; the task goes on without the gate
            _log.exception("the gate failed", extra=_extra(attempt))


def _extra(attempt: Attempt) -> dict[str, str]:
    return {
        "agent": attempt.agent,
        "principal": attempt.principal.id,
        "task_id": attempt.task_id,
    }
