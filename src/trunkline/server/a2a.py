"""Serving an A2A request: the same steps on every binding."""

import asyncio
import logging

from trunkline.background import next_pass
from trunkline.model.calls import ANONYMOUS, Caller, SubscribeToTaskRequest
from trunkline.model.errors import (
    InvalidRequest,
    StoreError,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
    WrongHttpMethod,
)
from trunkline.model.large_values import MARK, SLICE_BYTES
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope
from trunkline.protocol.dialect import RequestValue
from trunkline.protocol.errors import wire
from trunkline.protocol.limits import MAX_EXTENSIONS
from trunkline.protocol.operations import Operation
from trunkline.protocol.versions import Version
from trunkline.server.access import CHALLENGE, Access
from trunkline.server.calls import STREAMING, Calls
from trunkline.server.endpoint import Endpoint
from trunkline.server.exchange import Exchange
from trunkline.server.http import (
    Disconnected,
    Header,
    Request,
    Response,
    sequence_of,
)
from trunkline.server.large_answers import LargeAnswer
from trunkline.server.metrics import Metrics
from trunkline.server.streams import Frames, StreamCounts, pump

_log = logging.getLogger("trunkline.server")

# Longer keys say nothing more, and every one is stored.
MAX_KEY_CHARS = 255
STORE_RETRY_AFTER_S = 5
# It takes a few milliseconds to decode a megabyte of text.
LARGE_BODY_BYTES = 1024 * 1024
# About so many passes of the event loop lead from a small request to its answer.
PASSES_PER_SEND = 16


class A2AHandler:
    def __init__(
        self,
        *,
        calls: Calls,
        access: Access,
        streams: StreamCounts,
        metrics: Metrics,
        clock: Clock,
        logs_requests: bool = False,
    ) -> None:
        self._calls = calls
        self._access = access
        self._streams = streams
        self._metrics = metrics
        self._clock = clock
        self._logs_requests = logs_requests
        self._large_bodies = asyncio.Lock()

    async def serve(
        self, endpoint: Endpoint, exchange: Exchange, request: Request, response: Response
    ) -> None:
        started = self._clock.monotonic()
        outcome = "ok"
        try:
            # Before anything else: an unknown caller learns nothing, and costs nothing.
            principal = request.caller = self._access.identify(request)
            exchange.begin(request)
            limits = endpoint.limits
            body = request.whole_body(limit=limits.max_body_bytes)
            if body is None:
                body = await request.body(limit=limits.max_body_bytes)
            if len(body) > LARGE_BODY_BYTES:
                await self._wait_for_turn()
            value = exchange.read(request, body, limits, endpoint.check_offered)
            body = b""
            if request.held_bytes:
                request.release()
            caller = _caller(endpoint, exchange, request, principal, value)
            if exchange.operation in STREAMING:
                await self._stream(endpoint, exchange, request, response, caller, value)
            else:
                result = await self._calls.answer(endpoint, exchange.dialect, caller, value)
                result = exchange.result(result)
                # Not `MARK in result`: `in` tries bytes as a number first, and makes an error
                # text each time.
                if len(result) > SLICE_BYTES or result.find(MARK) >= 0:
                    await _large(endpoint, caller, response).answer(
                        result,
                        content_type=exchange.content_type,
                        headers=_headers(exchange, caller),
                    )
                else:
                    await response.answer(
                        200,
                        result,
                        content_type=exchange.content_type,
                        headers=_headers(exchange, caller),
                    )
        except TrunklineError as error:
            outcome = await _refuse(response, endpoint, exchange, error)
        except Disconnected:
            outcome = "disconnected"
        except Exception as error:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("request failed", extra={"agent": endpoint.agent.handle})
            outcome = await _refuse(response, endpoint, exchange, error)
        self._observe(endpoint.agent.handle, exchange, outcome, self._clock.monotonic() - started)

    async def _wait_for_turn(self) -> None:
        """Large bodies are decoded one at a time, with room for others to be served in between."""
        async with self._large_bodies:
            for _ in range(PASSES_PER_SEND):
                await next_pass()

    async def _stream(
        self,
        endpoint: Endpoint,
        exchange: Exchange,
        request: Request,
        response: Response,
        caller: Caller,
        value: RequestValue,
    ) -> None:
        is_resumable = endpoint.agent.profile.stream_replay
        last_seq = sequence_of(request.header(b"last-event-id")) if is_resumable else None
        self._streams.enter(caller.principal)
        try:
            reader = await self._calls.open_stream(
                endpoint, exchange.dialect, caller, value, last_seq=last_seq
            )
            await pump(
                request,
                response,
                reader,
                Frames(
                    exchange.dialect,
                    exchange.envelope(),
                    exchange.error_frame,
                    is_resumable=is_resumable,
                ),
                headers=[
                    *endpoint.dialects.errors.stream_headers,
                    *_echo(caller, exchange.dialect.version),
                ],
                # A new task shows nothing until it is stored, and may yet be refused.
                write_large=_large(endpoint, caller, response).write,
                waits_for_first=last_seq is None or not isinstance(value, SubscribeToTaskRequest),
            )
        finally:
            self._streams.leave(caller.principal)

    def _observe(self, agent: str, exchange: Exchange, outcome: str, seconds: float) -> None:
        operation, version = exchange.operation or "unknown", exchange.dialect.version
        self._metrics.observe((agent, operation, exchange.binding, version, outcome), seconds)
        if self._logs_requests:
            _log.info(
                "request",
                extra={
                    "agent": agent,
                    "operation": operation,
                    "binding": exchange.binding,
                    "version": version,
                    "outcome": outcome,
                    "ms": round(seconds * 1000, 2),
                },
            )


def _large(endpoint: Endpoint, caller: Caller, response: Response) -> LargeAnswer:
    scope = Scope(endpoint.agent.handle, caller.tenant, caller.principal)
    return LargeAnswer(response, endpoint.service.large_values, scope)


def _caller(
    endpoint: Endpoint,
    exchange: Exchange,
    request: Request,
    principal: str,
    value: RequestValue,
) -> Caller:
    tenant = value.tenant
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
    return Caller(
        principal=principal,
        is_anonymous=principal == ANONYMOUS,
        tenant=tenant,
        extensions=extensions,
        idempotency_key=key,
    )


# By a name of its own: Python 3.11 looks members up through the metaclass.
_GET_EXTENDED_CARD = Operation.GET_EXTENDED_AGENT_CARD
# The extended card depends on who asks, so only the one who asked may keep it.
_OWN_CARD: list[Header] = [
    (b"cache-control", b"private, max-age=300"),
    (b"vary", b"Authorization, X-API-Key, A2A-Version"),
]


def _headers(exchange: Exchange, caller: Caller) -> list[Header]:
    headers = _echo(caller, exchange.dialect.version) if caller.extensions else []
    if exchange.operation is _GET_EXTENDED_CARD:
        headers += _OWN_CARD
    return headers


def _echo(caller: Caller, version: Version) -> list[Header]:
    """The response names the extensions that are in use."""
    if not caller.extensions:
        return []
    uris = ", ".join(caller.extensions).encode("latin-1", "replace")
    header = (b"a2a-extensions", uris)
    return [header] if version is Version.V1_0 else [header, (b"x-a2a-extensions", uris)]


async def _refuse(
    response: Response,
    endpoint: Endpoint,
    exchange: Exchange,
    error: Exception,
) -> str:
    """Tell the client, unless it is too late for that; returns the reason for the metrics."""
    error = _for_client(error)
    event = exchange.error_event(error)
    if event is not None:
        if not response.has_begun:
            await response.begin(200, endpoint.dialects.errors.stream_headers)
        await response.write(event)
        await response.end()
    elif not response.has_begun:
        status, body = exchange.error(error)
        await response.answer(
            status, body, content_type=exchange.content_type, headers=error_headers(error)
        )
    return wire(error).reason


def _for_client(error: Exception) -> Exception:
    """The store's own words name files of this machine, so clients get these instead."""
    if isinstance(error, StoreError):
        return Unavailable(
            "The gateway cannot use its stored tasks at the moment; try again later",
            retry_after_s=STORE_RETRY_AFTER_S,
        )
    return error


def error_headers(error: Exception) -> list[Header]:
    if isinstance(error, Unauthenticated):
        return [CHALLENGE]
    if isinstance(error, TooManyRequests | Unavailable):
        return [(b"retry-after", b"%d" % error.retry_after_s)]
    if isinstance(error, WrongHttpMethod):
        return [(b"allow", error.allow.encode())]
    return []
