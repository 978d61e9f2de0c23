"""`HostDeliveries`: gives the runtime the tasks that a relay delivers from its mailbox."""

from typing import Any, Final

from trunkline.app.front import Front
from trunkline.app.runtimes import Runtimes
from trunkline.model.calls import Caller
from trunkline.model.errors import (
    CallerError,
    Conflict,
    PayloadTooLarge,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.principal import Principal
from trunkline.protocol.limits import check_json
from trunkline.protocol.relay import deliveries
from trunkline.protocol.relay.deliveries import Delivery
from trunkline.relay.hosts.exchanges import DELIVERY
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.given_tasks import GivenTask
from trunkline.runtime.runtime import Runtime
from trunkline.server.asgi import AsgiRequest, AsgiResponse
from trunkline.server.endpoint import Endpoint

# A delivery is larger and deeper than the message in it.
_MORE_BYTES: Final = 64 * 1024
_MORE_DEPTH: Final = 8
_RETRY_AFTER_S: Final = 5


class HostDeliveries:
    def __init__(self, front: Front, runtimes: Runtimes, *, callers: RelayedCallers) -> None:
        self._front = front
        self._runtimes = runtimes
        self._callers = callers

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """An answer below 400 says that the task is committed. 503 is for later, and any other
        answer for good. The text of a refusal is for the operator of the relay."""
        response = AsgiResponse(send)
        request = AsgiRequest.of(scope, receive, memory=self._front.budget)
        try:
            await self._take(request, scope["extensions"][DELIVERY])
        except TrunklineError as error:
            status = _status(error)
            retry_after_s = getattr(error, "retry_after_s", _RETRY_AFTER_S)
            headers = [(b"retry-after", b"%d" % retry_after_s)] if status == 503 else []
            text = error.message.encode()
            await response.answer(status, text, content_type=b"text/plain", headers=headers)
        else:
            await response.answer(204)
        finally:
            request.release()

    async def _take(self, request: AsgiRequest, task_id: str) -> None:
        endpoint = self._front.application.endpoint_at(request.path)
        if endpoint is None:
            raise Unavailable("The agent is not here now", retry_after_s=60)
        principal = self._callers.known(request.headers)
        if principal is None:
            raise Unauthenticated("A delivery comes through a relay alone")
        request.caller = principal.id
        delivery = await self._read(request, endpoint, task_id)
        endpoint.check_tenant(delivery.tenant)
        runtime, agent = self._found(endpoint.agent.handle)
        given = GivenTask(
            task_id=delivery.task_id,
            context_id=delivery.context_id,
            created_ms=delivery.created_ms,
            kind=delivery.kind,
            entry=delivery.entry,
            digest=bytes.fromhex(delivery.digest),
        )
        await runtime.adoptions.adopt(agent, _caller(principal, delivery), given)

    async def _read(self, request: AsgiRequest, endpoint: Endpoint, task_id: str) -> Delivery:
        limits = endpoint.limits
        body = await request.body(limit=limits.max_body_bytes + _MORE_BYTES)
        check_json(body, max_depth=limits.max_json_depth + _MORE_DEPTH)
        return deliveries.decode(body, task_id=task_id)

    def _found(self, handle: str) -> tuple[Runtime, PublishedAgent]:
        for runtime in self._runtimes:
            if handle in runtime.agents:
                return runtime, runtime.agents[handle]
        raise Unavailable("The agent is not published now", retry_after_s=60)


def _caller(principal: Principal, delivery: Delivery) -> Caller:
    options = delivery.options
    return Caller(
        principal=principal,
        tenant=delivery.tenant,
        idempotency_key=delivery.idempotency_key,
        operation=delivery.operation,
        binding=delivery.binding,
        extensions=() if options is None else options.extensions,
        call_chain=() if options is None else options.call_chain,
    )


def _status(error: TrunklineError) -> int:
    if isinstance(error, Conflict):
        return 409
    if isinstance(error, PayloadTooLarge):
        return 413
    if isinstance(error, CallerError) and not isinstance(error, TooManyRequests):
        return 400
    return 503
