"""`WireLog`: the exchanges of recorded agents, as many as a number of bytes has room for."""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from trunkline.background import next_pass
from trunkline.console.wire.exchange import RecordedExchange
from trunkline.console.wire.masking import Masker
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.wire_log import Exchange, Side, Start, WireRecord, WireSummary

_log = logging.getLogger("trunkline.console.wire")

MAX_RECORDS: Final = 20_000
# A search looks at this much before others have their turn.
_SEARCHED_BYTES: Final = 512 * 1024

Observer = Callable[[WireSummary], None]


class Wanted(Struct, frozen=True, kw_only=True):
    """A selection of exchanges; an empty text selects all."""

    agent: str = ""
    task_id: str = ""
    side: Side | None = None
    q: str = ""
    after: str = ""

    def takes(self, exchange: RecordedExchange) -> bool:
        """Whether it is one of these, but for the search."""
        return (
            (not self.agent or exchange.agent == self.agent)
            and (self.side is None or exchange.side == self.side)
            and (not self.task_id or exchange.is_of_task(self.task_id))
        )


class WireLog:
    """It implements `ports.wire_log.Recorder`. The oldest exchanges make room for new ones, also
    those that are still under way."""

    def __init__(
        self,
        *,
        max_bytes: int,
        masker: Masker,
        clock: Clock,
        ids: Ids,
        max_records: int = MAX_RECORDS,
    ) -> None:
        self.max_bytes: Final = max_bytes
        self.dropped = 0
        self.held_bytes = 0
        self._max_records = max_records
        self._masker = masker
        self._clock = clock
        self._ids = ids
        # By id, the oldest first. The ids are in the order of time.
        self._exchanges: dict[str, RecordedExchange] = {}
        self._observers: list[Observer] = []

    def __len__(self) -> int:
        return len(self._exchanges)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Have it called with the summary of each exchange when that begins and when it ends, and
        of a stream when its answer begins. Returns what ends that."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def begin(self, start: Start) -> Exchange | None:
        try:
            exchange = RecordedExchange(
                self._ids.new(), start, masker=self._masker, clock=self._clock, space=self
            )
        except Exception:  # noqa: BLE001 - logged; the request must not fail for it
            _log.exception("an exchange could not be recorded", extra={"agent": start.agent})
            return None
        self._exchanges[exchange.id] = exchange
        self.held_bytes += exchange.held_bytes
        self._make_room()
        self._tell(exchange)
        return exchange

    def grew(self, exchange: RecordedExchange, size: int) -> None:
        if not exchange.is_dropped:
            self.held_bytes += size
            if size > 0:
                self._make_room()

    def changed(self, exchange: RecordedExchange) -> None:
        if not exchange.is_dropped:
            self._tell(exchange)

    def _make_room(self) -> None:
        while self._exchanges and (
            self.held_bytes > self.max_bytes or len(self._exchanges) > self._max_records
        ):
            self._drop(next(iter(self._exchanges)))
            self.dropped += 1

    def _drop(self, id: str) -> None:
        exchange = self._exchanges.pop(id)
        self.held_bytes -= exchange.held_bytes
        exchange.drop()

    def clear(self) -> None:
        """Forget all exchanges. Those under way are not recorded further."""
        for id in [*self._exchanges]:
            self._drop(id)
        self.dropped = 0

    def _tell(self, exchange: RecordedExchange) -> None:
        if not self._observers:
            return
        summary = exchange.summary()
        for observer in tuple(self._observers):
            try:
                observer(summary)
            except Exception:  # noqa: BLE001 - logged; the request must not fail for it
                _log.exception("an observer of the wire log failed")

    def find(self, id: str) -> WireRecord | None:
        exchange = self._exchanges.get(id)
        return None if exchange is None else exchange.record()

    def _selected(self, wanted: Wanted) -> Iterator[RecordedExchange]:
        exchanges = (each for each in tuple(self._exchanges.values()))
        if wanted.after:
            exchanges = (e for e in exchanges if e.id > wanted.after)
        return filter(wanted.takes, exchanges)

    async def page(self, wanted: Wanted, *, limit: int) -> tuple[list[WireSummary], str]:
        """The oldest exchanges of these, and the id after which the next page begins; empty on the
        last one."""
        found: list[WireSummary] = []
        search = _Search(wanted.q)
        for exchange in self._selected(wanted):
            if exchange.is_dropped or not await search.finds(exchange):
                continue
            if len(found) == limit:
                return found, found[-1].id
            found.append(exchange.summary())
        return found, ""

    def ids(self, wanted: Wanted) -> list[str]:
        return [exchange.id for exchange in self._selected(wanted)]


class _Search:
    """Looks for a text, whatever its case, and lets others have their turn."""

    def __init__(self, text: str) -> None:
        self._pattern = re.compile(re.escape(text.encode()), re.IGNORECASE) if text else None
        self._looked_at = 0

    async def finds(self, exchange: RecordedExchange) -> bool:
        if self._pattern is None:
            return True
        for text in exchange.texts():
            self._looked_at += len(text)
            if self._looked_at > _SEARCHED_BYTES:
                self._looked_at = 0
                await next_pass()
            if self._pattern.search(text):
                return True
        return False
