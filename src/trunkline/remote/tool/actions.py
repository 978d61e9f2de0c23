"""`Call`: one request to one peer; the functions below it are the actions of the tool."""

import inspect
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec

from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import StoreError
from trunkline.model.values import INTERRUPTED, TERMINAL, Message, Role, Task
from trunkline.ports.clock import Clock
from trunkline.ports.tools import OnUpdate
from trunkline.protocol.client_responses import StreamItem
from trunkline.remote.agents import Peer
from trunkline.remote.errors import BadPeerAnswer, PeerRefused, RemoteError
from trunkline.remote.progress import Progress
from trunkline.remote.retries import is_lost
from trunkline.remote.tool import envelope, failures
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.envelope import Envelope
from trunkline.remote.tool.failures import Code, ToolFailure
from trunkline.remote.tool.handles import TaskHandles
from trunkline.remote.tool.limits import Limit
from trunkline.remote.tool.request import ToolRequest
from trunkline.remote.tool.resolve import Route, is_configured, signature_of

_log = logging.getLogger("trunkline.remote.tool")

# All events of a call as JSON. The result holds each event and the sum of them; a single answer
# may have a quarter of this.
MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
_UNSUPPORTED: Final = -32004
# A wait polls often at first, when most tasks end, and then less and less.
_FIRST_POLL_S: Final = 0.5
_LAST_POLL_S: Final = 10.0
_POLL_GROWTH: Final = 1.5
_encode = msgspec.json.Encoder().encode


class Call(msgspec.Struct, kw_only=True, eq=False):
    request: ToolRequest
    route: Route
    peer: Peer
    config: ToolConfig
    handles: TaskHandles
    limit: Limit
    on_update: OnUpdate | None
    card: AgentCard | None = None
    progress: Progress = msgspec.field(default_factory=Progress)
    events: list[StreamItem] = []
    _heard_bytes: int = 0
    # The task that `_handle` stands for.
    _held: str = ""
    _handle: str = ""
    _signature: str = ""

    async def open(self) -> AgentCard:
        self.card = await self.peer.card()
        self.limit.touch()
        return self.card

    async def hear(self, item: StreamItem) -> None:
        """Add an answer or event of the peer."""
        self.events.append(item)
        most = self.config.defaults.max_stream_events
        if len(self.events) > most:
            raise failures.too_many_events(most)
        self._heard_bytes += len(_encode(item))
        if self._heard_bytes > MAX_STREAM_BYTES:
            raise failures.too_many_bytes(MAX_STREAM_BYTES)
        self.progress.add(item)
        self.limit.touch()
        await self._hold()

    async def report(self, item: StreamItem) -> None:
        """Add it, and send the caller an update."""
        await self.hear(item)
        if self.on_update is None:
            return
        told = envelope.success(
            self.request.action, self.summary(), envelope.raw_of(item), is_update=True
        )
        try:
            done = self.on_update(told)
            if inspect.isawaitable(done):
                await done
        except Exception:  # noqa: BLE001 - logged; the result still matters
            _log.exception("on_update failed; it is not called again")
            self.on_update = None
        self.limit.touch()

    @property
    def task_id(self) -> str:
        """The id that the peer gives comes before that of the request."""
        return self.progress.task_id or self.route.task_id

    @property
    def context_id(self) -> str:
        return self.progress.context_id or self.route.context_id

    async def _hold(self) -> None:
        """Make sure that the task has a handle: that of the request, if it is for this task."""
        if not self._signature and not is_configured(self.route.target, self.config):
            self._signature = await self._sign()
        task_id, record = self.task_id, self.route.record
        if not task_id or task_id == self._held:
            return
        self._held = task_id
        try:
            if record is not None and record.task_id == task_id:
                self._handle = record.handle
                await self.handles.refresh(record, context_id=self.context_id)
            else:
                self._handle = await self.handles.issue(self.route.target, task_id, self.context_id)
        except StoreError as error:
            # The work is under way; without a handle its id still leads back to it.
            _log.warning("the task handle was not stored", extra={"why": error.message})

    async def _sign(self) -> str:
        try:
            key = await self.handles.store.signing_key()
        except StoreError as error:
            _log.warning("the continuation was not signed", extra={"why": error.message})
            return ""
        return signature_of(key, self.route.target)

    def summary(self) -> dict[str, Any]:
        target, card, progress = self.route.target, self.card, self.progress
        streaming = None if card is None else card.capabilities.streaming
        fields = {
            "target_alias": target.alias or None,
            "target_name": (card.name or None) if card else None,
            "target_url": target.url,
            "target_reason": self.route.reason or None,
            "streaming_supported": streaming,
            "response_kind": progress.kind or None,
            "message_text": progress.answer() or None,
            "artifacts": [envelope.artifact_json(each) for each in progress.artifacts()] or None,
            "continuation": envelope.continuation_of(
                target,
                task_id=self.task_id,
                context_id=self.context_id,
                task_handle=self._handle,
                state=progress.state,
                streaming=streaming,
                signature=self._signature,
            ),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def result(self, *, is_stream: bool = False) -> Envelope:
        raw = envelope.raw_stream(self.events) if is_stream else envelope.raw_of(self.events[-1])
        return envelope.success(self.request.action, self.summary(), raw)

    def explain(self, why: ToolFailure) -> ToolFailure:
        """The failure, with details about the peer and the task."""
        more: dict[str, Any] = {}
        if self.events and self.task_id:
            summary = self.summary()
            more |= {
                "task_id": self.task_id,
                **({"task_handle": self._handle} if self._handle else {}),
                **({"context_id": self.context_id} if self.context_id else {}),
                "suggested_action": "status",
                "partial_event_count": len(self.events),
                "latest_event_summary": summary,
                "continuation": summary.get("continuation"),
            }
        elif self.events:
            more["partial_event_count"] = len(self.events)
        if self.request.action == "send":
            more["capability_diagnostics"] = envelope.capability_diagnostics(
                self.request.parts, self._output_modes, self.card
            )
        return why.with_details(more)

    @property
    def _output_modes(self) -> tuple[str, ...]:
        modes = self.request.accepted_output_modes
        return self.config.policy.accepted_output_modes if modes is None else modes

    def message(self, new_id: str) -> SendMessageRequest:
        """The request to the peer. No output modes means that any will do."""
        request, route = self.request, self.route
        return SendMessageRequest(
            message=Message(
                message_id=request.message_id or new_id,
                role=Role.USER,
                parts=request.parts,
                task_id=route.task_id,
                context_id=route.context_id,
                reference_task_ids=request.reference_task_ids,
            ),
            configuration=SendMessageConfiguration(
                accepted_output_modes=self._output_modes,
                history_length=request.history_length,
                task_push_notification_config=request.push_notification_config,
                # A caller that wants the task, or waits for it here, must know of it at once.
                return_immediately=request.needs_task
                or request.wait_timeout_ms is not None
                or not request.blocking,
            ),
            metadata=request.metadata,
        )

    @property
    def may_cancel(self) -> bool:
        """This call has a task that can still be cancelled."""
        return bool(self.progress.task_id) and self.progress.state not in TERMINAL


async def send(call: Call, message: SendMessageRequest) -> Envelope:
    """One message, one answer."""
    await call.open()
    await call.hear(await call.peer.send(message))
    if call.request.needs_task:
        _check_is_task(call)
    return call.result()


async def send_and_follow(call: Call, message: SendMessageRequest) -> Envelope:
    """One message, and the stream that answers it."""
    card = await call.open()
    # A2A, AgentCapabilities: an absent `streaming` means that the agent does not stream.
    streams = card.capabilities.streaming is True
    if call.request.needs_task:
        return await _create_and_follow(call, message, streams=streams)
    if not streams:
        await call.report(await call.peer.send(message))
        return call.result(is_stream=True)
    await _follow(call, call.peer.stream(message), is_answer=bool(call.route.task_id))
    if not call.events:
        raise failures.no_events("stream ended without events")
    return call.result(is_stream=True)


async def _create_and_follow(call: Call, message: SendMessageRequest, *, streams: bool) -> Envelope:
    first = await call.peer.send(message)
    if isinstance(first, Message):
        await call.hear(first)
        _check_is_task(call)
    await call.report(first)
    if streams and not call.progress.is_settled:
        await _follow(call, call.peer.subscribe(call.task_id), after=first)
        if len(call.events) == 1:
            raise failures.no_events("stream ended without watch events")
    return call.result(is_stream=True)


def _check_is_task(call: Call) -> None:
    answer = call.events[-1]
    if isinstance(answer, Message):
        details = {
            **({"context_id": answer.context_id} if answer.context_id else {}),
            "message_id": answer.message_id,
            "response_kind": "message",
        }
        text = (
            'task_requirement="required" expected a Task response, '
            "but the peer returned only a Message"
        )
        raise ToolFailure(Code.TASK_REQUIRED, text, details)


async def wait(call: Call, clock: Clock) -> Envelope:
    """After a send: follow the task until it ends or asks, by stream, then by polling."""
    if call.progress.has_task and not call.progress.is_settled:
        if call.card is not None and call.card.capabilities.streaming is True:
            # Whatever breaks the stream, polling the task tells more.
            with suppress(RemoteError):
                await _follow(call, call.peer.subscribe(call.task_id))
        await _poll(call, clock)
        if call.events[-1] != (task := call.progress.task()):
            await call.hear(task)
    return call.result()


async def _poll(call: Call, clock: Clock) -> None:
    pause_s = _FIRST_POLL_S
    while not call.progress.is_settled:
        await clock.sleep(pause_s)
        pause_s = min(pause_s * _POLL_GROWTH, _LAST_POLL_S)
        try:
            task = await _get(call)
        except BadPeerAnswer:
            raise
        except RemoteError as error:
            if isinstance(error, PeerRefused) and not is_lost(error):
                raise
            continue  # The peer may be back before the wait is over.
        if _looks(task) != _looks(call.progress.task()):
            await call.report(task)
        call.limit.touch()


async def watch(call: Call) -> Envelope:
    card = await call.open()
    if card.capabilities.streaming is False:
        raise _cannot_watch(call)
    try:
        await _follow(call, call.peer.subscribe(call.task_id), expected=call.route.task_id)
    except PeerRefused as refused:
        if refused.code == _UNSUPPORTED or refused.reason == "UNSUPPORTED_OPERATION":
            raise _cannot_watch(call) from refused
        raise
    if not call.events:
        raise failures.no_events("stream ended without watch events")
    return call.result(is_stream=True)


def _cannot_watch(call: Call) -> ToolFailure:
    target, card = call.route.target, call.card
    streaming = None if card is None else card.capabilities.streaming
    details = {
        "task_id": call.task_id,
        "target_url": target.url,
        **({"target_alias": target.alias} if target.alias else {}),
        **({} if streaming is None else {"streaming_supported": streaming}),
        "suggested_action": "status",
    }
    text = f"streaming updates are not available for task {call.task_id}; retry with action=status"
    return ToolFailure(Code.REMOTE, text, details)


async def status(call: Call) -> Envelope:
    await call.open()
    await call.hear(await _get(call))
    return call.result()


async def cancel(call: Call) -> Envelope:
    await call.open()
    await call.hear(_checked(await call.peer.cancel(call.task_id), call.route.task_id))
    return call.result()


async def _get(call: Call) -> Task:
    asked = call.task_id
    length = call.request.history_length
    return _checked(await call.peer.get(asked, history_length=length), asked)


def _checked(task: Task, asked: str) -> Task:
    if task.id != asked:
        raise BadPeerAnswer(f'the peer answered with task "{task.id[:256]}", asked for "{asked}"')
    return task


async def _follow(
    call: Call,
    stream: AsyncGenerator[StreamItem, None],
    *,
    after: Task | Message | None = None,
    expected: str = "",
    is_answer: bool = False,
) -> None:
    """Report every event until the task ends or asks, or the stream ends.

    `after` is the last item that the caller got. With `is_answer` the stream belongs to a
    message, and may begin with the task as it was when the message came in.
    """
    first: StreamItem | None = None
    async with aclosing(stream):
        async for item in stream:
            is_snapshot = first is None and isinstance(item, Task)
            first = first or item
            if is_snapshot and after is not None and _looks(item) == _looks(after):
                call.limit.touch()
                continue
            if expected and isinstance(item, Task):
                _checked(item, expected)
            await call.report(item)
            is_old_question = is_answer and is_snapshot and call.progress.state in INTERRUPTED
            if call.progress.is_settled and not is_old_question:
                return


def _looks(task: StreamItem) -> tuple[object, ...]:
    if not isinstance(task, Task):
        return ()
    return (task.id, task.context_id, task.status, task.history, task.artifacts)
