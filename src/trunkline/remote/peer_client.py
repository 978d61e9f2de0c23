"""`PeerClient`: the connections, card, credentials and circuit that all calls of a peer share."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from msgspec import Struct, structs

from trunkline.model.calls import Operation
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.clock import Clock
from trunkline.protocol import call_chain, card_reading, client_responses
from trunkline.protocol.client_requests import ask
from trunkline.protocol.client_responses import ANSWERS, Answers
from trunkline.protocol.operations import RequestValue
from trunkline.remote.authorization import Authorization
from trunkline.remote.card_cache import CachedCard, CardCache
from trunkline.remote.card_signatures import CardKeys
from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
)
from trunkline.remote.http import SSE, Answer, HttpClient, Network, Response
from trunkline.remote.http.request import Request, build_request, origin_of
from trunkline.remote.interfaces import Endpoint, endpoints_of, guard_of
from trunkline.remote.responses import ResponseReader
from trunkline.remote.retries import CircuitBreaker, Retrier, call_timeout
from trunkline.remote.target import Limits, Target

T = TypeVar("T")
# One attempt at one endpoint.
Attempt: TypeAlias = Callable[[Endpoint], Awaitable[T]]
# Reads the result from its JSON, as the binding and version of the peer have it.
ReadResult: TypeAlias = Callable[[Answers, bytes], T]


class CallOptions(Struct, frozen=True):
    """`is_repeatable`: the peer may get the request twice, so that it can be tried again."""

    limits: Limits
    headers: Mapping[str, str]
    is_repeatable: bool = True


class OpenStream(Struct, frozen=True):
    """The response to a streaming call. `id` is that of the JSON-RPC request."""

    endpoint: Endpoint
    response: Response
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
        self._retrier = Retrier(CircuitBreaker(failures=limits.circuit_failures), clock, chance)
        self._http = HttpClient(guard_of(target), network=network)
        self._authorization = Authorization(target, clock, network)
        self.reader = ResponseReader(clock, self._authorization.secrets)
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
        await self._http.close()
        await self._authorization.close()

    async def card(self, limits: Limits, *, fresh: bool = False) -> AgentCard:
        async def work(limits: Limits) -> AgentCard:
            return await self._cards.card(partial(self._fetch_card, limits), fresh=fresh)

        return await self._retrier.make(work, limits, is_repeatable=True)

    async def cached_card(self, limits: Limits) -> CachedCard:
        """The card that calls go by, and the features of the peer."""
        known = self._cards.good_for_calls()
        if known is not None:
            return known
        return await self._retrier.make(self._card_for_call, limits, is_repeatable=True)

    async def _card_for_call(self, limits: Limits) -> CachedCard:
        return await self._cards.for_call(partial(self._fetch_card, limits))

    async def _fetch_card(self, limits: Limits, extra: Mapping[str, str]) -> Answer:
        async def once() -> Answer:
            as_caller = await _credential_for(self.target.card_url)
            headers = self._authorization.for_card(extra, as_caller=as_caller)
            request = build_request("GET", self.target.card_url, headers)
            with call_timeout(limits.card_s):
                answer = await self._http.fetch(request, limits, max_bytes=limits.max_card_bytes)
            if answer.status not in (200, 304):
                refusal = client_responses.http_refusal(answer.status, answer.body)
                raise self.reader.refused(refusal, answer)
            return answer

        answer = await (self._with_token(once) if self._authorization.needs_token else once())
        if answer.media_type in ("text/html", SSE):
            raise BadPeerAnswer(
                f"there is no agent card at {self.target.card_url}: it answers {answer.media_type}",
                reason="BAD_CARD",
            )
        return answer

    async def call(
        self, operation: Operation, value: RequestValue, read: ReadResult[T], options: CallOptions
    ) -> T:
        """The result. Raises RemoteError, after as many attempts as are safe."""
        limits = options.limits

        async def once(endpoint: Endpoint) -> tuple[Endpoint, bytes]:
            request, id = await self._request(endpoint, operation, value, options.headers)
            answer = await self._http.fetch(request, limits, max_bytes=limits.max_body_bytes)
            return endpoint, self.reader.payload(endpoint, answer, id)

        with call_timeout(limits.call_s):
            endpoint, payload = await self._retrier.make(
                partial(self._over_endpoints, once), limits, is_repeatable=options.is_repeatable
            )
        try:
            return read(ANSWERS[endpoint.binding, endpoint.version], payload)
        except InvalidAgentResponse as error:
            raise self.reader.bad(error) from None

    async def open_stream(
        self,
        operation: Operation,
        value: RequestValue,
        options: CallOptions,
        *,
        within_s: float,
        is_probe: bool = False,
    ) -> OpenStream:
        """A stream for the caller to close. Raises PeerRefused if the peer answers with an error.

        A probe is sent even while the circuit of the peer is open.
        """

        async def once(endpoint: Endpoint) -> OpenStream:
            request, id = await self._request(endpoint, operation, value, options.headers)
            response = await self._http.open(request, options.limits, within_s=within_s)
            stream = OpenStream(endpoint, response, id)
            try:
                if response.status != 200:
                    await self.body(stream, options.limits)
            except BaseException:
                response.close()
                raise
            return stream

        return await self._retrier.make(
            partial(self._over_endpoints, once),
            options.limits,
            is_repeatable=options.is_repeatable,
            is_probe=is_probe,
        )

    async def body(self, stream: OpenStream, limits: Limits) -> bytes:
        """The result of a peer that does not stream although it was asked to."""
        response = stream.response
        body = await response.body(limits.max_body_bytes)
        answer = Answer(response.status, response.headers, body)
        return self.reader.payload(stream.endpoint, answer, stream.id)

    async def _request(
        self,
        endpoint: Endpoint,
        operation: Operation,
        value: RequestValue,
        extra: Mapping[str, str],
    ) -> tuple[Request, bytes]:
        """The request with its JSON-RPC id."""
        self._last_id += 1
        id = b'"%d"' % self._last_id
        if endpoint.tenant and not value.tenant:
            value = structs.replace(value, tenant=endpoint.tenant)
        call = ask(endpoint.binding, endpoint.version, operation, value, id=id)
        as_caller = await _credential_for(endpoint.url)
        headers = self._authorization.for_call(endpoint, operation, extra, as_caller=as_caller)
        if chain := CALL_PATH.get().chain:
            headers = {**headers, call_chain.HEADER: call_chain.encode(chain)}
        return build_request(call.method, endpoint.url + call.path, headers, call.body), id

    async def _over_endpoints(self, once: Attempt[T], limits: Limits) -> T:
        """The result of the first endpoint that can be reached."""
        known = self._cards.good_for_calls() or await self._card_for_call(limits)
        # Worked out once per card.
        if self._endpoints[0] is not known.card:
            self._endpoints = known.card, endpoints_of(known.card, self.target)
        found, good = self._endpoints[1], self._good
        if good is not None and good is not found[0] and good in found:
            found = (good, *(endpoint for endpoint in found if endpoint != good))
        for endpoint in found:
            try:
                if self._authorization.needs_token and endpoint.is_trusted:
                    result = await self._with_token(partial(once, endpoint))
                else:
                    result = await once(endpoint)
            except AddressRefused:
                if endpoint is found[-1]:
                    raise
            except (PeerUnreachable, PeerTimeout) as error:
                if not error.is_unsent or endpoint is found[-1]:
                    raise
            except PeerRefused as error:
                is_withheld = not endpoint.is_trusted and self.target.has_secrets
                if is_withheld and error.status in (401, 403):
                    raise _without_credentials(error, endpoint) from None
                raise
            else:
                self._good = endpoint
                return result
        raise AssertionError("a card without an endpoint is refused before")

    async def _with_token(self, once: Callable[[], Awaitable[T]]) -> T:
        token = await self._authorization.token()
        try:
            return await once()
        except PeerRefused as error:
            if error.status != 401:
                raise
            # The token may have been withdrawn early. The peer did nothing with the request.
            self._authorization.forget(token)
            await self._authorization.token()
            return await once()


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


async def _credential_for(url: str) -> str | None:
    """The credential in place of that of the target: an agent that calls another one of its own
    gateway has the rights of its caller."""
    credential_for = CALL_PATH.get().credential_for
    return None if credential_for is None else await credential_for(url)
