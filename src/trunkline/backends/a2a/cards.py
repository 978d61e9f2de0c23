"""`UpstreamCard`: the last known card of the upstream, kept fresh in the background."""

import logging
from collections.abc import Callable

import msgspec

from trunkline.backends.a2a.upstream import Upstream
from trunkline.model.card import AgentCard
from trunkline.model.errors import StoreError
from trunkline.ports.backend import Notes
from trunkline.ports.clock import Clock
from trunkline.remote.errors import RemoteError

_log = logging.getLogger("trunkline.backends.a2a")

# Between two looks; the client fetches the card only when HTTP caching calls it stale (RFC 9111).
LOOK_EVERY_S = 60.0
# Before the second attempt to fetch a card that is not known yet; each pause doubles.
FIRST_PAUSE_S = 1.0
# The store forgets old notes, so an unchanged card is written again after this time.
KEEP_EVERY_S = 12 * 3600.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AgentCard).decode


class UpstreamCard:
    """`latest` is the newest card, which an earlier process may have fetched."""

    def __init__(self, *, url: str, clock: Clock) -> None:
        self.latest: AgentCard | None = None
        # Called when the card changes.
        self.watchers: list[Callable[[AgentCard], None]] = []
        self._url = url
        self._clock = clock
        self._keep_again_at = 0.0

    async def recall(self, notes: Notes) -> None:
        text = await notes.recall("card")
        if text:
            try:
                self._show(_decode(text))
            except msgspec.DecodeError as error:
                # A release with other fields wrote it. `keep_fresh` fetches the card anyway.
                _log.info("an old card is not readable", extra={"error": str(error)})

    def _show(self, card: AgentCard) -> None:
        self.latest = card
        for told in self.watchers:
            told(card)

    async def keep_fresh(self, upstream: Upstream, notes: Notes) -> None:
        """Fetch the card again and again, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                card = await upstream.card()
            except RemoteError as error:
                level = logging.WARNING if pause_s == FIRST_PAUSE_S else logging.DEBUG
                about = {"url": self._url, "reason": error.reason, "error": error.message}
                _log.log(level, "the card of the agent behind the gateway is missing", extra=about)
            else:
                await self._learn(card, notes)
                pause_s = LOOK_EVERY_S
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LOOK_EVERY_S)

    async def _learn(self, card: AgentCard, notes: Notes) -> None:
        now = self._clock.monotonic()
        is_new = card != self.latest
        if is_new:
            self._show(card)
        if not is_new and now < self._keep_again_at:
            return
        try:
            await notes.keep("card", _encode(card).decode())
        except StoreError as error:
            _log.error("the card was not stored", extra={"reason": error.message})
        else:
            self._keep_again_at = now + KEEP_EVERY_S
