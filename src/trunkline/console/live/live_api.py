"""`LiveApi`: `GET /api/v1/live`, news of the gateway as server-sent events."""

from collections.abc import AsyncIterator, Iterator
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from trunkline.api.api import Call, Identify, Route
from trunkline.console.live.live_feed import CHECK_S, LiveFeed, Reader
from trunkline.model.errors import InvalidParams, TrunklineError
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.ports.live import TOPICS, CountsStreams, LiveQuery, Topic
from trunkline.protocol import sse

HEARTBEAT_S: Final = 15.0
# Ids have at most this many digits.
_MAX_ID: Final = 18


class LiveApi:
    def __init__(
        self, feed: LiveFeed, *, identify: Identify, streams: CountsStreams, clock: Clock
    ) -> None:
        """`identify` finds the caller of a request again, while its stream lasts."""
        self._feed = feed
        self._identify = identify
        self._streams = streams
        self._clock = clock

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/live",
            name="watch_live",
            summary="Watch what changes, as server-sent events.",
            description="The events `task`, `agents`, `call` and `wire` say what has changed; "
            "`resync` says that some were lost, so that everything is to be read again. Callers "
            "get news of their own tasks and calls, operators those of all, and `wire` alone. The "
            "changes of one task are merged into at most five a second. `Last-Event-ID` continues "
            "a stream, as far as its news are kept.",
            handle=self._watch,
            query=LiveQuery,
            result_media_type="text/event-stream",
            is_endless=True,
            texts={
                "LiveQuery.topics": "`tasks`, `agents`, `wire` and `calls`, separated by commas; "
                "without, all of them."
            },
        )

    async def _watch(self, call: Call) -> Response:
        caller = call.caller
        topics = _topics(call.query.topics)
        last_id = _last_id(call.request)
        self._streams.enter(caller.id)
        try:
            reader = self._feed.read(caller, topics, last_id)
        except BaseException:
            self._streams.leave(caller.id)
            raise
        headers = {name.decode(): value.decode() for name, value in sse.HEADERS}
        return _Stream(self._frames(reader, caller, call.request), self, reader, caller, headers)

    def leave(self, reader: Reader, caller: Principal) -> None:
        self._feed.close_reader(reader)
        self._streams.leave(caller.id)

    async def _frames(
        self, reader: Reader, caller: Principal, request: Request
    ) -> AsyncIterator[bytes]:
        yield b": open\n" + _place(reader)
        checked = beaten = self._clock.monotonic()
        while True:
            data = reader.take()
            if data:
                yield data
                beaten = self._clock.monotonic()
            if reader.is_ended:
                return
            await reader.wait()
            now = self._clock.monotonic()
            if now - checked >= CHECK_S:
                checked = now
                if not await self._still_counts(caller, request):
                    return
            if now - beaten >= HEARTBEAT_S:
                beaten = now
                yield sse.HEARTBEAT

    async def _still_counts(self, caller: Principal, request: Request) -> bool:
        """Whether the credential of the stream still stands for the same rights."""
        if caller.ends_ms is not None and caller.ends_ms <= self._clock.now_ms():
            return False
        try:
            now = await self._identify(request)
        except TrunklineError:
            return False
        return now is not None and (now.id, now.roles, now.grants, now.within) == (
            caller.id,
            caller.roles,
            caller.grants,
            caller.within,
        )


class _Stream(StreamingResponse):
    """It leaves the feed also when nothing of it was ever sent."""

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        api: LiveApi,
        reader: Reader,
        caller: Principal,
        headers: dict[str, str],
    ) -> None:
        super().__init__(frames, headers=headers)
        self._api = api
        self._reader = reader
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._api.leave(self._reader, self._caller)


def _place(reader: Reader) -> bytes:
    """The id from which a client continues that gets no news at all. One that has lost news keeps
    the id that it has, until it is told so."""
    return b"\n" if reader.begins_after is None else b"id: %d\n\n" % reader.begins_after


def _topics(text: str) -> frozenset[Topic]:
    """Raises InvalidParams."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in names if each not in TOPICS]
    if unknown:
        raise InvalidParams.at("topics", f"takes {', '.join(TOPICS)}")
    return frozenset(cast(list[Topic], names) or TOPICS)


def _last_id(request: Request) -> int | None:
    """What the client has seen last; None for a new stream. An id that is none of ours is too
    old."""
    text = request.headers.get("last-event-id", "")
    if not text:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_ID else 0
