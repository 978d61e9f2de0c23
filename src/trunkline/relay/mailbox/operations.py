"""`MailboxOperations`: the operations of A2A for what waits at the relay, for one request."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from trunkline.engine.access import check_granted
from trunkline.engine.admission import check_follow_up, check_request
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import (
    InvalidAgentResponse,
    TaskNotCancelable,
    Unavailable,
    UnsupportedOperation,
)
from trunkline.model.events import Entry, Event, TaskSubmitted
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Task, TaskState, TaskStatus
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Snapshot
from trunkline.protocol.relay.addresses import target_of
from trunkline.relay.host_calls import HostCall, HostCalls, not_attached
from trunkline.relay.mailbox.mailbox import RETRY_AFTER_S, Mailbox, unsure
from trunkline.relay.mailbox.merged_lists import AgentPage, is_own_token, merged
from trunkline.relay.mailbox.records import Ended, Letter, Owner, decode_task
from trunkline.relay.mailbox.streams import MailboxStreams
from trunkline.relay.mailbox.waiting import Waiting
from trunkline.relay.policies import AgentPolicy
from trunkline.relay.requests import RelayedRequest
from trunkline.runtime.fanout import Item, Opening, Subscription
from trunkline.runtime.intake import turn_options
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.service import ListAnswer, TaskAnswer
from trunkline.runtime.task_json import listed_json, task_json

_encode: Final = msgspec.json.Encoder().encode
_Send: TypeAlias = Literal["SendMessage", "SendStreamingMessage"]
_LIST_HEADERS: Final = (("content-type", "application/json"), ("a2a-version", "1.0"))


class MailboxParts(Struct, frozen=True, kw_only=True, eq=False):
    """What the operations of all requests share."""

    clock: Clock
    ids: Ids
    calls: HostCalls
    streams: MailboxStreams
    large_values: LargeValues


class MailboxOperations(Struct, frozen=True, kw_only=True, eq=False):
    """`Operations` of the server; the agent of each call is that of the mailbox."""

    parts: MailboxParts
    mailbox: Mailbox
    request: RelayedRequest
    policy: AgentPolicy
    is_away: bool

    @property
    def large_values(self) -> LargeValues:
        return self.parts.large_values

    async def send(self, agent: Any, caller: Caller, request: SendMessageRequest) -> TaskAnswer:
        """Answer at once, because the agent may stay away for days."""
        self._check(caller, Operation.SEND_MESSAGE)
        waiting = await self._accept(caller, request, "SendMessage")
        entry = await self._first_entry(waiting)
        return TaskAnswer(_shown(entry, _history_length(request)))

    async def stream(
        self, agent: Any, caller: Caller, request: SendMessageRequest, *, is_whole: bool = False
    ) -> Subscription:
        self._check(caller, Operation.SEND_STREAMING_MESSAGE)
        waiting = await self._accept(caller, request, "SendStreamingMessage")
        entry = await self._first_entry(waiting)
        history_length = _history_length(request)
        first: Item = entry
        if history_length == 0:
            first = Opening(1, _shown(entry, history_length))
        return self._open(waiting, (first,))

    async def get(self, agent: Any, caller: Caller, request: GetTaskRequest) -> bytes:
        self._check(caller, Operation.GET_TASK)
        owner = _owner(caller)
        waiting = self.mailbox.find(owner, request.id)
        if waiting is not None:
            return _shown(await self._first_entry(waiting), request.history_length)
        end = await self._end(owner, request.id)
        return task_json(Snapshot(2, bytes(end.task)), request.history_length)

    async def list(self, agent: Any, caller: Caller, request: ListTasksRequest) -> ListAnswer:
        self._check(caller, Operation.LIST_TASKS)
        owner = _owner(caller)
        if self.is_away:
            return await self._list_what_waits(owner, request)
        async with self.mailbox.hold(owner):
            waiting = self.mailbox.of(owner)

            async def ask(size: int, token: str) -> AgentPage:
                return await self._asked(replace(request, page_size=size, page_token=token))

            return await self._merged(request, waiting, ask)

    async def cancel(self, agent: Any, caller: Caller, request: CancelTaskRequest) -> bytes:
        self._check(caller, Operation.CANCEL_TASK)
        owner = _owner(caller)
        waiting = self.mailbox.find(owner, request.id)
        if waiting is not None:
            if waiting.is_unsure:
                raise unsure()
            canceled = await self.mailbox.cancel(waiting)
            if canceled is None:
                # The agent has just got it.
                raise unsure()
            return bytes(canceled.task)
        state = decode_task((await self._end(owner, request.id)).task).status.state
        raise TaskNotCancelable(
            f"Task {request.id} has already ended ({state})",
            metadata={"taskId": request.id, "state": state.value},
        )

    async def subscribe(
        self,
        agent: Any,
        caller: Caller,
        request: SubscribeToTaskRequest,
        *,
        last_seq: int | None = None,
        closes_on_input_required: bool = False,
        is_whole: bool = False,
    ) -> Subscription:
        self._check(caller, Operation.SUBSCRIBE_TO_TASK)
        owner = _owner(caller)
        waiting = self.mailbox.find(owner, request.id)
        if waiting is None:
            state = decode_task((await self._end(owner, request.id)).task).status.state
            raise UnsupportedOperation(
                f"Task {request.id} has ended ({state}); read it with GetTask",
                metadata={"taskId": request.id, "state": state.value},
            )
        entry = await self._first_entry(waiting)
        first: tuple[Item, ...] = ()
        if last_seq is None:
            first = (Opening(1, _shown(entry, None)),)
        elif last_seq == 0:
            first = (entry,)
        return self._open(waiting, first)

    # The rest is internal.

    def _check(self, caller: Caller, operation: Operation) -> None:
        check_granted(caller.principal, self.mailbox.agent, operation)

    async def _accept(
        self, caller: Caller, request: SendMessageRequest, operation: _Send
    ) -> Waiting:
        """A letter for the message, or the one that it repeats."""
        check_request(request)
        if request.message.task_id:
            await self._refuse_follow_up(caller, request)
        letter = self._letter(caller, request, operation)
        repeated = self.mailbox.repeated_by(letter)
        if repeated is not None:
            return repeated
        if self.is_away and self.policy.mailbox != "queue":
            raise not_attached()
        return await self.mailbox.put(letter)

    async def _refuse_follow_up(self, caller: Caller, request: SendMessageRequest) -> None:
        """A message to a task that waits, or that the agent alone knows."""
        owner, message = _owner(caller), request.message
        waiting = self.mailbox.find(owner, message.task_id)
        if waiting is not None:
            check_follow_up(message, context_id=waiting.context_id, state=TaskState.SUBMITTED)
            raise Unavailable(
                "The task waits for its agent, which has to take it first; send the message later, "
                "or without taskId and with contextId, to queue it behind the task",
                retry_after_s=RETRY_AFTER_S,
            )
        task = decode_task((await self._end(owner, message.task_id)).task)
        check_follow_up(message, context_id=task.context_id, state=task.status.state)

    def _letter(self, caller: Caller, request: SendMessageRequest, operation: _Send) -> Letter:
        now_ms = self.parts.clock.now_ms()
        task_id = self.parts.ids.new()
        # A message without a context begins a new one, which has the id of the task.
        context_id = request.message.context_id or task_id
        task = Task(
            id=task_id,
            context_id=context_id,
            status=TaskStatus(state=TaskState.SUBMITTED, timestamp=format_timestamp(now_ms)),
            history=(replace(request.message, task_id=task_id, context_id=context_id),),
        )
        options = turn_options(caller, request)
        event: Event = task if options is None else TaskSubmitted(task=task, options=options)
        entry = Entry.of(1, event)
        signed = self.request.caller
        return Letter(
            task_id=task_id,
            context_id=context_id,
            created_ms=now_ms,
            ends_ms=now_ms + round(self.policy.mailbox_ttl_s * 1000),
            kind=entry.kind,
            entry=Raw(entry.body),
            principal=signed.id,
            operations=signed.operations,
            chain=signed.chain,
            tenant=caller.tenant,
            idempotency_key=caller.idempotency_key,
            message_id=request.message.message_id,
            digest=digest_of(request),
            operation=operation,
            binding=caller.binding,
        )

    async def _first_entry(self, waiting: Waiting) -> Entry:
        """Raises Unavailable for a letter of which it is unknown whether the agent has it."""
        letter = None if waiting.is_unsure else await self.mailbox.letter(waiting)
        if letter is None or letter.lost:
            raise unsure()
        return letter.first_entry

    async def _end(self, owner: Owner, task_id: str) -> Ended:
        """What ended here; only the agent knows of any other task."""
        if not self.mailbox.has_ended(owner, task_id):
            raise not_attached()
        end = await self.mailbox.end(task_id)
        if end is None or end.is_unsure:
            raise not_attached()
        return end

    def _open(self, waiting: Waiting, first: Sequence[Item]) -> Subscription:
        return self.parts.streams.open(self.request, self.mailbox, waiting, first)

    async def _list_what_waits(self, owner: Owner, request: ListTasksRequest) -> ListAnswer:
        waiting = self.mailbox.of(owner)
        token = request.page_token
        # What the agent has is unknown now, and a list without it would look like all there is.
        if not waiting or (token and not is_own_token(token)):
            raise not_attached()
        if any(each.is_unsure for each in waiting):
            raise unsure()
        return await self._merged(request, waiting, None)

    async def _merged(
        self, request: ListTasksRequest, waiting: Sequence[Waiting], ask: Any
    ) -> ListAnswer:
        async def show(each: Waiting) -> bytes | None:
            letter = await self.mailbox.letter(each)
            if letter is None:
                return None
            return listed_json(
                Snapshot(1, letter.first_entry.public_body),
                history_length=request.history_length,
                include_artifacts=request.include_artifacts,
            )

        return await merged(request, waiting, ask=ask, show=show)

    async def _asked(self, request: ListTasksRequest) -> AgentPage:
        """A page of the agent's own list."""
        body = _encode({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": request})
        agent = self.mailbox.agent
        answer = await self.parts.calls.answer(
            HostCall(
                agent=agent,
                caller=self.request.caller,
                method="POST",
                target=target_of(agent),
                headers=_LIST_HEADERS,
                body=body,
            )
        )
        try:
            listed = _decode_listed(answer.body)
        except msgspec.DecodeError as error:
            raise InvalidAgentResponse(f"The list of the agent cannot be read: {error}") from None
        if listed.result is None:
            said = "" if listed.error is None else f": {listed.error.message}"
            raise UnsupportedOperation(f"The agent does not list its tasks{said}")
        return listed.result


class _Error(Struct):
    message: str = ""


class _Listed(Struct):
    result: AgentPage | None = None
    error: _Error | None = None


_decode_listed: Final = msgspec.json.Decoder(_Listed).decode


def digest_of(request: SendMessageRequest) -> str:
    return hashlib.sha256(_encode(request)).hexdigest()


def _owner(caller: Caller) -> Owner:
    return Owner(caller.principal.id, caller.tenant)


def _shown(entry: Entry, history_length: int | None) -> bytes:
    return task_json(Snapshot(1, entry.public_body), history_length)


def _history_length(request: SendMessageRequest) -> int | None:
    configuration = request.configuration
    return None if configuration is None else configuration.history_length
