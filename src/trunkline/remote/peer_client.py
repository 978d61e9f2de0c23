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
from trunkline.remote.card_cache import CachedCard, CardCache
from trunkline.remote.card_signatures import CardKeys
from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
)
from trunkline.remote.http import SSE, Answer, Network, StreamedResponse
from trunkline.remote.http.request import origin_of
from trunkline.remote.interfaces import Endpoint, endpoints_of, guard_of
from trunkline.remote.responses import ResponseReader
from trunkline.remote.retries import CircuitBreaker, Retrier
from trunkline.remote.sender import Sender
from trunkline.remote.target import Limits, Target
from trunkline.remote.within import within

T = TypeVar("T")
# What is done by one interface.
Once: TypeAlias = Callable[[Endpoint], Awaitable[T]]


class Reply(Struct, frozen=True):
    """The JSON of a result, and the endpoint that gave it."""

    endpoint: Endpoint
    payload: bytes


class Connection(Struct, frozen=True):
    """A stream that is open. `id` is that of the JSON-RPC request."""

    endpoint: Endpoint
    opened: StreamedResponse
    id: bytes


class PeerClient:
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
        self.breaker = CircuitBreaker(failures=limits.circuit_failures)
        self._attempts = Retrier(self.breaker, clock, chance)
        self._sender = Sender(target, clock, guard_of(target), network)
        self.reader = ResponseReader(clock, self._sender.secrets)
        self.read_card = card_reading.decode
        if target.card_keys or target.require_signature:
            keys = CardKeys(target.card_keys, is_required=target.require_signature)
            self.read_card = keys.read
        self._cards = CardCache(clock, self.reader, self.read_card)
        self._last_id = 0
        # The endpoint that worked last is tried first.
        self._good: Endpoint | None = None
        self._endpoints: tuple[AgentCard | None, tuple[Endpoint, ...]] = None, ()

    async def close(self) -> None:
        await self._sender.close()

    async def card(self, limits: Limits, *, fresh: bool = False) -> AgentCard:
        async def work(limits: Limits) -> AgentCard:
            return await self._cards.card(
                lambda headers: self._fetch_card(limits, headers), fresh=fresh
            )

        return await self._attempts.make(work, limits, is_repeatable=True)

    async def known(self, limits: Limits) -> CachedCard:
        """The card that calls go by, and what the peer is known to be able to."""
        known = self._cards.good_for_calls()
        if known is not None:
            return known
        return await self._attempts.make(self._known, limits, is_repeatable=True)

    async def _known(self, limits: Limits) -> CachedCard:
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

        async def once(endpoint: Endpoint) -> Reply:
            id = self._next_id()
            given = _for_tenant(value, endpoint) if endpoint.tenant else value
            call = ask(endpoint.binding, endpoint.version, operation, given, id=id)
            answer = await self._sender.fetch(endpoint, call, operation, headers, limits)
            return Reply(endpoint, self.reader.payload(endpoint, answer, id))

        with within(limits.call_s):
            return await self._attempts.make(
                lambda limits: self._over_endpoints(once, limits),
                limits,
                is_repeatable=is_repeatable,
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

            async def once(endpoint: Endpoint) -> Connection:
                id = self._next_id()
                given = _for_tenant(value, endpoint) if endpoint.tenant else value
                call = ask(endpoint.binding, endpoint.version, operation, given, id=id)
                opened = await self._sender.open(
                    endpoint, call, operation, headers, limits, within_s
                )
                stack.callback(opened.close)
                if opened.status != 200:
                    body = await opened.body(limits.max_body_bytes)
                    self.reader.payload(endpoint, Answer(opened.status, opened.headers, body), id)
                return Connection(endpoint, opened, id)

            yield await self._attempts.make(
                lambda limits: self._over_endpoints(once, limits),
                limits,
                is_repeatable=is_repeatable,
                is_probe=is_probe,
            )

    async def body(self, connection: Connection, limits: Limits) -> bytes:
        """The result of a peer that does not stream although it was asked to."""
        opened = connection.opened
        body = await opened.body(limits.max_body_bytes)
        return self.reader.payload(
            connection.endpoint, Answer(opened.status, opened.headers, body), connection.id
        )

    async def _over_endpoints(self, once: Once[T], limits: Limits) -> T:
        """By the first interface that can be reached."""
        known = self._cards.good_for_calls()
        found, good = self._endpoints_of(known or await self._known(limits)), self._good
        if good is not None and good is not found[0] and good in found:
            found = (good, *(endpoint for endpoint in found if endpoint != good))
        for endpoint in found:
            try:
                if self._sender.has_fixed_credentials or not endpoint.is_trusted:
                    result = await once(endpoint)
                else:
                    result = await self._with_token(endpoint, once)
            except AddressRefused:
                if endpoint is found[-1]:
                    raise
            except (PeerUnreachable, PeerTimeout) as error:
                if not error.is_unsent or endpoint is found[-1]:
                    raise
            except PeerRefused as error:
                if (
                    error.status in (401, 403)
                    and not endpoint.is_trusted
                    and self.target.has_secrets
                ):
                    raise _without_credentials(error, endpoint) from None
                raise
            else:
                self._good = endpoint
                return result
        raise AssertionError("a card without an endpoint is refused before")

    def _endpoints_of(self, known: CachedCard) -> tuple[Endpoint, ...]:
        # Worked out once per card.
        if self._endpoints[0] is not known.card:
            self._endpoints = known.card, endpoints_of(known.card, self.target)
        return self._endpoints[1]

    async def _with_token(self, endpoint: Endpoint, once: Once[T]) -> T:
        token = await self._sender.token()
        try:
            return await once(endpoint)
        except PeerRefused as error:
            if error.status != 401:
                raise
            # The token may have been withdrawn before its time; nothing was done with it.
            self._sender.forget_token(token)
            return await once(endpoint)

    def _next_id(self) -> bytes:
        self._last_id += 1
        return b'"%d"' % self._last_id


def _without_credentials(error: PeerRefused, endpoint: Endpoint) -> PeerRefused:
    origin = origin_of(endpoint.url)
    return PeerRefused(
        f"{error.message}. Headers and credentials of the target were not sent to {origin}, "
        "which only its card names: call the agent by that address, or add it to "
        "trusted_origins of the target",
        code=error.code,
        reason="CREDENTIALS_WITHHELD",
        data=error.data,
        status=error.status,
    )


def _for_tenant(value: RequestValue, endpoint: Endpoint) -> RequestValue:
    return value if value.tenant else structs.replace(value, tenant=endpoint.tenant)
