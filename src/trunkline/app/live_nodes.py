"""`LiveNodes`: passes news between the nodes of a gateway that share the main store.

A node at which someone watches says so every few seconds. The others then tell it their news, and
stop when they have not heard it for a while, so that news without a watcher is free.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.app.runtimes import Runtimes
from trunkline.background import BackgroundTasks
from trunkline.console.live.live_feed import LiveFeed, News
from trunkline.ports.clock import Clock
from trunkline.ports.live import Topic
from trunkline.ports.store import Scope

TOPIC: Final = "live"
SAYS_S: Final = 15.0
# Long enough for two that were lost.
BELIEVES_S: Final = 50.0
# News of one moment beyond this number are too many for the others, which read everything again.
MAX_FORWARDED: Final = 500


class FromNode(Struct, frozen=True, omit_defaults=True):
    """What a node tells the others: that someone watches there, news, or that some were lost."""

    watches: bool = False
    lost: bool = False
    topic: Topic = "tasks"
    key: str = ""
    data: Any = None
    scope: Scope | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FromNode).decode


class LiveNodes:
    def __init__(self, feed: LiveFeed, runtimes: Runtimes, *, clock: Clock) -> None:
        self._feed = feed
        self._runtimes = runtimes
        self._clock = clock
        self._believed_until = 0.0
        self._saying: asyncio.Task[None] | None = None
        self._forwarding: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks("live nodes")

    def open(self) -> None:
        main = self._runtimes.main
        if main is not None and main.is_shared:
            main.hear(TOPIC, self._hear)

    async def close(self) -> None:
        await self._tasks.close()

    def watched(self, is_watched: bool) -> None:
        """Whether someone watches at this node."""
        if self._saying is not None:
            self._saying.cancel()
            self._saying = None
        main = self._runtimes.main
        if is_watched and main is not None and main.is_shared:
            self._saying = self._tasks.start(self._say(), name="say that someone watches")

    async def _say(self) -> None:
        while True:
            self._tell(FromNode(watches=True))
            await self._clock.sleep(SAYS_S)

    def _tell(self, told: FromNode) -> None:
        main = self._runtimes.main
        if main is not None:
            main.tell(TOPIC, _encode(told).decode())

    def _hear(self, text: str) -> None:
        if not text:
            self._feed.lose_all()
            return
        try:
            told = _decode(text)
        except msgspec.DecodeError:
            # A node of another release tells what this one does not know.
            self._feed.lose_all()
            return
        if told.watches:
            self._believed_until = self._clock.monotonic() + BELIEVES_S
            if self._forwarding is None:
                self._feed.forward_to(self._forward)
                self._forwarding = self._tasks.start(self._stop_later(), name="forward news")
        elif told.lost:
            self._feed.lose_all()
        else:
            news = News(told.topic, told.key, told.data, told.scope, is_from_elsewhere=True)
            self._feed.take(news)

    def _forward(self, news: Sequence[News]) -> None:
        if len(news) > MAX_FORWARDED:
            self._tell(FromNode(lost=True))
            return
        for each in news:
            # Every node sees changes of agents itself, and has a wire log of its own.
            if each.topic in ("tasks", "calls"):
                self._tell(
                    FromNode(
                        topic=each.topic,
                        key=each.key,
                        data=each.data,
                        scope=each.scope,
                    )
                )

    async def _stop_later(self) -> None:
        while (left := self._believed_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._forwarding = None
        self._feed.forward_to(None)
