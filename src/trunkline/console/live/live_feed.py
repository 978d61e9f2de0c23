"""`LiveFeed`: merges news and passes them to the streams of those who watch.

News are collected for a fifth of a second, in which the last of each key counts, and then get a
number each. So a task that streams thousands of chunks costs a few news per second, and its last
one always arrives. The last news are kept in a ring, from which a stream continues after its
connection was lost.

A reader that is behind holds a bounded number of news. Beyond it, its news are dropped and it is
told to read everything again (`resync`). Nobody else waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.principal import OPERATOR, Principal
from trunkline.ports.clock import Clock
from trunkline.ports.live import Topic
from trunkline.ports.store import Scope
from trunkline.protocol import sse

# News are sent this often at most.
EVERY_S: Final = 0.2
# How many different news may come in that time.
MAX_COLLECTED: Final = 5000
RING: Final = 2000
MAX_PENDING: Final = 1000
# For how long news are collected for streams that lost their connection.
LINGER_S: Final = 60.0
# How often each stream looks whether its credential still counts. One timer wakes all of them.
CHECK_S: Final = 5.0

# The name of the event of each topic.
EVENTS: Final[dict[Topic, str]] = {
    "tasks": "task",
    "agents": "agents",
    "wire": "wire",
    "calls": "call",
}
RESYNC: Final = "resync"

_encode = msgspec.json.Encoder().encode


class News(Struct, frozen=True):
    topic: Topic
    key: str
    data: Any
    # Whose tasks they are about; None for those that all may know, or operators alone.
    scope: Scope | None
    # Whether another node of the gateway has told it.
    is_from_elsewhere: bool = False


# Takes news of this node to where else they are wanted.
Forward: TypeAlias = Callable[[Sequence[News]], None]


class Numbered(Struct, frozen=True):
    id: int
    news: News
    frame: bytes


class Reader:
    """The news that one stream has not sent yet."""

    def __init__(
        self,
        topics: frozenset[Topic],
        sees: Callable[[News], bool],
        *,
        limit: int,
    ) -> None:
        self._topics = topics
        self._sees = sees
        self._limit = limit
        # The number behind which its news begin; None where it has lost some before its begin.
        self.begins_after: int | None = None
        # By topic and key: of equal ones the last counts.
        self._pending: dict[tuple[Topic, str], Numbered] = {}
        self._lost_at: int | None = None
        self._is_ended = False
        self._woken = asyncio.Event()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def push(self, numbered: Numbered) -> None:
        news = numbered.news
        if self._is_ended or news.topic not in self._topics or not self._sees(news):
            return
        place = (news.topic, news.key or str(numbered.id))
        # At the end, because the numbers in a stream rise.
        self._pending.pop(place, None)
        self._pending[place] = numbered
        if len(self._pending) > self._limit:
            self.lose(numbered.id)
        self._woken.set()

    def lose(self, id: int) -> None:
        """Forget all news up to this one. The reader is to read everything again."""
        self._pending.clear()
        self._lost_at = id
        self._woken.set()

    def end(self) -> None:
        self._is_ended = True
        self._pending.clear()
        self._woken.set()

    def wake(self) -> None:
        """Have the stream look at the time."""
        self._woken.set()

    async def wait(self) -> None:
        """Until there is something to take, the stream is over, or some seconds have passed."""
        await self._woken.wait()

    def take(self) -> bytes:
        """The frames of all pending news; empty for none."""
        self._woken.clear()
        frames: list[bytes] = []
        if self._lost_at is not None:
            frames.append(sse.frame(b"{}", id=self._lost_at, event=RESYNC))
            self._lost_at = None
        frames += [each.frame for each in self._pending.values()]
        self._pending.clear()
        return b"".join(frames)


class LiveFeed:
    """It implements `ports.live.TellsLive`."""

    def __init__(
        self,
        *,
        clock: Clock,
        may_read: Callable[[Principal, Scope], bool],
        on_heard: Callable[[bool], None] = lambda _: None,
        on_read: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`on_read` is called when the first stream is opened, and some time after the last was
        closed: with whether there are any. `on_heard` is called with whether news are wanted at
        all, by streams of this node or elsewhere."""
        self._clock = clock
        self._may_read = may_read
        self._on_heard = on_heard
        self._on_read = on_read
        self.is_heard = False
        self._is_read = False
        self._forward: Forward | None = None
        # Numbers of an earlier process are lower, whatever it had told.
        self._last_id = clock.now_ms() << 10
        self._ring: deque[Numbered] = deque(maxlen=RING)
        # News after this one are in the ring.
        self._kept_after = self._last_id
        self._collected: dict[tuple[Topic, str], News] = {}
        # Whether there were more than may be collected.
        self._has_overflowed = False
        self._readers: set[Reader] = set()
        self._sender: asyncio.Task[None] | None = None
        self._lingering: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks("live feed")
        self._is_closed = False

    @property
    def last_id(self) -> int:
        return self._last_id

    def tell(self, topic: Topic, data: Any, *, key: str = "", scope: Scope | None = None) -> None:
        self.take(News(topic, key, data, scope))

    def take(self, news: News) -> None:
        if not self.is_heard or self._is_closed:
            return
        collected = self._collected
        place = (news.topic, news.key or f"\0{len(collected)}")
        collected.pop(place, None)
        collected[place] = news
        if len(collected) > MAX_COLLECTED:
            collected.clear()
            self._has_overflowed = True
        if self._sender is None:
            self._sender = self._tasks.start(self._send_soon(), name="live news")

    def read(self, by: Principal, topics: frozenset[Topic], last_id: int | None) -> Reader:
        """A stream of news, those behind `last_id` first as far as they are kept. Close it."""
        is_operator = OPERATOR in by.roles

        def sees(news: News) -> bool:
            if is_operator or news.topic == "agents":
                return True
            return news.scope is not None and self._may_read(by, news.scope)

        reader = Reader(topics, sees, limit=MAX_PENDING)
        if self._is_closed:
            reader.end()
            return reader
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        self._begin()
        if not self._is_read:
            self._is_read = True
            self._on_read(True)
        if last_id is None:
            reader.begins_after = self._last_id
        elif last_id > self._last_id or last_id < self._oldest():
            reader.lose(self._last_id)
        else:
            reader.begins_after = last_id
            for each in self._ring:
                if each.id > last_id:
                    reader.push(each)
        self._readers.add(reader)
        return reader

    def close_reader(self, reader: Reader) -> None:
        reader.end()
        self._readers.discard(reader)
        if self._readers or not self._is_read or self._lingering is not None or self._is_closed:
            return
        self._lingering = self._tasks.start(self._linger(), name="live feed lingers")

    def forward_to(self, forward: Forward | None) -> None:
        """Forward all news of this node from now on; None stops that."""
        if self._is_closed:
            return
        self._forward = forward
        if forward is not None:
            self._begin()
        elif not self._is_read:
            self._end()

    def lose_all(self) -> None:
        """News may have been lost on their way here."""
        if self.is_heard:
            self._last_id += 1
            self._ring.clear()
            self._kept_after = self._last_id
            for reader in self._readers:
                reader.lose(self._last_id)

    def end_streams(self) -> None:
        """End all streams and take no more, because the gateway stops."""
        self._is_closed = True
        for reader in [*self._readers]:
            reader.end()
        if self._is_read:
            self._is_read = False
            self._on_read(False)
        self._set_heard(False)

    async def close(self) -> None:
        self.end_streams()
        await self._tasks.close()

    def _begin(self) -> None:
        if not self.is_heard:
            # The ring has nothing from the time without listeners.
            self._last_id += 1
            self._kept_after = self._last_id
            self._set_heard(True)

    def _end(self) -> None:
        self._ring.clear()
        self._set_heard(False)

    def _set_heard(self, is_heard: bool) -> None:
        if self.is_heard is is_heard:
            return
        self.is_heard = is_heard
        if is_heard:
            self._timer = self._tasks.start(self._wake_readers(), name="live feed timer")
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_heard(is_heard)

    def _oldest(self) -> int:
        """The lowest number behind which all news are kept."""
        if len(self._ring) == RING:
            return self._ring[0].id - 1
        return self._kept_after

    async def _send_soon(self) -> None:
        try:
            while self._collected or self._has_overflowed:
                # The first news go out at once, and those that follow wait.
                self._send()
                await self._clock.sleep(EVERY_S)
        finally:
            self._sender = None

    def _send(self) -> None:
        collected, self._collected = self._collected, {}
        if self._has_overflowed:
            self._has_overflowed = False
            self.lose_all()
        for news in collected.values():
            self._last_id += 1
            frame = sse.frame(_encode(news.data), id=self._last_id, event=EVENTS[news.topic])
            numbered = Numbered(self._last_id, news, frame)
            self._ring.append(numbered)
            for reader in self._readers:
                reader.push(numbered)
        if self._forward is not None:
            own = [news for news in collected.values() if not news.is_from_elsewhere]
            if own:
                self._forward(own)

    async def _linger(self) -> None:
        await self._clock.sleep(LINGER_S)
        self._lingering = None
        self._is_read = False
        self._on_read(False)
        if self._forward is None:
            self._end()

    async def _wake_readers(self) -> None:
        while True:
            await self._clock.sleep(CHECK_S)
            for reader in self._readers:
                reader.wake()
