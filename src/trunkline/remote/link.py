"""What all calls of one peer share: connections, card, credentials, circuit."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Final, TypeVar

from msgspec import Struct, structs

from trunkline.model.card import AgentCard
from trunkline.ports.clock import Clock
from trunkline.protocol import answers
from trunkline.protocol.asking import ask
from trunkline.protocol.dialect import RequestValue
from trunkline.protocol.operations import STREAMING, Operation
from trunkline.remote.breaker import Breaker
from trunkline.remote.cards import CardCache, Known
from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
)
from trunkline.remote.http import SSE, Answer, Http, Opened
from trunkline.remote.interfaces import Way, ways
from trunkline.remote.reading import Reader
from trunkline.remote.retries import delay_s, is_failure_of_peer, may_retry
from trunkline.remote.target import Limits, Target, own_headers
from trunkline.remote.tokens import Authorization

T = TypeVar("T")
_JSON: Final = "application/json"
_ACCEPT: Final = "application/json, application/a2a+json"


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
        self, target: Target, *, limits: Limits, clock: Clock, chance: Callable[[], float]
    ) -> None:
        """Raises InvalidTarget."""
        target.check()
        self.target = target
        self.clock = clock
        self.chance = chance
        self.breaker = Breaker(failures=limits.circuit_failures)
        self._http = Http()
        self._authorization = Authorization(target.credentials, clock, self._post_form)
        self.reader = Reader(clock, lambda: (*target.secrets(), *self._authorization.secrets))
        self._cards = CardCache(clock, self.reader)
        self._last_id = 0
        # The way that worked last is tried first.
        self._good: Way | None = None
        self._ways: tuple[AgentCard | None, tuple[Way, ...]] = None, ()

    async def close(self) -> None:
        await self._http.close()

    async def card(self, limits: Limits, *, fresh: bool = False) -> AgentCard:
        async def work() -> AgentCard:
            return await self._cards.card(
                lambda headers: self._fetch_card(limits, headers), fresh=fresh
            )

        return await self._reach(work, limits, is_repeatable=True)

    async def known(self, limits: Limits) -> Known:
        """The card that calls go by, and what the peer is known to be able to."""
        known = self._cards.good_for_calls()
        if known is not None:
            return known
        return await self._reach(lambda: self._known(limits), limits, is_repeatable=True)

    async def _known(self, limits: Limits) -> Known:
        return await self._cards.for_call(lambda headers: self._fetch_card(limits, headers))

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
            call = ask(way.binding, way.version, operation, _for_tenant(value, way), id=id)
            answer = await self._http.fetch(
                call.method,
                way.url + call.path,
                headers=await self._headers(way, operation, headers),
                body=call.body,
                limits=limits,
                max_bytes=limits.max_body_bytes,
            )
            return Reply(way, self.reader.payload(way, answer, id))

        async with _within(limits.call_s):
            return await self._reach(
                lambda: self._over_ways(once, limits), limits, is_repeatable=is_repeatable
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
    ) -> AsyncIterator[Connection]:
        """Open while inside. Raises PeerRefused when the peer answers with an error instead."""
        async with AsyncExitStack() as stack:

            async def once(way: Way) -> Connection:
                id = self._next_id()
                call = ask(way.binding, way.version, operation, _for_tenant(value, way), id=id)
                opened = await self._http.open(
                    call.method,
                    way.url + call.path,
                    headers=await self._headers(way, operation, headers),
                    body=call.body,
                    limits=limits,
                    within_s=within_s,
                )
                stack.callback(opened.close)
                if opened.status != 200:
                    body = await opened.body(limits.max_body_bytes)
                    self.reader.payload(way, Answer(opened.status, opened.headers, body), id)
                return Connection(way, opened, id)

            yield await self._reach(
                lambda: self._over_ways(once, limits), limits, is_repeatable=is_repeatable
            )

    def payload(self, connection: Connection, data: bytes) -> bytes:
        """What is in one event of a stream."""
        return self.reader.event(connection.way, data, connection.id)

    async def body(self, connection: Connection, limits: Limits) -> bytes:
        """The result of a peer that does not stream although it was asked to."""
        opened = connection.opened
        body = await opened.body(limits.max_body_bytes)
        return self.reader.payload(
            connection.way, Answer(opened.status, opened.headers, body), connection.id
        )

    async def _reach(
        self, work: Callable[[], Awaitable[T]], limits: Limits, *, is_repeatable: bool
    ) -> T:
        """As often as is safe and allowed."""
        attempt = 0
        while True:
            try:
                return await self._guarded(work)
            except RemoteError as error:
                attempt += 1
                if attempt >= limits.attempts or not may_retry(error, is_repeatable=is_repeatable):
                    raise
                wait_s = error.retry_after_s
            if wait_s is None:
                wait_s = delay_s(attempt - 1, self.chance())
            await self.clock.sleep(wait_s)

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T:
        wait_s = self.breaker.wait_s(self.clock.monotonic())
        if wait_s > 0:
            error = PeerUnreachable(
                "the agent failed several times in a row and is left alone for a while",
                reason="CIRCUIT_OPEN",
                is_unsent=True,
            )
            error.retry_after_s = wait_s
            raise error
        try:
            result = await work()
        except RemoteError as failure:
            if is_failure_of_peer(failure):
                self.breaker.failed(self.clock.monotonic())
            else:
                self.breaker.succeeded()
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        return result

    async def _over_ways(self, once: Callable[[Way], Awaitable[T]], limits: Limits) -> T:
        """By the first interface that can be reached."""
        found, good = self._ways_of(await self._known(limits)), self._good
        if good is not None and good is not found[0] and good in found:
            found = (good, *(way for way in found if way != good))
        for way in found[:-1]:
            try:
                return await self._by(way, once)
            except (PeerUnreachable, PeerTimeout) as error:
                if not error.is_unsent:
                    raise
        return await self._by(found[-1], once)

    def _ways_of(self, known: Known) -> tuple[Way, ...]:
        # Worked out once per card.
        if self._ways[0] is not known.card:
            self._ways = known.card, ways(known.card, self.target)
        return self._ways[1]

    async def _by(self, way: Way, once: Callable[[Way], Awaitable[T]]) -> T:
        try:
            result = await once(way)
        except PeerRefused as error:
            if error.status != 401 or not self._authorization.forget():
                raise
            # The token may have been withdrawn before its time; nothing was done with it.
            result = await once(way)
        self._good = way
        return result

    def _next_id(self) -> bytes:
        self._last_id += 1
        return b'"%d"' % self._last_id

    async def _headers(
        self, way: Way, operation: Operation, extra: Mapping[str, str]
    ) -> dict[str, str]:
        return {
            **own_headers(self.target.headers),
            **own_headers(extra),
            **await self._authorization.headers(),
            "A2A-Version": way.version,
            "Content-Type": _JSON,
            "Accept": f"{SSE}, {_ACCEPT}" if operation in STREAMING else _ACCEPT,
        }

    async def _fetch_card(self, limits: Limits, extra: Mapping[str, str]) -> Answer:
        headers = {
            **own_headers(self.target.headers),
            **await self._authorization.headers(),
            **extra,
            "Accept": _ACCEPT,
        }
        async with _within(limits.card_s):
            answer = await self._http.fetch(
                "GET",
                self.target.card_url,
                headers=headers,
                body=None,
                limits=limits,
                max_bytes=limits.max_card_bytes,
            )
        if answer.status not in (200, 304):
            raise self.reader.refused(answers.http_refusal(answer.status, answer.body), answer)
        if answer.media_type in ("text/html", SSE):
            raise BadPeerAnswer(
                f"there is no agent card at {self.target.card_url}: it answers {answer.media_type}",
                reason="BAD_CARD",
            )
        return answer

    async def _post_form(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        limits = Limits()
        async with _within(limits.card_s):
            return await self._http.fetch(
                "POST",
                url,
                headers=headers,
                body=body,
                limits=limits,
                max_bytes=limits.max_card_bytes,
            )


class _within:
    """A limit in time whose breach is PeerTimeout. A cancellation stays what it is."""

    __slots__ = ("_seconds", "_timeout")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise PeerTimeout(
                f"the agent did not answer within {self._seconds:g} s", reason="CALL_TIMEOUT"
            ) from None


def _for_tenant(value: RequestValue, way: Way) -> RequestValue:
    if way.tenant and not value.tenant:
        return structs.replace(value, tenant=way.tenant)
    return value
