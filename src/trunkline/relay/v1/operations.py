"""`V1Operations`: the operations of A2A for an agent that speaks protocol v1.

The agent answers each request once. Where a client wants a stream, the relay makes one of the
answer, and asks again until the task has ended.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.engine.access import check_granted
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
    PayloadTooLarge,
    PushNotificationNotSupported,
    TaskNotCancelable,
    TaskNotFound,
    TooManyRequests,
    TrunklineError,
    Unavailable,
    UnsupportedOperation,
)
from trunkline.model.events import Entry, TaskSubmitted
from trunkline.model.values import TERMINAL, Message, Task, TaskState
from trunkline.ports.clock import Clock
from trunkline.protocol.client_requests import jsonrpc_params
from trunkline.protocol.client_responses import ANSWERS
from trunkline.protocol.operations import METHOD_OF, RequestValue
from trunkline.protocol.relay.deliveries import Delivery
from trunkline.protocol.versions import Version
from trunkline.relay.v1 import answers as v1_answers
from trunkline.relay.v1.connection import (
    CALL_S,
    TASK_NOT_FOUND,
    AgentRefused,
    AnsweredTooLate,
    V1Connection,
)
from trunkline.relay.v1.tasks import V1Task, V1Tasks
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.service import (
    CLOSES_SEND,
    CLOSES_SUBSCRIBE,
    DEFAULT_PAGE_SIZE,
    ListAnswer,
    TaskAnswer,
)

# A stream asks for its task after the first of these times, and then less often up to the second.
FIRST_POLL_S: Final = 0.25
POLL_S: Final = 2.0
# A stream ends after this time; its client may subscribe again.
FOLLOWED_S: Final = 600.0
# The streams of an agent that ask for their tasks.
MAX_FOLLOWED: Final = 64
# No client waits for the answer to a message from the mailbox, so the agent may take longer. The
# relay gives an agent a minute to accept a delivery.
DELIVERY_S: Final = 50.0
_RETRY_AFTER_S: Final = 5
_MAX_UNREAD_ITEMS: Final = 1000
# What ends a task from the mailbox. Any other error is one of the moment.
_FINAL: Final = (InvalidAgentResponse, AnsweredTooLate, PayloadTooLarge)

_encode = msgspec.json.Encoder().encode
_task = msgspec.json.Decoder(Task).decode


class V1Operations:
    """Those of one agent, for as long as it is attached by this connection."""

    def __init__(
        self,
        agent: str,
        connection: V1Connection,
        *,
        version: Version,
        tasks: V1Tasks,
        large_values: LargeValues,
        background: BackgroundTasks,
        clock: Clock,
    ) -> None:
        """`version` is the one that the agent reads."""
        self._agent = agent
        self._connection = connection
        self._version = version
        self._tasks = tasks
        self._large_values = large_values
        self._background = background
        self._clock = clock
        self._answers = ANSWERS["JSONRPC", version]
        self._followed = 0
        # The tasks of deliveries that the agent has not answered.
        self._delivered_now: set[str] = set()

    @property
    def large_values(self) -> LargeValues:
        return self._large_values

    async def send(
        self, _: Any, caller: Caller, request: SendMessageRequest, /
    ) -> TaskAnswer | Reply:
        answer, _known = await self._send(caller, request, Operation.SEND_MESSAGE)
        body = _encode(answer)
        return TaskAnswer(body) if isinstance(answer, Task) else Reply(body)

    async def stream(
        self, _: Any, caller: Caller, request: SendMessageRequest, /, *, is_whole: bool = False
    ) -> Subscription:
        answer, known = await self._send(caller, request, Operation.SEND_STREAMING_MESSAGE)
        if isinstance(answer, Task):
            assert known is not None
            return self._follow(known, answer, CLOSES_SEND)
        reader = Subscription(closes_on=CLOSES_SEND, limit=_MAX_UNREAD_ITEMS)
        reader.finish(Reply(_encode(answer)))
        return reader

    async def get(self, _: Any, caller: Caller, request: GetTaskRequest, /) -> bytes:
        self._check(caller, Operation.GET_TASK)
        known = await self._tasks.find(caller.principal.id, request.id)
        return _encode(_cut(await self._read(known, request), request.history_length))

    async def list(self, _: Any, caller: Caller, request: ListTasksRequest, /) -> ListAnswer:
        """The tasks of the caller on a page of the agent, and with the first page those that only
        the relay knows."""
        self._check(caller, Operation.LIST_TASKS)
        owner = caller.principal.id
        context = request.context_id
        if context:
            context = await self._tasks.context_of(owner, context)
        asked = replace(request, tenant="", context_id=context)
        page = self._answers.page(await self._call(Operation.LIST_TASKS, asked))
        all_known = await self._tasks.all_of(owner)
        by_id = {known.agent_id: known for known in all_known if known.agent_id}
        tasks = [
            v1_answers.as_known(task, by_id[task.id]) for task in page.tasks if task.id in by_id
        ]
        if not request.page_token:
            kept = [_task(known.task) for known in all_known if not known.agent_id]
            tasks += [task for task in kept if _is_listed(task, request)]
        return ListAnswer(
            tuple([_listed(task, request) for task in tasks]),
            page.next_page_token,
            request.page_size or DEFAULT_PAGE_SIZE,
            len(tasks),
        )

    async def cancel(self, _: Any, caller: Caller, request: CancelTaskRequest, /) -> bytes:
        self._check(caller, Operation.CANCEL_TASK)
        known = await self._tasks.find(caller.principal.id, request.id)
        if not known.agent_id:
            raise TaskNotCancelable(f"Task {request.id} has already ended")
        asked = replace(request, tenant="", id=known.agent_id)
        answer = await self._call(Operation.CANCEL_TASK, asked, task_id=request.id)
        return _encode(v1_answers.as_known(self._answers.task(answer), known))

    async def subscribe(
        self,
        _: Any,
        caller: Caller,
        request: SubscribeToTaskRequest,
        /,
        *,
        last_seq: int | None = None,
        closes_on_input_required: bool = False,
        is_whole: bool = False,
    ) -> Subscription:
        """Follow a task from now on, because the agent keeps no events."""
        self._check(caller, Operation.SUBSCRIBE_TO_TASK)
        known = await self._tasks.find(caller.principal.id, request.id)
        task = await self._read(known)
        if task.status.state in TERMINAL:
            raise UnsupportedOperation(
                f"Task {request.id} has ended ({task.status.state}); read it with GetTask",
                metadata={"taskId": request.id, "state": task.status.state.value},
            )
        closes_on = CLOSES_SEND if closes_on_input_required else CLOSES_SUBSCRIBE
        return self._follow(known, task, closes_on)

    async def deliver(self, owner: str, delivery: Delivery) -> None:
        """Have the agent answer a message from the mailbox, and keep what became of it under the id
        that its caller knows. Raises TrunklineError if it can be tried again later: the agent has
        the message again then, because the protocol does not say whether it got it."""
        if delivery.task_id in self._delivered_now:
            raise Unavailable("The agent has the message already", retry_after_s=_RETRY_AFTER_S)
        self._delivered_now.add(delivery.task_id)
        try:
            if not await self._tasks.has(owner, delivery.task_id):
                await self._take(owner, delivery)
        finally:
            self._delivered_now.discard(delivery.task_id)

    async def _take(self, owner: str, delivery: Delivery) -> None:
        given = delivery.task
        known = V1Task(
            id=given.id, owner=owner, context_id=given.context_id, agent_id="", agent_context=""
        )
        try:
            answer = await self._answer_to(owner, delivery)
            if isinstance(answer, Task):
                known = replace(known, agent_id=answer.id)
            known = replace(known, agent_context=answer.context_id or given.context_id)
            task = v1_answers.from_answer(answer, given, known)
        except _FINAL as error:
            task = v1_answers.failed(given, error.message)
        except AgentRefused as refused:
            task = v1_answers.failed(given, refused.message or "The agent has failed")
        await self._tasks.keep(replace(known, task=Raw(_encode(task))))

    async def _answer_to(self, owner: str, delivery: Delivery) -> Task | Message:
        event, message = delivery.first_entry.event, delivery.task.history[0]
        context = await self._tasks.context_of(owner, delivery.context_id)
        request = SendMessageRequest(
            # The agent does not know the id that the relay has given to the task.
            message=replace(message, task_id="", context_id=context),
            metadata=event.options.metadata if isinstance(event, TaskSubmitted) else None,
        )
        params = jsonrpc_params(self._version, request)
        result = await self._connection.call(_method(_SEND), params, within_s=DELIVERY_S)
        answer = self._answers.sent(result)
        if isinstance(answer, Task):
            v1_answers.check_ids(answer)
        return answer

    async def _send(
        self, caller: Caller, request: SendMessageRequest, operation: Operation
    ) -> tuple[Task | Message, V1Task | None]:
        self._check(caller, operation)
        configuration = request.configuration
        if configuration is not None and configuration.task_push_notification_config is not None:
            raise PushNotificationNotSupported("Push notifications are not supported by this agent")
        owner, message = caller.principal.id, request.message
        context = message.context_id
        further = None
        if message.task_id:
            further = await self._tasks.find(owner, message.task_id)
            if not further.agent_id:
                raise UnsupportedOperation(f"Task {further.id} has ended; send a new message")
            message = replace(message, task_id=further.agent_id)
        if context:
            message = replace(message, context_id=await self._tasks.context_of(owner, context))
        asked = replace(request, tenant="", message=message)
        result = await self._call(_SEND, asked, task_id=request.message.task_id)
        answer = self._answers.sent(result)
        if isinstance(answer, Message):
            await self._tasks.keep_context(owner, context or answer.context_id)
            return replace(answer, context_id=context or answer.context_id), None
        v1_answers.check_ids(answer)
        is_further = further is not None and further.agent_id == answer.id
        known = V1Task(
            id=further.id if further is not None and is_further else answer.id,
            owner=owner,
            context_id=context or answer.context_id,
            agent_id=answer.id,
            agent_context=answer.context_id,
        )
        await self._tasks.keep(known)
        return v1_answers.as_known(answer, known), known

    async def _read(self, known: V1Task, request: GetTaskRequest | None = None) -> Task:
        """The task as it is now. A task that has ended does not change, so it may be kept here."""
        if known.task:
            kept = _task(known.task)
            if kept.status.state in TERMINAL:
                return kept
        history_length = None if request is None else request.history_length
        asked = GetTaskRequest(id=known.agent_id, history_length=history_length)
        answer = await self._call(Operation.GET_TASK, asked, task_id=known.id)
        return v1_answers.as_known(self._answers.task(answer), known)

    def _follow(self, known: V1Task, task: Task, closes_on: frozenset[TaskState]) -> Subscription:
        reader = Subscription(closes_on=closes_on, limit=_MAX_UNREAD_ITEMS)
        if not reader.push([Entry.of(1, task)]):
            return reader
        if self._followed >= MAX_FOLLOWED:
            raise TooManyRequests(
                f"{MAX_FOLLOWED} tasks of the agent are followed; read the task with GetTask",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._followed += 1
        poll = self._background.start(self._poll(reader, known, task), name="follow a task")

        def leave(_: Subscription) -> None:
            poll.cancel()

        reader.on_close(leave)
        poll.add_done_callback(self._unfollow)
        return reader

    def _unfollow(self, _: object) -> None:
        self._followed -= 1

    async def _poll(self, reader: Subscription, known: V1Task, task: Task) -> None:
        seq, until = 1, self._clock.monotonic() + FOLLOWED_S
        wait_s = FIRST_POLL_S
        while self._clock.monotonic() < until:
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, POLL_S)
            try:
                now = await self._read(known)
            except TrunklineError as error:
                reader.stop(error.message, seq)
                return
            entries = [
                Entry.of(number, event)
                for number, event in enumerate(v1_answers.changes(task, now), seq + 1)
            ]
            seq, task = seq + len(entries), now
            if not entries:
                reader.beat()
            elif not reader.push(entries):
                return
        reader.stop("the relay follows a task of an older agent for ten minutes", seq)

    async def _call(
        self, operation: Operation, request: RequestValue, *, task_id: str = ""
    ) -> bytes:
        """The JSON of the result. `task_id` is what the caller calls the task that it is about."""
        params = jsonrpc_params(self._version, request)
        try:
            return await self._connection.call(_method(operation), params, within_s=CALL_S)
        except AgentRefused as refused:
            if refused.code == TASK_NOT_FOUND:
                raise TaskNotFound(task_id) from None
            raise refused.as_error() from None

    def _check(self, caller: Caller, operation: Operation) -> None:
        check_granted(caller.principal, self._agent, operation)


_SEND: Final = Operation.SEND_MESSAGE


def _method(operation: Operation) -> str:
    # The names of 0.3, whatever version the parameters are of.
    return METHOD_OF[Version.V0_3][operation]


def _is_listed(task: Task, request: ListTasksRequest) -> bool:
    is_of_context = not request.context_id or request.context_id == task.context_id
    is_any = request.status is TaskState.UNSPECIFIED
    return is_of_context and (is_any or request.status is task.status.state)


def _cut(task: Task, history_length: int | None) -> Task:
    if history_length is None or history_length >= len(task.history):
        return task
    return replace(task, history=task.history[len(task.history) - history_length :])


def _listed(task: Task, request: ListTasksRequest) -> bytes:
    """A task in a list has `artifacts`, maybe empty, exactly when the request asks for them."""
    bare = _encode(replace(_cut(task, request.history_length), artifacts=()))
    if not request.include_artifacts:
        return bare
    return b'%b,"artifacts":%b}' % (bare[:-1], _encode(task.artifacts))
