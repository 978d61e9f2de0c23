"""`TaskFollower`: sends a message or watches a task until it settles; `View` shows its items."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from trunkline.cli.options import Form
from trunkline.cli.output import json_line
from trunkline.cli.remote.conversations import Conversation, Conversations, address_of
from trunkline.cli.remote.events import Answer, AnswerSize, Attachment, EventReader, StateChange
from trunkline.cli.remote.invocation import Invocation
from trunkline.cli.remote.screen import PlainScreen
from trunkline.clock import SystemClock
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import ConfigError
from trunkline.model.values import (
    SETTLED,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock
from trunkline.remote import BadPeerAnswer, PeerRefused, PeerTimeout, RemoteAgent, StreamItem
from trunkline.remote.progress import Progress
from trunkline.remote.streams import NOT_STREAMED
from trunkline.settings.stores import data_dir

# An agent that does not stream is asked again after a pause, which grows.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0
# The memory of one answer: twice the maximum of a request or an event, so that the process
# stays below 200 MB whatever the agent sends.
MAX_STREAM_BYTES: Final = 32 * 1024 * 1024
_NAMES: dict[type, str] = {
    Task: "task",
    Message: "message",
    TaskStatusUpdateEvent: "statusUpdate",
    TaskArtifactUpdateEvent: "artifactUpdate",
}


def wrapped(item: StreamItem) -> dict[str, StreamItem]:
    """The item under the name that it has in a response of A2A 1.0."""
    return {_NAMES[type(item)]: item}


class View:
    """Shows the items of a stream as they come; with `prints`, each as a line of JSON."""

    def __init__(
        self,
        screen: PlainScreen,
        *,
        output: Form = "text",
        prints: bool = True,
        agent: str = "",
        before: Task | None = None,
    ) -> None:
        """`agent` is its name, for people. `before` is the task before the message, which is not
        shown again."""
        self.screen = screen
        # The answer, unless the screen shows it as it comes.
        self.answer = None if screen.shows_text or output == "json" else Answer()
        # The agent's words on why the task ended without being done.
        self.reason = ""
        # How many files came along.
        self.files = 0
        self._output = output
        self._prints = prints
        self._agent = agent
        self._is_queued = False
        self._events = EventReader(before)

    def item(self, item: StreamItem) -> None:
        if isinstance(item, Task | TaskStatusUpdateEvent):
            self._is_queued = item.status.state is TaskState.SUBMITTED
        if self._output == "json":
            if self._prints:
                self.screen.close()
                print(json_line(wrapped(item)), flush=True)
            return
        for event in self._events.read(item):
            if isinstance(event, StateChange):
                self.reason = event.reason
            elif isinstance(event, Attachment):
                self.files += event.part.raw is not None
            if self.answer is not None:
                self.answer.add(event)
            self.screen.show(event)

    def wait(self) -> None:
        if self._output == "text":
            what = f"the task waits for {self._agent}"
            self.screen.wait(what if self._is_queued else f"{self._agent} is working")


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
        if self.progress.has_task:
            await self._until_settled()

    async def watch(self, task_id: str) -> None:
        self.call.task_id = task_id
        self.view.wait()
        self._add(await self._agent.get(task_id))
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
                    if error.reason not in NOT_STREAMED:
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
            if self.is_remembered and not self.call.flags.quiet:
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
