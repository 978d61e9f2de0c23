"""What both bindings do with a decoded request that the agent offers: one answer, or one stream."""

from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import GatewayBug, Unauthenticated
from trunkline.protocol.dialect import Dialect, RequestValue
from trunkline.protocol.operations import Operation
from trunkline.protocol.versions import Version
from trunkline.runtime.fanout import Subscription
from trunkline.runtime.service import TaskAnswer
from trunkline.server.endpoint import Endpoint

STREAMING = frozenset({Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK})


class Calls:
    async def answer(
        self, endpoint: Endpoint, dialect: Dialect, caller: Caller, value: RequestValue
    ) -> bytes:
        """The answer of an operation that does not stream, in the client's dialect."""
        agent, service = endpoint.agent, endpoint.service
        # By how often they are called.
        if isinstance(value, SendMessageRequest):
            outcome = await service.send(agent, caller, value)
            if isinstance(outcome, TaskAnswer):
                return dialect.sent_task(outcome.task)
            return dialect.sent_message(outcome.message)
        if isinstance(value, GetTaskRequest):
            return dialect.task(await service.get(agent, caller, value))
        if isinstance(value, ListTasksRequest):
            page = await service.list(agent, caller, value)
            return dialect.page(
                page.tasks,
                next_page_token=page.next_page_token,
                page_size=page.page_size,
                total_size=page.total_size,
            )
        if isinstance(value, CancelTaskRequest):
            return dialect.task(await service.cancel(agent, caller, value))
        if isinstance(value, GetExtendedAgentCardRequest):
            return _extended_card(endpoint, dialect, caller)
        # Streams have no single answer, and push notifications are not offered.
        raise GatewayBug(f"no answer to {type(value).__name__}")

    async def open_stream(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        caller: Caller,
        value: RequestValue,
        *,
        last_seq: int | None,
    ) -> Subscription:
        if isinstance(value, SendMessageRequest):
            return await endpoint.service.stream(endpoint.agent, caller, value)
        if isinstance(value, SubscribeToTaskRequest):
            return await endpoint.service.subscribe(
                endpoint.agent,
                caller,
                value,
                last_seq=last_seq,
                # In 0.3 `final: true` ends a stream, and a question is final.
                closes_on_input_required=dialect.version is Version.V0_3,
            )
        raise GatewayBug("not a streaming operation")


def _extended_card(endpoint: Endpoint, dialect: Dialect, caller: Caller) -> bytes:
    if endpoint.extended_card is None:
        raise GatewayBug("an extended card that is not offered was asked for")
    # A2A: the extended card is for authenticated callers only, wherever they are.
    if caller.is_anonymous:
        raise Unauthenticated("The extended agent card needs an API key")
    return dialect.card(endpoint.extended_card, endpoint.shape)
