"""Server-sent events: committed entries of a subscription to a client's socket."""

import asyncio
from collections.abc import Callable
from functools import partial

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.model.events import Entry
from trunkline.protocol import rest, sse
from trunkline.protocol.dialect import Dialect
from trunkline.runtime.fanout import Beat, CutOff, Gap, Item, Opening, Refusal, Reply, Subscription
from trunkline.server.http import Header, Request, Send

_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # nginx would hold events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
)
RETRY_AFTER_S = 5


class StreamCounts:
    """How many streams each principal holds open."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, int] = {}

    def enter(self, principal: str) -> None:
        count = self._open.get(principal, 0)
        if count >= self._limit:
            raise TooManyRequests(
                f"You have {count} streams open, which is the limit; close one and try again",
                retry_after_s=RETRY_AFTER_S,
            )
        self._open[principal] = count + 1

    def leave(self, principal: str) -> None:
        count = self._open[principal] - 1
        if count:
            self._open[principal] = count
        else:
            del self._open[principal]

    @property
    def total(self) -> int:
        return sum(self._open.values())


class Frames:
    """Items as frames, in one client's dialect and envelope."""

    __slots__ = ("_dialect", "_error", "_wrap")

    def __init__(
        self,
        dialect: Dialect,
        wrap: Callable[[bytes], bytes] | None = None,
        error: Callable[[Exception], tuple[int, bytes]] | None = None,
    ) -> None:
        """As they are, and errors as REST has them, unless there is an envelope for both."""
        self._dialect = dialect
        self._wrap = wrap
        self._error = error or partial(rest.error, version=dialect.version)

    def frame(self, item: Item) -> bytes:
        if isinstance(item, Entry):
            return self._frame(self._dialect.event(item), item.seq)
        match item:
            case Opening():
                return self._frame(self._dialect.stream_task(item.task), item.seq)
            case Reply():
                return self._frame(self._dialect.stream_message(item.message), None)
            case Refusal():
                return b"data: %b\n\n" % self._error(item.error)[1]
            case Gap():
                return sse.gap(item.after, item.resumes_at)
            case Beat():
                return sse.HEARTBEAT
            case CutOff():
                return sse.comment(f"{item.reason}; resume with Last-Event-ID: {item.seq}")

    def _frame(self, data: bytes, seq: int | None) -> bytes:
        if self._wrap is not None:
            data = self._wrap(data)
        # JSON of ours has no line breaks, so the general frame writer is not needed.
        if seq is None:
            return b"data: %b\n\n" % data
        return b"id: %d\ndata: %b\n\n" % (seq, data)


async def pump(
    request: Request,
    send: Send,
    reader: Subscription,
    frames: Frames,
    *,
    headers: list[Header],
    waits_for_first: bool,
) -> None:
    """Write the subscription out until it ends or the client leaves.

    Raises before anything is sent when there is nothing to stream: because the store
    failed, or because the caller takes nothing of what the agent says.
    """
    watcher: asyncio.Task[None] | None = None
    try:
        items = await reader.next() if waits_for_first else []
        if items and isinstance(items[0], CutOff) and items[0].seq == 0:
            raise Unavailable(items[0].reason, retry_after_s=RETRY_AFTER_S)
        if items and isinstance(items[0], Refusal):
            raise items[0].error
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
        if not waits_for_first:
            # Show the client an open stream, also when nothing happens for a while.
            await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
            items = await reader.next()
        while items:
            # All that is pending goes out in one write.
            body = b"".join([frames.frame(item) for item in items])
            await send({"type": "http.response.body", "body": body, "more_body": True})
            if watcher is None and isinstance(items[0], Beat):
                # Only a stream that has been quiet for a while is worth a task that
                # notices a client that left; busy ones end soon anyway.
                watcher = asyncio.get_running_loop().create_task(
                    _leave(request, reader), name="stream watcher"
                )
            items = await reader.next()
        await send({"type": "http.response.body", "body": b""})
    finally:
        reader.close()
        if watcher is not None:
            watcher.cancel()


async def _leave(request: Request, reader: Subscription) -> None:
    await request.disconnected()
    reader.end()
