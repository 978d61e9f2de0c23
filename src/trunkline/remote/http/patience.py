"""How long a stream may take, and how long it may be silent."""

import asyncio

from trunkline.remote.errors import PeerTimeout
from trunkline.remote.http.exchange import Exchange


class Patience:
    """Ends an exchange that breaks its limits. One timer looks from time to time.

    To set a timer anew with every piece of a stream would cost more than the piece.
    """

    def __init__(self, exchange: Exchange, *, ends_at: float, idle_s: float) -> None:
        self._exchange = exchange
        self._ends_at = ends_at
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(min(ends_at, self._loop.time() + idle_s), self._look)

    def end_within(self, seconds: float) -> None:
        ends_at = self._loop.time() + seconds
        if ends_at < self._ends_at:
            self._ends_at = ends_at
            self._timer.cancel()
            self._look()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        exchange, now = self._exchange, self._loop.time()
        if exchange.is_over:
            return
        if now >= self._ends_at:
            exchange.fail(took_too_long())
            return
        # Whoever has something to read does not wait for the peer.
        silent_since = now if exchange.has_unread else exchange.heard_at
        if now >= silent_since + self._idle_s:
            exchange.fail(PeerTimeout("the agent is silent for too long", reason="IDLE_TIMEOUT"))
            return
        self._timer = self._loop.call_at(
            min(self._ends_at, silent_since + self._idle_s), self._look
        )


def took_too_long() -> PeerTimeout:
    return PeerTimeout("the agent took too long", reason="CALL_TIMEOUT")
