"""`Inbox`: carries out the requests that other nodes received for the lanes of this node."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.engine.run_states import RunState
from trunkline.engine.transitions import Step
from trunkline.model.calls import CancelTaskRequest
from trunkline.model.errors import (
    GatewayBug,
    StoreError,
    TaskNotCancelable,
    TrunklineError,
    Unavailable,
)
from trunkline.model.values import HAS_WORK, TaskState
from trunkline.ports.cluster import Answered
from trunkline.ports.records import Change, Delete, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.admitted import Admitted, Placed
from trunkline.runtime.adoptions import Adoptions
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.forwarding import (
    INBOX,
    OUTCOME,
    Adopting,
    Canceled,
    ErrorRecord,
    Forwarding,
    Operation,
    Outcome,
    Replied,
    Sent,
    TimedOut,
    decode_operation,
    encode,
    outcome_key,
)
from trunkline.runtime.live_task import Lease
from trunkline.runtime.ownership import Ownership, lane_of_name
from trunkline.runtime.queued_replies import QueuedReplies
from trunkline.runtime.run import Run
from trunkline.runtime.service import Service

_log = logging.getLogger("trunkline.cluster")

# The node that asked reads the outcome at once. It stays for a node that stalls.
KEEPS_OUTCOME_MS = 10 * 60 * 1000
_PAGE = 100


async def _delete(_: Record) -> Sequence[Change]:
    return ()


class _Id(Struct, frozen=True):
    id: str


_decode_id = msgspec.json.Decoder(_Id).decode


class Inbox(Struct, kw_only=True, eq=False):
    store: Store
    ownership: Ownership
    forwarding: Forwarding
    service: Service
    adoptions: Adoptions
    queued_replies: QueuedReplies
    agents: Mapping[str, PublishedAgent]
    # Lanes whose inbox is being worked off, and whether something was posted since.
    _busy: dict[Lease, bool] = {}
    # Requests that wait for an answer without a task.
    _under_way: set[Key] = set()
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("inbox"))

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def is_closed(self) -> bool:
        """Whether the gateway shuts down."""
        return self.service.intake.is_closed

    def due_kind(self) -> DueKind:
        """Deletes the outcomes that every node has had the time to read."""
        return DueKind(name=OUTCOME, handle=_delete)

    def hear(self, name: str) -> None:
        """A request was posted to the lane of this name."""
        lane = lane_of_name(name)
        lease = self.ownership.held.get(lane)
        # A gateway that shuts down leaves its inbox to the next owner.
        if lease is None or self.is_closed:
            return
        if lease in self._busy:
            self._busy[lease] = True
            return
        self._busy[lease] = False
        # From now on, so that the lane is not left before its inbox is empty.
        lease.users += 1
        self._tasks.spawn(self._work_off(lane, lease), name="inbox")

    async def sweep(self) -> None:
        """Look for requests that no notice told this node about."""
        after: Key | None = None
        while records := await self.store.records(INBOX, after=after, limit=_PAGE):
            for name in {record.key.scope for record in records}:
                self.hear(name)
            after = records[-1].key

    async def _work_off(self, lane: Lane, lease: Lease) -> None:
        try:
            while True:
                self._busy[lease] = False
                for record in await self.store.records(INBOX, scope=lease.lane, limit=_PAGE):
                    if record.key not in self._under_way and not lease.is_lost:
                        await self._carry_out(lane, lease, record)
                lease.is_inbox_known = True
                if lease.is_lost or not self._busy[lease]:
                    return
        except StoreError as error:
            _log.error("an inbox cannot be worked off", extra={"reason": error.message})
        finally:
            del self._busy[lease]
            lease.users -= 1

    async def _carry_out(self, lane: Lane, lease: Lease, record: Record) -> None:
        try:
            operation = decode_operation(record.body)
        except msgspec.DecodeError as error:
            # A node of a later version may have sent it. It stays for one that can read it.
            _log.error("a request in an inbox cannot be read", extra={"reason": str(error)})
            return
        try:
            outcome = await self._outcome(lane, lease, operation)
        except Exception as error:  # noqa: BLE001 - goes to the node that asked
            if lease.is_lost:
                # The next owner carries it out.
                return
            if not isinstance(error, TrunklineError):
                _log.exception("a request of another node failed")
                error = GatewayBug("an unexpected error")
            outcome = Outcome(error=ErrorRecord.of(error))
        if isinstance(outcome, Run):
            self._under_way.add(record.key)
            later = self._answer_later(lane, lease, record.key, operation, outcome)
            self._tasks.spawn(later, name="answer")
        else:
            await self._answer(record.key, operation, outcome)

    async def _outcome(self, lane: Lane, lease: Lease, operation: Operation) -> Outcome | Run:
        agent = self.agents.get(operation.agent)
        if agent is None:
            raise Unavailable("The agent is not published at every node yet", retry_after_s=5)
        match operation:
            case Sent():
                return await self._send(agent, operation, lane, lease)
            case Adopting():
                await self._adopt(agent, operation, lane, lease)
            case Canceled():
                await self._cancel(agent, operation, lease)
            case TimedOut():
                await self._time_out(agent, operation)
            case Replied():
                await self.queued_replies.record(
                    operation.scope,
                    operation.task_id,
                    operation.message_id,
                    operation.payload,
                    operation.to,
                )
        return Outcome(task_id=_task_of(operation))

    async def _send(
        self, agent: PublishedAgent, sent: Sent, lane: Lane, lease: Lease
    ) -> Outcome | Run:
        if agent.lanes.slots is not None:
            await self.ownership.slots.wait_for_room(agent, lane)
        placed = Placed(lease, sent.task_id, f"request:{sent.request_id}")
        admitted = await self.service.intake.admit(
            agent, sent.caller, sent.request, needs_task=sent.needs_task, placed=placed
        )
        return await self._accepted(sent, admitted)

    async def _accepted(self, sent: Sent, admitted: Admitted) -> Outcome | Run:
        if admitted.reply is not None:
            return Outcome(reply=admitted.reply.message.decode())
        if admitted.run is not None:
            return admitted.run
        if admitted.earlier is not None:
            return Outcome(task_id=_decode_id(admitted.earlier.task).id)
        live = admitted.live
        assert live is not None
        await self.service.journal.durable(live)
        queued = bool(live.waiting) and live.waiting[-1].state is RunState.QUEUED
        return Outcome(task_id=live.task_id, seq=admitted.accepted_seq, is_queued=queued)

    async def _adopt(
        self, agent: PublishedAgent, adopting: Adopting, lane: Lane, lease: Lease
    ) -> None:
        if agent.lanes.slots is not None:
            await self.ownership.slots.wait_for_room(agent, lane)
        await self.adoptions.take(agent, adopting.caller, adopting.given, lease)

    async def _cancel(self, agent: PublishedAgent, canceled: Canceled, lease: Lease) -> None:
        request = CancelTaskRequest(id=canceled.task_id)
        try:
            await self.service.cancel(agent, canceled.caller, request)
        except TaskNotCancelable as error:
            # An owner before this one may have carried it out and not said so.
            is_canceled = error.metadata.get("state") == TaskState.CANCELED.value
            if lease.is_inbox_known or not is_canceled:
                raise

    async def _time_out(self, agent: PublishedAgent, timed_out: TimedOut) -> None:
        live = await self.service.registry.load(timed_out.scope, timed_out.task_id)
        if live.state in HAS_WORK:
            await self.service.runs.stop(agent, live, Step.FAIL, timed_out.reason)
        await self.service.journal.durable(live)

    async def _answer_later(
        self, lane: Lane, lease: Lease, key: Key, operation: Operation, run: Run
    ) -> None:
        """Store the outcome of a run that may end without a task."""
        assert run.answer is not None
        try:
            # Shielded, because repeats of the request may wait for the same answer.
            answer = await asyncio.shield(run.answer)
            if lease.is_lost:
                # The next owner answers: with the answer, or with a failed task.
                return
            if isinstance(answer, Reply):
                outcome = Outcome(reply=answer.message.decode())
            elif isinstance(answer, NoReply):
                outcome = Outcome(error=ErrorRecord.of(answer.error))
            else:
                await self.service.journal.durable(answer)
                outcome = Outcome(task_id=answer.task_id, seq=1)
            await self._answer(key, operation, outcome)
        except TrunklineError as error:
            _log.error("an outcome could not be stored", extra={"reason": error.message})
        finally:
            self._under_way.discard(key)

    async def _answer(self, key: Key, operation: Operation, outcome: Outcome) -> None:
        request_id = operation.request_id
        put = Put(key=outcome_key(request_id), body=encode(outcome), due_in_ms=KEEPS_OUTCOME_MS)
        await self.store.change(put, Delete(key=key))
        self.ownership.cluster.tell(Answered(request_id))
        self.forwarding.hear(request_id)


def _task_of(operation: Operation) -> str:
    return operation.given.task_id if isinstance(operation, Adopting) else operation.task_id
