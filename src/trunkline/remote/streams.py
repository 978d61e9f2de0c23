"""`ResumingStream`: the events of a task over as many connections as it takes."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, closing, suppress
from typing import Final, TypeAlias

from msgspec.structs import replace

from trunkline.model.calls import (
    GetTaskRequest,
    Operation,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import SETTLED, Task
from trunkline.protocol.client_responses import ANSWERS, Answers, StreamItem
from trunkline.protocol.sse import Parser
from trunkline.protocol.versions import Version
from trunkline.remote.deduplication import MissingEvent, Overlap, Seen
from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
)
from trunkline.remote.http import SSE
from trunkline.remote.interfaces import Endpoint
from trunkline.remote.peer_client import CallOptions, OpenStream, PeerClient
from trunkline.remote.responses import ResponseReader
from trunkline.remote.retries import delay_s, is_lost, is_passing

# The request that opens a connection: the message at first, then a subscription to its task.
StreamRequest: TypeAlias = SendMessageRequest | SubscribeToTaskRequest

# Refusals by which agents say that a task which ended, or waits, has no stream.
NOT_STREAMED: Final = frozenset(
    {"UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INVALID_REQUEST"}
)

# A peer may keep a stream open for this long after its task has ended. If the response ends in
# time, its connection can be used again.
_FAREWELL_S: Final = 1.0

# A peer that closes a subscription this soon, after the task alone or nothing, has no run to
# follow. Proxies close a connection only after a longer silence.
_AT_ONCE_S: Final = 5.0

# A2A 0.3 §9.9 does not say whether a subscription begins with the task: OpenClaw's does, a2a-sdk's
# does not. After this long without an event the task is read separately.
_OPENING_S: Final = 1.0


class EventReader:
    """The events of one connection. `id` is that of the JSON-RPC request that opened it.

    Events that `overlap` holds are skipped: the caller got them with a task that was read since
    the stream was opened. With `is_resumed`, so is a first task that holds nothing new.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        id: bytes,
        reader: ResponseReader,
        seen: Seen,
        *,
        overlap: Overlap | None,
        is_resumed: bool,
        max_event_bytes: int,
    ) -> None:
        self._endpoint = endpoint
        self._id = id
        self._reader = reader
        self._seen = seen
        self._read = ANSWERS[endpoint.binding, endpoint.version].event
        self._parser = Parser(max_event_bytes=max_event_bytes)
        self._overlap = overlap
        self._may_be_old = self._is_first = is_resumed
        # The number of events, counted as long as the only one is the task.
        self.count = 0
        self.is_bare = True
        # The bytes before the result in each JSON-RPC envelope, once one was read.
        self._head = b""

    def read(self, chunk: bytes) -> Iterator[StreamItem]:
        """The new events, noted as seen. Raises BadPeerAnswer and PeerRefused."""
        seen = self._seen
        try:
            for event in self._parser.feed(chunk):
                data = event.data
                if event.event == "gap":
                    # The peer cannot resume from the last id.
                    seen.last_id = ""
                    continue
                if not data:
                    continue
                head = self._head
                is_usual = head and data.startswith(head) and data.endswith(b"}")
                is_error = event.event == "error"
                payload = data[len(head) : -1] if is_usual else self._opened(data, is_error)
                if event.has_id and seen.is_repeated(event.id, payload):
                    continue
                try:
                    item = self._read(payload)
                except InvalidAgentResponse:
                    # The envelope may hold more than the result, such as an error.
                    item = self._read(self._opened(data))
                if self.is_bare:
                    self._count(item, event.has_id)
                is_old = self._may_be_old and self._is_old(item, event.has_id)
                if not is_old:
                    seen.note(item)
                if event.has_id:
                    seen.last_id = event.id
                if not is_old:
                    yield item
        except InvalidAgentResponse as error:
            raise self._reader.bad(error) from None
        except MissingEvent:
            raise BadPeerAnswer("an event of the stream is missing") from None

    def _count(self, item: StreamItem, has_id: bool) -> None:
        if has_id and not self._seen.last_id:
            self._seen.begin_with(item)
        self.is_bare = not self.count and isinstance(item, Task)
        self.count += 1

    def _opened(self, data: bytes, is_error: bool = False) -> bytes:
        """The JSON of the result. A peer writes all envelopes alike: one is parsed in full."""
        payload = self._reader.event(self._endpoint, data, self._id, is_error=is_error)
        if self._endpoint.binding == "JSONRPC" and data.endswith(payload + b"}"):
            self._head = data[: -len(payload) - 1]
        return payload

    def _is_old(self, item: StreamItem, has_id: bool) -> bool:
        """Whether the caller already has the item. Raises InvalidAgentResponse."""
        is_first, self._is_first = self._is_first, False
        if self._overlap is not None and self._overlap.holds(item):
            return True
        if is_first and isinstance(item, Task):
            self._seen.meet(item.id)
            if not has_id:
                self._overlap = Overlap(item, self._seen.sizes)
                return self._seen.shows(item)
            if self._seen.shows(item):
                return True
        self._may_be_old = False
        return False


class ResumingStream:
    """One stream of events, over as many connections as it takes."""

    def __init__(self, client: PeerClient, options: CallOptions) -> None:
        self._client = client
        self._options = options
        self._limits = options.limits
        self._seen = Seen()
        self._is_subscription = False
        self._failures = 0
        # Set for every connection after the first.
        self._is_resuming = False
        # Whether the peer closed the last connection at once after a snapshot or nothing, and
        # how many such connections in a row brought nothing new.
        self._is_bare = False
        self._bare_ends = 0
        self._ends_at = 0.0

    async def follow(self, request: StreamRequest) -> AsyncGenerator[StreamItem, None]:
        self._ends_at = asyncio.get_running_loop().time() + self._limits.stream_s
        features = (await self._client.cached_card(self._limits)).features
        self._seen.is_numbered = "event-ids" in features
        if isinstance(request, SubscribeToTaskRequest):
            self._seen.task_id = request.id
            self._is_subscription = True
        while True:
            is_news, self._is_bare = False, False
            try:
                async with aclosing(self._connection(request)) as pieces:
                    async for items in pieces:
                        # Events arrive in batches: a generator per event would cost more CPU.
                        for item in items:
                            self._failures, is_news = 0, True
                            yield item
                if self._seen.is_settled or self._has_told_all(is_news=is_news):
                    return
                cause: RemoteError = PeerUnreachable("the stream ended before the task did")
            except (PeerUnreachable, PeerTimeout, BadPeerAnswer) as error:
                self._check_limit(error)
                cause = error
            except PeerRefused as error:
                if not self._may_resume_after(error):
                    task = await self._settled(error)
                    if not self._seen.shows(task):
                        yield task
                    return
                cause = error
            if self._seen.is_over:
                return
            request = await self._before_next(request, cause)

    def _has_told_all(self, *, is_news: bool) -> bool:
        """Whether two connections in a row have shown that there is no run to follow.

        One proves nothing: a peer that restarts also closes its streams.
        """
        if not self._is_bare:
            self._bare_ends = 0
            return False
        self._bare_ends = 1 if is_news else self._bare_ends + 1
        return self._bare_ends >= 2

    def _check_limit(self, error: RemoteError) -> None:
        """Another connection may help, except against a limit in time."""
        is_limit = isinstance(error, PeerTimeout) and not error.is_unsent
        if (is_limit or error.reason == "CLOSED") and not self._seen.is_over:
            raise self._about_task(error) from None

    def _may_resume_after(self, refusal: PeerRefused) -> bool:
        """An agent that was lost before it named a task may have acted on the message."""
        if is_lost(refusal):
            return self._seen.is_over or bool(self._seen.task_id)
        return self._is_resuming and is_passing(refusal)

    def _about_task(self, error: RemoteError) -> RemoteError:
        error.task_id = self._seen.task_id
        return error

    async def _before_next(self, request: StreamRequest, cause: RemoteError) -> StreamRequest:
        """The next request, after a pause. Raises if the stream cannot or must not be resumed."""
        seen = self._seen
        self._failures += 1
        if cause.is_unsent and self._failures == 1 and not seen.task_id:
            # The peer was not reached in any of the attempts of a call.
            raise cause
        if not seen.task_id and not self._options.is_repeatable:
            if isinstance(cause, BadPeerAnswer):
                raise cause
            raise StreamEnded(
                f"{cause.message}, before it named a task; the message may have arrived"
            )
        if self._failures > self._limits.reconnects:
            if isinstance(cause, BadPeerAnswer):
                raise self._about_task(cause)
            raise StreamEnded(
                f"the stream could not be resumed in {self._limits.reconnects} attempts: "
                f"{cause.message}",
                task_id=seen.task_id,
                last_event_id=seen.last_id,
            )
        # The peer decides the pause; an open circuit does not count here.
        wait_s = cause.retry_after_s if isinstance(cause, PeerRefused) else None
        if wait_s is None:
            wait_s = delay_s(self._failures - 1, self._client.chance())
        # The client looks at a task that may have no run a second time, once without a pause.
        if self._is_resuming or not self._is_bare:
            await self._client.clock.sleep(wait_s)
        if not seen.task_id:
            return request
        self._is_resuming = True
        return SubscribeToTaskRequest(id=seen.task_id)

    async def _settled(self, refusal: PeerRefused) -> Task:
        """The settled task that a peer therefore refuses to stream. Raises any other refusal."""
        if not self._is_resuming:
            raise self._about_task(refusal)
        if refusal.reason not in NOT_STREAMED:
            raise self._about_task(refusal)
        task = await self._snapshot()
        if task.status.state not in SETTLED:
            raise self._about_task(refusal)
        return task

    async def _snapshot(self) -> Task:
        def read(answers: Answers, payload: bytes) -> Task:
            task = answers.task(payload)
            self._seen.meet(task.id)
            return task

        request, options = GetTaskRequest(id=self._seen.task_id), self._options
        options = CallOptions(options.limits, options.headers)
        return await self._client.call(Operation.GET_TASK, request, read, options)

    async def _connection(
        self, request: StreamRequest
    ) -> AsyncGenerator[Iterable[StreamItem], None]:
        """The new events of one connection, in the pieces in which they arrive."""
        clock = asyncio.get_running_loop().time
        headers, limits, seen = self._options.headers, self._limits, self._seen
        is_subscribe = isinstance(request, SubscribeToTaskRequest)
        if is_subscribe and seen.last_id:
            headers = {**headers, "Last-Event-ID": seen.last_id}
        if self._failures:
            # This class counts the attempts itself.
            limits = replace(limits, attempts=1)
        stream = await self._client.open_stream(
            Operation.SUBSCRIBE_TO_TASK if is_subscribe else Operation.SEND_STREAMING_MESSAGE,
            request,
            CallOptions(limits, headers, is_subscribe or self._options.is_repeatable),
            within_s=self._ends_at - clock(),
            # A stream that broke has a backoff of its own, longer than that of a call.
            is_probe=bool(self._failures),
        )
        with closing(stream.response) as response:
            opened_at = clock()
            if response.media_type != SSE:
                item = self._single(stream, await self._client.body(stream, limits))
                self._client.note_home(seen.task_id, stream.endpoint)
                self._is_bare = is_subscribe
                yield () if item is None else (item,)
                return
            overlap, begun = None, b""
            if is_subscribe and not seen.last_id and stream.endpoint.version is Version.V0_3:
                begun, is_task = await self._opening(stream)
                if not is_task:
                    # The client has opened the stream before, so it misses no event in between.
                    snapshot = await self._snapshot()
                    overlap = Overlap(snapshot, seen.sizes)
                    if not seen.shows(snapshot):
                        seen.note(snapshot)
                        yield (snapshot,)
                    if seen.is_over:
                        return
            events = self._events(stream, seen, overlap)
            while chunk := begun or await response.chunk():
                begun = b""
                yield events.read(chunk)
                self._client.note_home(seen.task_id, stream.endpoint)
                if seen.is_over:
                    response.end_within(_FAREWELL_S)
            if is_subscribe:
                # The peer still owes the end of the task to a stream that began with a message.
                is_bare = events.is_bare and (events.count > 0 or self._is_subscription)
                self._is_bare = is_bare and clock() - opened_at < _AT_ONCE_S

    def _events(self, stream: OpenStream, seen: Seen, overlap: Overlap | None) -> EventReader:
        return EventReader(
            stream.endpoint,
            stream.id,
            self._client.reader,
            seen,
            overlap=overlap,
            is_resumed=self._is_resuming or overlap is not None,
            max_event_bytes=self._limits.max_event_bytes,
        )

    async def _opening(self, stream: OpenStream) -> tuple[bytes, bool]:
        """The bytes of a stream up to its first event, and whether that event is the task."""
        begun = b""
        events = self._events(stream, Seen(), None)
        # a2a-sdk breaks off the stream of a task that has just ended; the task can still be read.
        with suppress(TimeoutError, PeerUnreachable):
            async with asyncio.timeout(_OPENING_S):
                while chunk := await stream.response.chunk():
                    begun += chunk
                    for item in events.read(chunk):
                        return begun, isinstance(item, Task)
        return begun, False

    def _single(self, stream: OpenStream, payload: bytes) -> StreamItem | None:
        """The answer of a peer that does not stream; None if it is not new."""
        try:
            item = ANSWERS[stream.endpoint.binding, stream.endpoint.version].event(payload)
            if self._is_resuming and isinstance(item, Task) and self._seen.shows(item):
                return None
            self._seen.note(item)
        except InvalidAgentResponse as error:
            raise self._client.reader.bad(error) from None
        return item
