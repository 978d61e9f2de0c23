"""`TaskFollower`: sends a message or watches a task, and follows it until it has settled."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from sys import getsizeof
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from trunkline.cli.remote.conversations import Conversation, Conversations, address_of
from trunkline.cli.remote.invocation import Invocation
from trunkline.cli.remote.screen import View
from trunkline.clock import SystemClock
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import ConfigError
from trunkline.model.values import (
    HAS_WORK,
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock
from trunkline.remote import BadPeerAnswer, PeerRefused, PeerTimeout, RemoteAgent, StreamItem
from trunkline.remote.progress import SETTLED, Progress
from trunkline.settings.stores import data_dir

# Reasons with which agents refuse to stream a task, for example after its end.
_NOT_STREAMED: Final = frozenset(
    {"UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INVALID_REQUEST"}
)
# The pause before an agent that does not stream is asked again, which grows.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0
# The memory of one answer: twice the maximum of a request or an event, so that the process
# stays below 200 MB whatever the agent sends.
MAX_STREAM_BYTES: Final = 32 * 1024 * 1024
# The memory of an artifact without content, which several objects here remember.
_ENTRY_BYTES: Final = 1024
_MESSAGE: Final = "\x00message"
_HISTORY: Final = "\x00history"


class TaskFollower:
    """Shows each item as it comes, and folds all of them into `progress`."""

    def __init__(
        self,
        agent: RemoteAgent,
        card: AgentCard,
        call: Invocation,
        view: View,
        *,
        keeps_artifacts: bool = True,
        max_bytes: int = MAX_STREAM_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """`keeps_artifacts`: `progress` has the artifacts in the end."""
        self.progress = Progress(keeps_artifacts=keeps_artifacts)
        self._max_bytes = max_bytes
        self._size = AnswerSize()
        self._clock = clock or SystemClock()
        self._remembered: Conversation | None = None
        # Whether --continue will find this conversation.
        self.is_remembered = True
        self._agent = agent
        # The address under which the conversation is remembered.
        self._address = address_of(card) or agent.target.url
        self._streams = card.capabilities.streaming is True
        self.call = call
        self.view = view

    async def send(
        self, request: SendMessageRequest, *, waits: bool, streams: bool, before: Task | None
    ) -> None:
        """Send the message and, with `waits`, follow the task until it settles."""
        self.view.wait()
        self.call.is_sent = True
        if not waits:
            self._add(await self._agent.send(at_once(request)))
            return
        if streams and self._streams:
            await self._take(self._agent.stream(request), before=before)
        else:
            self._add(await self._agent.send(request))
        if self.progress.has_task and not self.progress.is_settled:
            await self._until_settled()

    async def watch(self, task_id: str) -> None:
        self.call.task_id = task_id
        self.view.wait()
        self._add(await self._agent.get(task_id))
        if not self.progress.is_settled:
            await self._until_settled()

    async def _until_settled(self) -> None:
        streams = self._streams
        pause_s = _FIRST_PAUSE_S
        while not self.progress.is_settled:
            if streams:
                try:
                    if await self._take(self._agent.subscribe(self.progress.task_id)):
                        continue
                except PeerRefused as error:
                    if error.reason not in _NOT_STREAMED:
                        raise
                    # The task ended meanwhile, or the agent does not stream it.
                    streams = False
            if not self.progress.is_settled:
                self._add(await self._agent.get(self.progress.task_id))
            if not self.progress.is_settled:
                await self._clock.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)

    async def _take(
        self, items: AsyncGenerator[StreamItem, None], *, before: Task | None = None
    ) -> bool:
        """Read a stream. True if it fell silent: the connection may be dead, so try another."""
        async with aclosing(items):
            try:
                async for item in items:
                    self._add(item)
                    if _ends(item, before):
                        return False
            except PeerTimeout as error:
                if error.reason != "IDLE_TIMEOUT" or not self.progress.task_id:
                    raise
                return True
        return False

    def _add(self, item: StreamItem) -> None:
        self._size.add(item)
        self.progress.add(item)
        self.call.task_id = self.progress.task_id
        if self._size.total > self._max_bytes:
            error = BadPeerAnswer(
                f"the answer is larger than {self._max_bytes} bytes", reason="TOO_LARGE"
            )
            error.task_id = self.progress.task_id
            raise error
        self._remember()
        self.view.item(item)
        if not self.progress.is_settled and not isinstance(item, Message):
            self.view.wait()

    def _remember(self) -> None:
        """Remember the conversation early, so that --continue works after Ctrl+C too."""
        current = Conversation(context_id=self.progress.context_id, task_id=self.progress.task_id)
        if current in (self._remembered, Conversation()):
            return
        self._remembered = current
        try:
            Conversations().remember(self._address, current)
        except (OSError, ConfigError):
            if self.is_remembered and not self.call.given.quiet:
                print(
                    f"note: --continue will not find this conversation, because {data_dir()} is "
                    "not writable. Set XDG_DATA_HOME to a writable folder.",
                    file=sys.stderr,
                )
            self.is_remembered = False


def at_once(request: SendMessageRequest) -> SendMessageRequest:
    configuration = request.configuration or SendMessageConfiguration()
    return replace(request, configuration=replace(configuration, return_immediately=True))


def _ends(item: StreamItem, before: Task | None) -> bool:
    """Whether the task has settled; its agent may keep the stream open."""
    status = getattr(item, "status", None)
    if status is None or (before is not None and status == before.status):
        return False
    return status.state in SETTLED


class AnswerSize:
    """`total` is the memory in bytes that the answer takes once it is kept.

    JSON may take twenty times its length, a text four times. An artifact that is sent again
    counts once, so that an agent may send a long text anew as it grows. Messages about work in
    progress are not kept and do not count.
    """

    def __init__(self) -> None:
        self.total = 0
        self._sizes: dict[str, int] = {}

    def add(self, item: StreamItem) -> None:
        match item:
            case Message():
                self._put(_MESSAGE + item.message_id, _message(item))
            case TaskStatusUpdateEvent():
                self._status(item.status)
            case TaskArtifactUpdateEvent(artifact=artifact):
                more = self._sizes.get(artifact.artifact_id, 0) if item.append else 0
                self._put(artifact.artifact_id, more + _artifact(artifact))
            case Task():
                for artifact in item.artifacts:
                    self._put(artifact.artifact_id, _artifact(artifact))
                self._put(_HISTORY, sum(map(_message, item.history)) + _memory((), item.metadata))
                self._status(item.status)

    def _status(self, status: TaskStatus) -> None:
        if status.message is not None and status.state not in HAS_WORK:
            self._put(_MESSAGE + status.message.message_id, _message(status.message))

    def _put(self, place: str, size: int) -> None:
        before = self._sizes.get(place)
        self._sizes[place] = size
        # The total never falls: the screen may still hold parts of the previous value.
        self.total += _ENTRY_BYTES + size if before is None else max(0, size - before)


def _message(message: Message) -> int:
    return _memory(message.parts, message.metadata)


def _artifact(artifact: Artifact) -> int:
    return _memory(artifact.parts, artifact.metadata, artifact.description or None)


def _memory(parts: tuple[Part, ...], *more: Any) -> int:
    """The bytes of all content of the parts, and of further values that are not None."""
    pending = [*more]
    for part in parts:
        data = None if part.data is UNSET else part.data
        pending += (part.text, part.raw, part.url, part.metadata, data)
    size, pending = 0, [one for one in pending if one is not None]
    while pending:
        one = pending.pop()
        size += getsizeof(one)
        if isinstance(one, dict):
            pending.extend(one)
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            pending.extend(one)
    return size
