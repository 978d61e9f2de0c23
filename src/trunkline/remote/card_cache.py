"""`CardCache`: the card of a peer, kept as long as HTTP allows."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse
from trunkline.ports.clock import Clock
from trunkline.remote.errors import BadPeerAnswer, RemoteError, noted
from trunkline.remote.http import Answer
from trunkline.remote.responses import ResponseReader

# Without Cache-Control; RFC 9111, 4.2.2 leaves the time to the client.
_UNSTATED_S: Final = 300.0
# Calls use a card for at least this long, even if HTTP would have it fetched again.
_FOR_CALLS_S: Final = 60.0
_MAX_AGE: Final = re.compile(r"max-age\s*=\s*\"?([0-9]{1,9})")
# A Trunkline gateway lists its additions to A2A in this header.
FEATURES: Final = "trunkline-features"


class CachedCard(Struct, frozen=True, kw_only=True):
    card: AgentCard
    # The card as it was served.
    body: bytes
    features: frozenset[str]
    etag: str
    fetched_at: float
    fresh_until: float
    # Calls may use it for longer.
    good_until: float


# Fetches the card with additional headers.
Fetch: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Answer]]


class CardCache:
    """Failures are not kept: the next caller asks the peer again."""

    def __init__(
        self, clock: Clock, reader: ResponseReader, read: Callable[[bytes], AgentCard]
    ) -> None:
        """`read` makes a card of its JSON, or raises InvalidAgentResponse or RemoteError."""
        self._clock = clock
        self._read_card = read
        self._reader = reader
        self._known: CachedCard | None = None
        self._lock = asyncio.Lock()
        # The failure of the last attempt, for callers that were waiting for it.
        self._failure: tuple[float, RemoteError] | None = None

    async def card(self, fetch: Fetch, *, fresh: bool) -> AgentCard:
        """The card by the rules of HTTP; `fresh` asks the peer in any case."""
        asked_at = self._clock.monotonic()
        known = self._known
        if known is not None and not fresh and asked_at < known.fresh_until:
            return known.card
        return (await self._refresh(fetch, asked_at)).card

    def good_for_calls(self) -> CachedCard | None:
        known = self._known
        if known is not None and self._clock.monotonic() < known.good_until:
            return known
        return None

    async def for_call(self, fetch: Fetch) -> CachedCard:
        """The card for a call; a stale one if the peer cannot give a new one now."""
        known, now = self.good_for_calls(), self._clock.monotonic()
        if known is not None:
            return known
        if self._known is None:
            return await self._refresh(fetch, now)
        async with self._lock:
            known = self.good_for_calls()
            if known is not None:
                return known
            try:
                return await self._refreshed(fetch)
            except RemoteError:
                return self._extend_stale()
            except BaseException:
                self._extend_stale()
                raise

    def _extend_stale(self) -> CachedCard:
        """Use the stale card for a while, so that not every call waits for a peer that is down."""
        known = self._known
        assert known is not None
        good_until = self._clock.monotonic() + _FOR_CALLS_S
        self._known = known = replace(known, good_until=good_until)
        return known

    async def _refresh(self, fetch: Fetch, asked_at: float) -> CachedCard:
        async with self._lock:
            known = self._known
            # Another caller asked the peer meanwhile, and its answer is newer than this question.
            if known is not None and known.fetched_at > asked_at:
                return known
            if self._failure is not None and self._failure[0] > asked_at:
                # The same holds for its failure.
                raise noted(self._failure[1])
            try:
                return await self._refreshed(fetch)
            except RemoteError as error:
                self._failure = self._clock.monotonic(), error
                raise

    async def _refreshed(self, fetch: Fetch) -> CachedCard:
        known = self._known
        headers = {"If-None-Match": known.etag} if known is not None and known.etag else {}
        answer = await fetch(headers)
        self._known = known = self._read(answer, known)
        return known

    def _read(self, answer: Answer, known: CachedCard | None) -> CachedCard:
        now = self._clock.monotonic()
        until = now + freshness_s(answer.headers)
        good_until = max(until, now + _FOR_CALLS_S)
        if answer.status == 304:
            if known is None:
                raise BadPeerAnswer("the agent says that its card has not changed, unasked")
            return replace(known, fetched_at=now, fresh_until=until, good_until=good_until)
        try:
            card = self._read_card(answer.body)
        except InvalidAgentResponse as error:
            raise self._reader.bad(error, reason="BAD_CARD") from None
        features = answer.headers.get(FEATURES, "").split(",")
        return CachedCard(
            card=card,
            body=answer.body,
            features=frozenset(one.strip() for one in features),
            etag=answer.headers.get("etag", ""),
            fetched_at=now,
            fresh_until=until,
            good_until=good_until,
        )


def freshness_s(headers: Mapping[str, str]) -> float:
    control = headers.get("cache-control", "").lower()
    if "no-store" in control or "no-cache" in control:
        return 0.0
    stated = _MAX_AGE.search(control)
    return float(stated[1]) if stated else _UNSTATED_S
