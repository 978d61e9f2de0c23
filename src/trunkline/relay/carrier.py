"""`Carrier`: takes a session over sockets. `OpenStream`: one stream of it, with its reader and its
writer."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from trunkline.background import BackgroundTasks
from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, GOING_AWAY, TRY_AGAIN_LATER, WebSocketClosed
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece, Writable
from trunkline.protocol.relay.frames import Reason
from trunkline.protocol.relay.session import Session

# What the reader of a stream gets, in order; Cancelled is the last.
StreamEvent: TypeAlias = Accepted | Answered | Piece | Cancelled
_OF_STREAMS: Final = (Accepted, Answered, Piece, Cancelled)


class Socket(Protocol):
    """A connection. Its methods raise WebSocketClosed once it is closed."""

    @property
    def subprotocol(self) -> str | None:
        """That of the relay protocol which both sides speak; None means protocol v1."""

    async def receive(self) -> str | bytes: ...
    async def send(self, message: str | bytes) -> None: ...
    def close(self, code: int, reason: str) -> Coroutine[Any, Any, None]: ...


class StreamCancelled(Exception):
    """The stream has ended before all was written."""

    def __init__(self, end: Cancelled) -> None:
        super().__init__(end.reason)
        self.end: Final = end


class OpenStream:
    def __init__(self, carrier: "Carrier[Any]", number: int) -> None:
        self.number: Final = number
        # Why it ended before it was complete.
        self.end: Cancelled | None = None
        self._carrier = carrier
        self._session: Session = carrier.session
        self._events: deque[StreamEvent] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    @property
    def has_event(self) -> bool:
        """Whether `next` returns at once."""
        return bool(self._events)

    async def next(self) -> StreamEvent:
        """What the peer does next; for one reader. A piece that was taken lets the peer send
        more."""
        while not self._events:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        event = self._events[0]
        if isinstance(event, Cancelled):
            # It stays, for whoever asks again.
            return event
        self._events.popleft()
        # After the end, the number may be that of a stream of the next session.
        if isinstance(event, Piece) and event.data and self.end is None:
            self._session.consume(self.number, len(event.data))
            self._carrier.flush()
        return event

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send more of the body, as fast as the peer takes it; for one writer. Raises
        StreamCancelled."""
        rest = data
        while rest:
            room = await self.room()
            piece, rest = rest[:room], rest[room:]
            self._session.send(self.number, piece, is_last=is_last and not rest)
            self._carrier.flush()
        if is_last and not data:
            self._check()
            self._session.send(self.number, b"", is_last=True)
            self._carrier.flush()

    async def room(self) -> int:
        """The bytes that the peer takes, once it takes any. Raises StreamCancelled."""
        while True:
            self._check()
            room = self._session.room(self.number)
            if room:
                return room
            self._writer = asyncio.get_running_loop().create_future()
            self._carrier.flush()
            try:
                await self._writer
            finally:
                self._writer = None

    def cancel(self, reason: Reason, text: str = "") -> None:
        """Nobody here wants the rest of it."""
        if self.end is None:
            self._session.cancel(self.number, reason, text)
            self.take(Cancelled(stream=self.number, reason=reason, text=text))
            self._carrier.flush()

    def close(self) -> None:
        """Its reader and its writer have left."""
        if self._carrier.streams.get(self.number) is self:
            del self._carrier.streams[self.number]
        self.cancel("closed")

    def take(self, event: StreamEvent) -> None:
        if isinstance(event, Cancelled):
            self.end = event
            self.wake_writer()
        self._events.append(event)
        _wake(self._reader)

    def wake_writer(self) -> None:
        _wake(self._writer)

    def _check(self) -> None:
        if self.end is not None:
            raise StreamCancelled(self.end)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


SomeSession_co = TypeVar("SomeSession_co", bound=Session, covariant=True)


class Carrier(Generic[SomeSession_co]):
    def __init__(
        self,
        session: SomeSession_co,
        *,
        clock: Clock,
        tasks: BackgroundTasks,
        on_event: Callable[[Any], None],
    ) -> None:
        """`on_event` gets the events that are of no stream. It may call the session, and must not
        wait."""
        self.session: Final = session
        self.streams: Final[dict[int, OpenStream]] = {}
        self._clock = clock
        self._tasks = tasks
        self._on_event = on_event
        self._socket: Socket | None = None
        self._has_output = asyncio.Event()
        # Those who wait for a connection; woken at each flush.
        self._moves: asyncio.Future[None] | None = None

    def stream(self, number: int) -> OpenStream:
        """A stream that was opened, for those who serve it."""
        stream = self.streams[number] = OpenStream(self, number)
        return stream

    def flush(self) -> None:
        """After every call of the session: hand on what it tells, and send what it has to say."""
        session = self.session
        while events := session.take_events():
            for event in events:
                self._dispatch(event)
        self._has_output.set()
        _wake(self._moves)
        if session.closing is not None and self._socket is not None:
            self._leave(self._socket, session.closing)
            self._socket = None

    def tick(self) -> None:
        self.session.tick(self._clock.monotonic())
        self.flush()

    async def moved(self) -> None:
        """Wait until something has happened to the session; a tick counts."""
        await asyncio.shield(self.next_move())

    def next_move(self) -> "asyncio.Future[None]":
        """The same, for those who wait for something else as well; not to be cancelled."""
        if self._moves is None or self._moves.done():
            self._moves = asyncio.get_running_loop().create_future()
        return self._moves

    async def carry(self, socket: Socket) -> Close:
        """Use the socket until it is closed, by whichever side. Returns how.

        The session has greeted, or was greeted, before. A socket that it still has is left, because
        the peer does not use it any more.
        """
        if self._socket is not None:
            self._leave(self._socket, Close(GOING_AWAY, "the session goes on elsewhere"))
        self._socket = socket
        self._has_output = asyncio.Event()
        writer = self._tasks.start(self._write(socket, self._has_output), name="write to a relay")
        self.flush()
        close = Close(ABNORMAL, "")
        try:
            while True:
                message = await socket.receive()
                if self._socket is socket:
                    self.session.receive(message, self._clock.monotonic())
                    self.flush()
        except WebSocketClosed as closed:
            close = Close(closed.code, closed.reason)
        finally:
            writer.cancel()
            if self._socket is socket:
                self._socket = None
                self.session.disconnect(self._clock.monotonic(), close)
                self.flush()
        return self.session.closing or close

    async def _write(self, socket: Socket, has_output: asyncio.Event) -> None:
        try:
            while self._socket is socket:
                has_output.clear()
                for message in self.session.take_output():
                    await socket.send(message)
                await has_output.wait()
        except WebSocketClosed:
            # Whoever reads from it learns the same.
            return
        except (TooManyRequests, Unavailable):
            # The next connection sends again what this one has no memory for.
            await socket.close(TRY_AGAIN_LATER, "there is no memory for the message")

    def _leave(self, socket: Socket, close: Close) -> None:
        self._tasks.spawn(socket.close(close.code, close.reason), name="close a connection")

    def _dispatch(self, event: Any) -> None:
        if isinstance(event, _OF_STREAMS):
            stream = self.streams.get(event.stream)
            if stream is not None:
                stream.take(event)
        elif isinstance(event, Writable):
            stream = self.streams.get(event.stream)
            if stream is not None:
                stream.wake_writer()
        else:
            self._on_event(event)
