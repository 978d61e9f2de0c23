"""`PeerClient`: the connections, card, credentials and circuit that all calls of a peer share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct, structs

from trunkline.model.calls import Operation
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import Task
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap
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
    RemoteError,
)
from trunkline.remote.http import SSE, Answer, HttpClient, Network, Response
from trunkline.remote.http.request import Origin, Request, build_request
from trunkline.remote.interfaces import Endpoint, endpoints_of, guard_of
from trunkline.remote.other_origins import (
    failure_of,
    is_certainly_unsent,
    may_go_elsewhere,
    task_of,
)
from trunkline.remote.responses import ResponseReader
from trunkline.remote.retries import CircuitBreaker, Retrier, call_timeout
from trunkline.remote.target import Limits, Target

T = TypeVar("T")
# The tasks whose origin is remembered, where an agent has more than one.
MAX_HOMES: Final = 1000
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
        tap: ClientTap | None = None,
    ) -> None:
        """`tap` is that of the agent whose backend calls. Raises InvalidTarget."""
        target.check()
        self.target = target
        self.clock = clock
        self.chance = chance
        self._retrier = Retrier(CircuitBreaker(failures=limits.circuit_failures), clock, chance)
        self._http = HttpClient(guard_of(target), network=network, tap=tap)
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
        # The endpoints of this card, and whether they are at more than one origin.
        self._card: AgentCard | None = None
        self._endpoints: tuple[Endpoint, ...] = ()
        self._has_origins = False
        # Where tasks began.
        self._homes: dict[str, Origin] = {}

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

        work = partial(self._over_endpoints, once, task_of(value), options.is_repeatable)
        with call_timeout(limits.call_s):
            endpoint, payload = await self._retrier.make(
                work, limits, is_repeatable=options.is_repeatable
            )
        try:
            result = read(ANSWERS[endpoint.binding, endpoint.version], payload)
        except InvalidAgentResponse as error:
            raise self.reader.bad(error) from None
        if isinstance(result, Task):
            self.note_home(result.id, endpoint)
        return result

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
            partial(self._over_endpoints, once, task_of(value), options.is_repeatable),
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

    async def _over_endpoints(
        self, once: Attempt[T], task_id: str, is_repeatable: bool, limits: Limits
    ) -> T:
        """The result of the first endpoint that can be reached. Another origin is asked only if the
        one before certainly did not get the request, or may get it twice."""
        failed: dict[Origin, RemoteError] = {}
        found = await self._endpoints_for(task_id, limits)
        for endpoint in found:
            if failed and endpoint.origin in failed:
                continue
            try:
                if self._authorization.needs_token and endpoint.is_trusted:
                    result = await self._with_token(partial(once, endpoint))
                else:
                    result = await once(endpoint)
            except (AddressRefused, PeerUnreachable, PeerTimeout) as error:
                failed[endpoint.origin] = error
                if not may_go_elsewhere(error, is_repeatable=is_repeatable):
                    break
            except PeerRefused as error:
                if any(not is_certainly_unsent(each) for each in failed.values()):
                    # It says nothing about what became of the request at the first origin.
                    break
                is_withheld = not endpoint.is_trusted and self.target.has_secrets
                if is_withheld and error.status in (401, 403):
                    raise _without_credentials(error, endpoint, [*failed.values()]) from None
                raise
            else:
                self._good = endpoint
                return result
        failure = failure_of([*failed.values()])
        if len(found) < len(self._endpoints):
            # Other requests may go to another origin, so it says nothing about the circuit.
            failure.is_noted = True
        raise failure

    async def _endpoints_for(self, task_id: str, limits: Limits) -> Sequence[Endpoint]:
        """The endpoints for a request, the best first. The task of a request is at the origin where
        it began: another one may know the same caller by another name."""
        known = self._cards.good_for_calls() or await self._card_for_call(limits)
        # Worked out once per card.
        if self._card is not known.card:
            self._card, self._endpoints = known.card, endpoints_of(known.card, self.target)
            self._has_origins = len({each.origin for each in self._endpoints}) > 1
        found, good = self._endpoints, self._good
        if good is not None and good is not found[0] and good in found:
            found = (good, *(endpoint for endpoint in found if endpoint != good))
        home = self._homes.get(task_id)
        return found if home is None else [each for each in found if each.origin == home] or found

    def note_home(self, task_id: str, endpoint: Endpoint) -> None:
        """The task began at this endpoint."""
        if not self._has_origins or not task_id or task_id in self._homes:
            return
        self._homes[task_id] = endpoint.origin
        if len(self._homes) > MAX_HOMES:
            del self._homes[next(iter(self._homes))]

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


def _without_credentials(
    error: PeerRefused, endpoint: Endpoint, before: Sequence[RemoteError]
) -> PeerRefused:
    tried = "".join(f"{each.message}, and at the next address: " for each in before)
    return PeerRefused(
        f"{tried}{error.message}. Headers and credentials of the target were not sent to "
        f"{endpoint.origin}, which only its card names: call the agent by that address, or add it "
        "to trusted_origins of the target",
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
