"""What each action asks of a peer, in which order, and when it is done."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from trunkline.model.calls import SendMessageRequest
from trunkline.model.values import INTERRUPTED, Message, Task
from trunkline.ports.clock import Clock
from trunkline.remote.errors import BadPeerAnswer, PeerRefused, RemoteError
from trunkline.remote.peer import StreamItem
from trunkline.remote.tool.call import Call
from trunkline.remote.tool.envelope import Envelope
from trunkline.remote.tool.failure import Code, ToolFailure, no_events

_UNSUPPORTED: Final = -32004
# A wait asks often at first, when most tasks end, and then less and less.
_FIRST_POLL_S: Final = 0.5
_LAST_POLL_S: Final = 10.0
_POLL_GROWTH: Final = 1.5


async def send(call: Call, message: SendMessageRequest) -> Envelope:
    """One message, one answer."""
    await call.open()
    await call.hear(await call.peer.send(message))
    if call.request.needs_task:
        _check_is_task(call)
    return call.single()


async def send_and_follow(call: Call, message: SendMessageRequest) -> Envelope:
    """One message, and the stream that answers it."""
    card = await call.open()
    # A2A: a card that does not say that the agent streams says that it does not.
    streams = card.capabilities.streaming is True
    if call.request.needs_task:
        return await _create_and_follow(call, message, streams=streams)
    if not streams:
        await call.report(await call.peer.send(message))
        return call.followed()
    await _follow(call, call.peer.stream(message), is_answer=bool(call.route.task_id))
    if not call.events:
        raise no_events("stream ended without events")
    return call.followed()


async def _create_and_follow(call: Call, message: SendMessageRequest, *, streams: bool) -> Envelope:
    first = await call.peer.send(message)
    if isinstance(first, Message):
        await call.hear(first)
        _check_is_task(call)
    await call.report(first)
    if streams and not call.progress.is_settled:
        await _follow(call, call.peer.subscribe(call.task_id), after=first)
        if len(call.events) == 1:
            raise no_events("stream ended without watch events")
    return call.followed()


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
            # Whatever ails the stream, asking for the task says more.
            with suppress(RemoteError):
                await _follow(call, call.peer.subscribe(call.task_id))
        await _poll(call, clock)
        await _settle_on(call, call.progress.task())
    return call.single()


async def _poll(call: Call, clock: Clock) -> None:
    pause_s = _FIRST_POLL_S
    while not call.progress.is_settled:
        await clock.sleep(pause_s)
        pause_s = min(pause_s * _POLL_GROWTH, _LAST_POLL_S)
        try:
            task = await _get(call)
        except (PeerRefused, BadPeerAnswer):
            raise
        except RemoteError:
            continue  # It may be back before the wait is over.
        before = call.progress.task()
        if _looks(task) != _looks(before):
            await call.report(task)
        call.limit.touch()


async def _settle_on(call: Call, task: Task) -> None:
    if call.events[-1] != task:
        await call.hear(task)


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
        raise no_events("stream ended without watch events")
    return call.followed()


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
    return call.single()


async def cancel(call: Call) -> Envelope:
    await call.open()
    await call.hear(_checked(await call.peer.cancel(call.task_id), call.route.task_id))
    return call.single()


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
    stream: AsyncIterator[StreamItem],
    *,
    after: Task | Message | None = None,
    expected: str = "",
    is_answer: bool = False,
) -> None:
    """Report every event until the task ends or asks, or the peer has no more to say.

    `after` is what the caller was told before. With `is_answer` the stream is that of a
    message, which may begin with the task as it was when the message came in.
    """
    first: StreamItem | None = None
    async with _closing(stream):
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


@asynccontextmanager
async def _closing(stream: AsyncIterator[StreamItem]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
