"""What all calls of one peer share: connections, card, credentials, circuit."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias, TypeVar

from msgspec import Struct, structs

from trunkline.model.card import AgentCard
from trunkline.ports.clock import Clock
from trunkline.protocol import card_reading, refusals
from trunkline.protocol.client_requests import ask
from trunkline.protocol.dialect import RequestValue
from trunkline.protocol.operations import Operation
from trunkline.remote.card_cache import CardCache, Known
from trunkline.remote.card_signatures import CardKeys
from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
)
from trunkline.remote.http import SSE, Answer, Network, Opened
from trunkline.remote.http.request import origin_of
from trunkline.remote.interfaces import Way, guard_of, ways
from trunkline.remote.responses import Reader
from trunkline.remote.retries import Attempts, Breaker
from trunkline.remote.sender import Sender
from trunkline.remote.target import Limits, Target
from trunkline.remote.within import within

T = TypeVar("T")
# What is done by one interface.
Once: TypeAlias = Callable[[Way], Awaitable[T]]


class Reply(Struct, frozen=True):
    """The JSON of a result, and which way it came."""

    way: Way
    payload: bytes


class Connection(Struct, frozen=True):
    """A stream that is open. `id` is that of the JSON-RPC request."""

    way: Way
    opened: Opened
    id: bytes


class Link:
    def __init__(
        self,
        target: Target,
        *,
        limits: Limits,
        clock: Clock,
        chance: Callable[[], float],
        network: Network | None = None,
    ) -> None:
        """Raises InvalidTarget."""
        target.check()
        self.target = target
        self.clock = clock
        self.chance = chance
        self.breaker = Breaker(failures=limits.circuit_failures)
        self._attempts = Attempts(self.breaker, clock, chance)
        self._sender = Sender(target, clock, guard_of(target), network)
        self.reader = Reader(clock, self._sender.secrets)
        self.read_card = card_reading.decode
        if target.card_keys or target.require_signature:
            keys = CardKeys(target.card_keys, is_required=target.require_signature)
            self.read_card = keys.read
        self._cards = CardCache(clock, self.reader, self.read_card)
        self._last_id = 0
        # The way that worked last is tried first.
        self._good: Way | None = None
        self._ways: tuple[AgentCard | None, tuple[Way, ...]] = None, ()

    async def close(self) -> None:
        await self._sender.close()

    async def card(self, limits: Limits, *, fresh: bool = False) -> AgentCard:
        async def work(limits: Limits) -> AgentCard:
            return await self._cards.card(
                lambda headers: self._fetch_card(limits, headers), fresh=fresh
            )

        return await self._attempts.make(work, limits, is_repeatable=True)

    async def known(self, limits: Limits) -> Known:
        """The card that calls go by, and what the peer is known to be able to."""
        known = self._cards.good_for_calls()
        if known is not None:
            return known
        return await self._attempts.make(self._known, limits, is_repeatable=True)

    async def _known(self, limits: Limits) -> Known:
        return await self._cards.for_call(lambda headers: self._fetch_card(limits, headers))

    async def _fetch_card(self, limits: Limits, extra: Mapping[str, str]) -> Answer:
        token = await self._sender.token()
        answer = await self._sender.fetch_card(limits, extra)
        if answer.status == 401 and token:
            self._sender.forget_token(token)
            answer = await self._sender.fetch_card(limits, extra)
        if answer.status not in (200, 304):
            raise self.reader.refused(refusals.http_refusal(answer.status, answer.body), answer)
        if answer.media_type in ("text/html", SSE):
            raise BadPeerAnswer(
                f"there is no agent card at {self.target.card_url}: it answers {answer.media_type}",
                reason="BAD_CARD",
            )
        return answer

    async def call(
        self,
        operation: Operation,
        value: RequestValue,
        *,
        limits: Limits,
        headers: Mapping[str, str],
        is_repeatable: bool,
    ) -> Reply:
        """Raises RemoteError, after as many attempts as are safe."""

        async def once(way: Way) -> Reply:
            id = self._next_id()
            given = _for_tenant(value, way) if way.tenant else value
            call = ask(way.binding, way.version, operation, given, id=id)
            answer = await self._sender.fetch(way, call, operation, headers, limits)
            return Reply(way, self.reader.payload(way, answer, id))

        with within(limits.call_s):
            return await self._attempts.make(
                lambda limits: self._over_ways(once, limits), limits, is_repeatable=is_repeatable
            )

    @asynccontextmanager
    async def stream(
        self,
        operation: Operation,
        value: RequestValue,
        *,
        limits: Limits,
        headers: Mapping[str, str],
        is_repeatable: bool,
        within_s: float,
        is_probe: bool = False,
    ) -> AsyncIterator[Connection]:
        """Open while inside. Raises PeerRefused when the peer answers with an error instead.

        A probe asks also while the circuit of the peer is open.
        """
        async with AsyncExitStack() as stack:

            async def once(way: Way) -> Connection:
                id = self._next_id()
                given = _for_tenant(value, way) if way.tenant else value
                call = ask(way.binding, way.version, operation, given, id=id)
                opened = await self._sender.open(way, call, operation, headers, limits, within_s)
                stack.callback(opened.close)
                if opened.status != 200:
                    body = await opened.body(limits.max_body_bytes)
                    self.reader.payload(way, Answer(opened.status, opened.headers, body), id)
                return Connection(way, opened, id)

            yield await self._attempts.make(
                lambda limits: self._over_ways(once, limits),
                limits,
                is_repeatable=is_repeatable,
                is_probe=is_probe,
            )

    async def body(self, connection: Connection, limits: Limits) -> bytes:
        """The result of a peer that does not stream although it was asked to."""
        opened = connection.opened
        body = await opened.body(limits.max_body_bytes)
        return self.reader.payload(
            connection.way, Answer(opened.status, opened.headers, body), connection.id
        )

    async def _over_ways(self, once: Once[T], limits: Limits) -> T:
        """By the first interface that can be reached."""
        known = self._cards.good_for_calls()
        found, good = self._ways_of(known or await self._known(limits)), self._good
        if good is not None and good is not found[0] and good in found:
            found = (good, *(way for way in found if way != good))
        for way in found:
            try:
                if self._sender.has_fixed_credentials or not way.is_trusted:
                    result = await once(way)
                else:
                    result = await self._with_token(way, once)
            except AddressRefused:
                if way is found[-1]:
                    raise
            except (PeerUnreachable, PeerTimeout) as error:
                if not error.is_unsent or way is found[-1]:
                    raise
            except PeerRefused as error:
                if error.status in (401, 403) and not way.is_trusted and self.target.has_secrets:
                    raise _without_credentials(error, way) from None
                raise
            else:
                self._good = way
                return result
        raise AssertionError("a card without a way is refused before")

    def _ways_of(self, known: Known) -> tuple[Way, ...]:
        # Worked out once per card.
        if self._ways[0] is not known.card:
            self._ways = known.card, ways(known.card, self.target)
        return self._ways[1]

    async def _with_token(self, way: Way, once: Once[T]) -> T:
        token = await self._sender.token()
        try:
            return await once(way)
        except PeerRefused as error:
            if error.status != 401:
                raise
            # The token may have been withdrawn before its time; nothing was done with it.
            self._sender.forget_token(token)
            return await once(way)

    def _next_id(self) -> bytes:
        self._last_id += 1
        return b'"%d"' % self._last_id


def _without_credentials(error: PeerRefused, way: Way) -> PeerRefused:
    origin = origin_of(way.url)
    return PeerRefused(
        f"{error.message}. Headers and credentials of the target were not sent to {origin}, "
        "which only its card names: call the agent by that address, or add it to "
        "trusted_origins of the target",
        code=error.code,
        reason="CREDENTIALS_WITHHELD",
        data=error.data,
        status=error.status,
    )


def _for_tenant(value: RequestValue, way: Way) -> RequestValue:
    return value if value.tenant else structs.replace(value, tenant=way.tenant)
