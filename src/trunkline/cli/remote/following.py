"""A message, or a task, until it has settled."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Protocol

from msgspec.structs import replace

from trunkline.cli.remote.conversations import Conversation, Conversations, address_of
from trunkline.cli.remote.ending import Errand
from trunkline.cli.remote.weight import Weight
from trunkline.clock import SystemClock
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import ConfigError
from trunkline.model.values import INTERRUPTED, TERMINAL, Message, Task
from trunkline.ports.clock import Clock
from trunkline.remote import BadPeerAnswer, PeerRefused, PeerTimeout, StreamItem, Target
from trunkline.remote.progress import Progress
from trunkline.settings.stores import data_dir

# How agents say that a task is no longer to be followed.
_NOT_STREAMED: Final = frozenset(
    {"UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INVALID_REQUEST"}
)
# Between two questions to an agent that does not stream: soon at first, then less often.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0
# An answer to one command, as memory that it takes: twice what a request or an event may have.
# The process stays below 200 MB, whatever the agent does.
MAX_STREAM_BYTES: Final = 32 * 1024 * 1024


class Agent(Protocol):
    """`RemoteAgent`, as far as it is needed."""

    @property
    def target(self) -> Target: ...

    async def card(self) -> AgentCard: ...

    async def send(self, request: SendMessageRequest) -> Task | Message: ...

    def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]: ...

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]: ...

    async def get(self, task_id: str) -> Task: ...


class View(Protocol):
    def item(self, item: StreamItem) -> None: ...

    def wait(self) -> None: ...


class Following:
    """Shows each item as it comes, and keeps what they come to."""

    def __init__(
        self,
        agent: Agent,
        errand: Errand,
        view: View,
        *,
        keeps_artifacts: bool = True,
        max_bytes: int = MAX_STREAM_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """`keeps_artifacts` for whoever wants them in the end."""
        self.progress = Progress(keeps_artifacts=keeps_artifacts)
        self._max_bytes = max_bytes
        self._weight = Weight()
        self._clock = clock or SystemClock()
        self._remembered: Conversation | None = None
        # Whether --continue will find it.
        self.is_remembered = True
        self._agent = agent
        # Under which the conversation is remembered.
        self._address = ""
        self._errand = errand
        self._view = view

    async def send(
        self, request: SendMessageRequest, *, waits: bool, streams: bool, before: Task | None
    ) -> None:
        """Send, and follow what comes of it until it settles; or not, unless `waits`."""
        self._view.wait()
        self._address = address_of(await self._agent.card())
        self._errand.is_sent = True
        if not waits:
            self._add(await self._agent.send(at_once(request)))
            return
        streams = streams and await self._streams()
        if streams:
            await self._take(self._agent.stream(request), before=before)
        else:
            self._add(await self._agent.send(request))
        if self.progress.has_task and not self.progress.is_settled:
            await self._until_settled()

    async def watch(self, task_id: str) -> None:
        self._errand.task_id = task_id
        self._view.wait()
        self._address = address_of(await self._agent.card())
        self._add(await self._agent.get(task_id))
        if not self.progress.is_settled:
            await self._until_settled()

    async def _until_settled(self) -> None:
        streams = await self._streams()
        pause_s = _FIRST_PAUSE_S
        while not self.progress.is_settled:
            if streams:
                try:
                    if await self._take(self._agent.subscribe(self.progress.task_id)):
                        continue
                except PeerRefused as error:
                    if error.reason not in _NOT_STREAMED:
                        raise
                    # It ended meanwhile, or cannot be followed after all.
                    streams = False
            if not self.progress.is_settled:
                self._add(await self._agent.get(self.progress.task_id))
            if not self.progress.is_settled:
                await self._clock.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)

    async def _take(
        self, items: AsyncGenerator[StreamItem, None], *, before: Task | None = None
    ) -> bool:
        """Whether it fell silent: the connection may be a dead one, and is worth another."""
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

    async def _streams(self) -> bool:
        return (await self._agent.card()).capabilities.streaming is True

    def _add(self, item: StreamItem) -> None:
        self._weight.add(item)
        self.progress.add(item)
        self._errand.task_id = self.progress.task_id
        if self._weight.total > self._max_bytes:
            raise self._too_much()
        self._remember()
        self._view.item(item)
        if not self.progress.is_settled and not isinstance(item, Message):
            self._view.wait()

    def _too_much(self) -> BadPeerAnswer:
        error = BadPeerAnswer(
            f"the answer is larger than {self._max_bytes} bytes", reason="TOO_LARGE"
        )
        error.task_id = self.progress.task_id
        return error

    def _remember(self) -> None:
        """Early, so that --continue works after Ctrl+C, too."""
        current = Conversation(context_id=self.progress.context_id, task_id=self.progress.task_id)
        if current in (self._remembered, Conversation()):
            return
        self._remembered = current
        try:
            Conversations().remember(self._address or self._agent.target.url, current)
        except (OSError, ConfigError):
            if self.is_remembered and not self._errand.call.quiet:
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
    """Whether the task waits for us, on a stream that its agent may keep open."""
    status = getattr(item, "status", None)
    if status is None or (before is not None and status == before.status):
        return False
    return status.state in INTERRUPTED or status.state in TERMINAL
