"""`A2AHandler`: the steps of every A2A request, the same on each binding."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct, field

from trunkline.background import next_pass
from trunkline.model.calls import Caller, Operation, SubscribeToTaskRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import (
    Case,
    InvalidRequest,
    PermissionDenied,
    StoreError,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
    WrongHttpMethod,
)
from trunkline.model.large_values import MARK, SLICE_BYTES
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope
from trunkline.protocol import call_chain
from trunkline.protocol.errors import wire
from trunkline.protocol.limits import MAX_EXTENSIONS
from trunkline.protocol.operations import STREAMING, RequestValue
from trunkline.protocol.versions import Version
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.service import ListAnswer, TaskAnswer
from trunkline.server.access import Access, challenge
from trunkline.server.calls import Call
from trunkline.server.endpoint import unknown_tenant
from trunkline.server.http import (
    Disconnected,
    Header,
    Request,
    Response,
    sequence_of,
)
from trunkline.server.large_answers import LargeAnswer
from trunkline.server.metrics import LABELS, Metrics
from trunkline.server.standing import NotServed, identify
from trunkline.server.streams import Frames, StreamCounts, pump

_log = logging.getLogger("trunkline.server")

# The store keeps every key, so a longer one would only cost space.
MAX_KEY_CHARS = 255
STORE_RETRY_AFTER_S = 5
# Decoding a megabyte of text takes a few milliseconds.
LARGE_BODY_BYTES = 1024 * 1024
# The approximate number of passes of the event loop from a small request to its response.
PASSES_PER_SEND = 16

Result: TypeAlias = TaskAnswer | Reply | bytes | ListAnswer | AgentCard

# The request, the handle of the agent, the operation if it is known, and the reason.
OnTurnedAway: TypeAlias = Callable[[Request, str, str, str], None]
_TURNED_AWAY = (Unauthenticated, PermissionDenied)
# Operations whose refusal by grants the gate records.
_RECORDED = (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)


class A2AHandler(Struct, frozen=True, kw_only=True, eq=False):
    access: Access
    streams: StreamCounts
    metrics: Metrics
    clock: Clock
    logs_requests: bool = False
    # Learns of requests that were refused before a gate could record them.
    on_turned_away: OnTurnedAway | None = None
    large_bodies: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def serve(self, call: Call, request: Request, response: Response) -> None:
        """Raises NotServed, and nothing else, for an agent that its registry keeps from the
        caller."""
        started = self.clock.monotonic()
        endpoint, outcome = call.endpoint, "ok"
        try:
            # Before anything else, so that an unknown caller learns nothing and costs little.
            known = self.access.known
            principal = None if known is None else known(request.headers)
            if (standing := endpoint.standing) is not None:
                principal = await identify(endpoint, standing, self.access, request, principal)
            elif principal is None:
                principal = await self.access.identify(request)
            request.caller = principal.id
            call.begin(request)
            limit = endpoint.limits.max_body_bytes
            body = request.whole_body(limit=limit)
            if body is None:
                body = await request.body(limit=limit)
            if len(body) > LARGE_BODY_BYTES:
                await self._wait_for_turn()
            value = call.read(request, body)
            body = b""
            if request.held_bytes:
                request.release()
            caller = _caller(call, request, principal, value)
            operation = call.operation
            assert operation is not None
            if operation in STREAMING:
                options = _stream_options(call, request, value)
                self.streams.enter(principal.id)
                try:
                    reader = await endpoint.handlers[operation](caller, value, **options)
                    # A new task may still be refused, so its stream waits for the first event.
                    is_new = options.get("last_seq") is None
                    await _pump(call, request, response, caller, reader, waits_for_first=is_new)
                finally:
                    self.streams.leave(principal.id)
            else:
                result = await endpoint.handlers[operation](caller, value)
                await _answer(call, response, caller, result)
        except NotServed as unserved:
            self._tell(call, request, unserved.error)
            raise
        except TrunklineError as error:
            self._tell(call, request, error)
            outcome = await _refuse(call, response, error)
        except Disconnected:
            outcome = "disconnected"
        except Exception as error:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("request failed", extra={"agent": endpoint.agent.handle})
            outcome = await _refuse(call, response, error)
        seconds = self.clock.monotonic() - started
        labels = (
            endpoint.agent.handle,
            call.operation or "unknown",
            call.binding,
            call.dialect.version,
            outcome,
        )
        self.metrics.observe(labels, seconds)
        if self.logs_requests:
            extra: dict[str, object] = dict(zip(LABELS, labels, strict=True))
            # Empty for a caller that was refused as unknown.
            extra["principal"] = request.caller
            extra["ms"] = round(seconds * 1000, 2)
            _log.info("request", extra=extra)

    def _tell(self, call: Call, request: Request, error: TrunklineError | None) -> None:
        """Tell of a request that was refused for its credential; without an error, for an agent
        that its caller must not know."""
        if self.on_turned_away is None:
            return
        is_recorded = not isinstance(error, _TURNED_AWAY) or call.operation in _RECORDED
        if error is not None and is_recorded:
            return
        reason = "not_found" if error is None else wire(error).reason.lower()
        agent = call.endpoint.agent.handle
        try:
            self.on_turned_away(request, agent, call.operation or "", reason)
        except Exception:  # noqa: BLE001 - logged; the client gets its answer
            _log.exception("a refusal could not be recorded", extra={"agent": agent})

    async def _wait_for_turn(self) -> None:
        """Wait for the turn of a large body: they are decoded one at a time, with other requests in
        between."""
        async with self.large_bodies:
            for _ in range(PASSES_PER_SEND):
                await next_pass()


def _stream_options(call: Call, request: Request, value: RequestValue) -> dict[str, Any]:
    last_seq = None
    if call.endpoint.agent.profile.stream_replay and b"last-event-id" in request.headers:
        last_seq = sequence_of(request.header(b"last-event-id"))
    is_whole = call.dialect.streams_whole_tasks
    if not isinstance(value, SubscribeToTaskRequest):
        return {"is_whole": True} if is_whole else {}
    # In 0.3 `final: true` ends a stream, and a question is final.
    is_of_0_3 = call.dialect.version is Version.V0_3
    return {
        "last_seq": last_seq,
        "closes_on_input_required": is_of_0_3,
        "is_whole": is_whole,
    }


def _pump(
    call: Call,
    request: Request,
    response: Response,
    caller: Caller,
    reader: Subscription,
    *,
    waits_for_first: bool,
) -> Awaitable[None]:
    endpoint = call.endpoint
    headers = endpoint.dialects.errors.stream_headers
    if caller.extensions:
        headers = (*headers, *_echo(caller, call.dialect.version))
    # An id is a place among the events of the journal, and a stream of whole tasks has others.
    is_resumable = endpoint.agent.profile.stream_replay and not call.dialect.streams_whole_tasks
    return pump(
        request,
        response,
        reader,
        Frames(call.dialect, call.envelope, call.error_frame, is_resumable=is_resumable),
        headers=headers,
        waits_for_first=waits_for_first,
        write_large=partial(_write_large, call, response, caller),
    )


def _answer(call: Call, response: Response, caller: Caller, result: Result) -> Awaitable[None]:
    dialect = call.dialect
    pieces: tuple[bytes, ...]
    # The most frequent answer comes first.
    if isinstance(result, TaskAnswer):
        pieces = dialect.sent_task(result.task)
    elif isinstance(result, bytes):
        pieces = (dialect.task(result),)
    elif isinstance(result, Reply):
        pieces = dialect.sent_message(result.message)
    elif isinstance(result, AgentCard):
        pieces = (dialect.card(result, call.endpoint.shape),)
    else:
        page = dialect.page(
            result.tasks,
            next_page_token=result.next_page_token,
            page_size=result.page_size,
            total_size=result.total_size,
        )
        pieces = (page,)
    answer = response.answer
    for piece in pieces:
        # Not `MARK in piece`: `in` first tries the bytes as a number, and formats an error each
        # time.
        if len(piece) > SLICE_BYTES or piece.find(MARK) >= 0:
            answer = _large(call, response, caller).answer
    headers: Sequence[Header] = ()
    if caller.extensions or call.operation is _GET_EXTENDED_CARD:
        headers = _headers(call, caller)
    before, behind = call.envelope
    return answer(200, before, *pieces, behind, content_type=call.content_type, headers=headers)


def _large(call: Call, response: Response, caller: Caller) -> LargeAnswer:
    scope = Scope(call.endpoint.agent.handle, caller.tenant, caller.principal.id)
    return LargeAnswer(response, call.endpoint.service.large_values, scope)


async def _write_large(call: Call, response: Response, caller: Caller, data: bytes) -> None:
    await _large(call, response, caller).write(data)


def _caller(call: Call, request: Request, principal: Principal, value: RequestValue) -> Caller:
    endpoint, tenant = call.endpoint, value.tenant
    if principal.tenant:
        tenant = tenant or principal.tenant
        if tenant != principal.tenant:
            raise unknown_tenant()
    if endpoint.tenants:
        endpoint.check_tenant(tenant)
    extensions: tuple[str, ...] = ()
    if endpoint.card.capabilities.extensions:
        # 0.3 called the header X-A2A-Extensions.
        listed = request.header_list(b"a2a-extensions", b"x-a2a-extensions")
        if len(listed) > MAX_EXTENSIONS:
            raise InvalidRequest(
                f"A2A-Extensions lists {len(listed):,} extensions, and at most "
                f"{MAX_EXTENSIONS} are taken; list those that the agent's card declares"
            )
        extensions = endpoint.activate(listed)
    key = ""
    if b"idempotency-key" in request.headers:
        key = request.header(b"idempotency-key") or ""
    if len(key) > MAX_KEY_CHARS:
        raise InvalidRequest(f"Idempotency-Key must not be longer than {MAX_KEY_CHARS} characters")
    chain: tuple[str, ...] = ()
    if b"trunkline-call-chain" in request.headers:
        chain = call_chain.decode(request.header(b"trunkline-call-chain") or "")
    return Caller(
        principal=principal,
        tenant=tenant,
        extensions=extensions,
        idempotency_key=key,
        call_chain=chain,
        operation=call.operation or "",
        binding=call.binding,
        wire_id=request.wire_id,
    )


# A constant, because Python 3.11 looks up enum members through the metaclass, which is slow.
_GET_EXTENDED_CARD = Operation.GET_EXTENDED_AGENT_CARD
# The extended card depends on the caller, so a shared cache must not keep it (RFC 9111, 5.2.2.7).
_OWN_CARD: list[Header] = [
    (b"cache-control", b"private, max-age=300"),
    (b"vary", b"Authorization, X-API-Key, A2A-Version"),
]


def _headers(call: Call, caller: Caller) -> list[Header]:
    headers = _echo(caller, call.dialect.version) if caller.extensions else []
    if call.operation is _GET_EXTENDED_CARD:
        headers += _OWN_CARD
    return headers


def _echo(caller: Caller, version: Version) -> list[Header]:
    """The response names the extensions that are in use."""
    uris = ", ".join(caller.extensions).encode("latin-1", "replace")
    header = (b"a2a-extensions", uris)
    return [header] if version is Version.V1_0 else [header, (b"x-a2a-extensions", uris)]


async def _refuse(call: Call, response: Response, error: Exception) -> str:
    """Send the error to the client, where the response still allows it; returns the reason for the
    metrics."""
    error = for_client(error)
    event = call.error_event(error)
    if event is not None:
        if not response.has_begun:
            await response.begin(200, call.endpoint.dialects.errors.stream_headers)
        await response.write(event)
        await response.end()
    elif not response.has_begun:
        status, body = call.error(error)
        await response.answer(
            status, body, content_type=call.content_type, headers=error_headers(error)
        )
    return wire(error).reason


def for_client(error: Exception) -> Exception:
    """The store's own messages name files of this machine, so clients get another text."""
    if isinstance(error, StoreError):
        return Unavailable(
            "The gateway cannot use its stored tasks at the moment; try again later",
            retry_after_s=STORE_RETRY_AFTER_S,
        )
    return error


def error_headers(error: Exception) -> list[Header]:
    if isinstance(error, Unauthenticated):
        return [challenge(error)]
    if isinstance(error, PermissionDenied) and error.case is Case.NOT_GRANTED:
        return [challenge(error)]
    if isinstance(error, TooManyRequests | Unavailable):
        return [(b"retry-after", b"%d" % error.retry_after_s)]
    if isinstance(error, WrongHttpMethod):
        return [(b"allow", error.allow.encode())]
    return []
