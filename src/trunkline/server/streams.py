"""`pump`: writes the committed entries of a subscription to a client as server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK, SLICE_BYTES
from trunkline.protocol import rest, sse
from trunkline.protocol.dialects import Dialect
from trunkline.runtime.fanout import (
    Beat,
    CutOff,
    Framed,
    Gap,
    Item,
    NoReply,
    Opening,
    Reply,
    Subscription,
)
from trunkline.server.http import Header, Request, Response

RETRY_AFTER_S = 5


class StreamCounts(Struct, eq=False):
    """The number of open streams of each principal."""

    limit: int
    _open: dict[str, int] = {}

    def enter(self, principal: str) -> None:
        count = self._open.get(principal, 0)
        if count >= self.limit:
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


class Frames(Struct, eq=False):
    """Items as frames, in one client's dialect and envelope."""

    dialect: Dialect
    envelope: tuple[bytes, bytes] = (b"", b"")
    # Frames an error as the binding of the client does; None means HTTP+JSON.
    error: Callable[[Exception], bytes] | None = None
    # Whether events have ids, so that a client can resume after one.
    is_resumable: bool = True
    _before: bytes = b""
    _behind: bytes = b""

    def __post_init__(self) -> None:
        # The gateway's JSON has no line breaks, so `sse.frame` is not needed.
        self._before = b"data: " + self.envelope[0]
        self._behind = self.envelope[1] + b"\n\n"
        self.error = self.error or partial(rest.error_frame, version=self.dialect.version)

    def joined(self, items: Sequence[Item], *, is_over: bool) -> bytes:
        """The frames of the items; `is_over` when the stream ends with the last item."""
        pieces: list[bytes] = []
        last = items[-1] if is_over else None
        for item in items:
            if isinstance(item, Entry):
                event = self.dialect.event(item, goes_on=item is not last)
                id = b"id: %d\n" % item.seq if self.is_resumable else b""
                pieces += (id, self._before, *event, self._behind)
            else:
                pieces += self._frame(item)
        return b"".join(pieces)

    def _frame(self, item: Item) -> tuple[bytes, ...]:
        """The frame of an item that is not an entry of the journal."""
        match item:
            case Opening():
                id = b"id: %d\n" % item.seq if self.is_resumable else b""
                return (id, self._before, *self.dialect.streamed_task(item.task), self._behind)
            case Reply():
                return (self._before, *self.dialect.sent_message(item.message), self._behind)
            case NoReply():
                assert self.error is not None
                return (self.error(item.error),)
            case Gap():
                return (sse.gap(item.after, item.resumes_at),)
            case Beat():
                return (sse.HEARTBEAT,)
            case Framed():
                return (item.data,)
            case CutOff():
                remedy = f"; resume with Last-Event-ID: {item.seq}" if self.is_resumable else ""
                return (sse.comment(item.reason + remedy),)
            case Entry():
                raise TypeError("an entry is an event")


async def pump(
    request: Request,
    response: Response,
    reader: Subscription,
    frames: Frames,
    *,
    headers: Sequence[Header],
    waits_for_first: bool,
    write_large: Callable[[bytes], Awaitable[None]] | None = None,
) -> None:
    """Write the subscription out until it ends or the client leaves.

    Raises before anything is sent when there is nothing to stream, because the store failed or the
    caller accepts no part of the answer.
    """
    watcher: asyncio.Task[None] | None = None
    try:
        items = await reader.next() if waits_for_first else []
        if items and isinstance(items[0], CutOff) and items[0].seq == 0:
            raise Unavailable(items[0].reason, retry_after_s=RETRY_AFTER_S)
        if items and isinstance(items[0], NoReply):
            raise items[0].error
        # All that is pending goes out in one write.
        data = frames.joined(items, is_over=reader.is_over) if items else b""
        # Before the head is sent, so that the whole response can still be refused.
        response.admit(len(data))
        await response.begin(200, headers)
        if not waits_for_first:
            # The client sees an open stream at once, even when no event follows for a while.
            await response.write(b": open\n\n")
            items = await reader.next()
            data = frames.joined(items, is_over=reader.is_over) if items else b""
        while items:
            is_large = len(data) > SLICE_BYTES or data.find(MARK) >= 0
            try:
                await (write_large(data) if is_large and write_large else response.write(data))
            except (TooManyRequests, Unavailable) as error:
                # The memory budget has no room for these events; the client can resume from the
                # journal.
                await response.write(sse.comment(error.message))
                break
            if watcher is None and isinstance(items[0], Beat):
                # A quiet stream gets a task that notices when its client leaves; a busy one ends
                # soon anyway.
                watcher = BackgroundTasks("streams").start(
                    _leave(request, reader), name="stream watcher"
                )
            data = b""
            items = await reader.next()
            if items:
                data = frames.joined(items, is_over=reader.is_over)
        await response.end()
    finally:
        reader.close()
        if watcher is not None:
            watcher.cancel()


async def _leave(request: Request, reader: Subscription) -> None:
    await request.disconnected()
    reader.end()
