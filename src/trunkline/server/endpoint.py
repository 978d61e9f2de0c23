"""`Endpoint`: a published agent at one set of addresses, with a handler for each operation."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Never, Protocol

from msgspec import Struct

from trunkline.engine.access import check_granted
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Operation,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.card import AgentCard
from trunkline.model.errors import (
    Case,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    GatewayBug,
    InvalidParams,
    PushNotificationNotSupported,
    RouteNotFound,
    Unauthenticated,
    UnsupportedOperation,
)
from trunkline.model.profile import Profile
from trunkline.ports.directory import Standing
from trunkline.ports.wire_log import Tap
from trunkline.protocol.cards import STANDARD, Form, Shape
from trunkline.protocol.dialects import Dialects
from trunkline.protocol.operations import PUSH, STREAMING
from trunkline.protocol.versions import Version
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.service import ListAnswer, TaskAnswer


class Limits(Struct, frozen=True, kw_only=True):
    max_body_bytes: int = 10 * 1024 * 1024
    max_json_depth: int = 64


class ServedAgent(Protocol):
    """A `PublishedAgent`, or an agent that another gateway has."""

    @property
    def handle(self) -> str: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def is_open(self) -> bool: ...


class Operations(Protocol):
    """The operations of A2A: those of a `Service`, or of one that answers in place of an agent. The
    agent of each call is that of the endpoint."""

    @property
    def large_values(self) -> LargeValues: ...

    async def send(
        self, agent: Any, caller: Caller, request: SendMessageRequest, /
    ) -> TaskAnswer | Reply: ...

    async def stream(
        self, agent: Any, caller: Caller, request: SendMessageRequest, /, *, is_whole: bool = False
    ) -> Subscription: ...

    async def get(self, agent: Any, caller: Caller, request: GetTaskRequest, /) -> bytes: ...

    async def list(
        self, agent: Any, caller: Caller, request: ListTasksRequest, /
    ) -> ListAnswer: ...

    async def cancel(self, agent: Any, caller: Caller, request: CancelTaskRequest, /) -> bytes: ...

    async def subscribe(
        self,
        agent: Any,
        caller: Caller,
        request: SubscribeToTaskRequest,
        /,
        *,
        last_seq: int | None = None,
        closes_on_input_required: bool = False,
        is_whole: bool = False,
    ) -> Subscription: ...


class Endpoint(Struct, kw_only=True, eq=False):
    agent: ServedAgent
    # What answers: the service of the runtime that holds the agent's tasks.
    service: Operations
    dialects: Dialects
    limits: Limits
    # Replaced while the gateway runs, if it follows the card of another agent.
    card: AgentCard
    # The card for authenticated callers; None when the agent has no such card.
    extended_card: AgentCard | None = None
    # The time of the last renewal of the card; 0 before the first one.
    renewed_ms: int = 0
    card_paths: tuple[str, ...]
    jsonrpc_path: str
    # None when the agent is not served over HTTP+JSON.
    rest_path: str | None
    # The tenants of the agent; empty means any tenant.
    tenants: frozenset[str] = frozenset()
    shape: Shape = STANDARD
    # What the registry of the hub says of the agent; None for one of the configuration.
    standing: Standing | None = None
    # While its exchanges are recorded or get faults.
    tap: Tap | None = None
    # The body of a 404 for a method that is not served here, where the error style has its own.
    not_found: bytes | None = None
    # Each handler takes the caller and the request. Operations that are not offered have no
    # handler.
    handlers: Mapping[Operation, Callable[..., Awaitable[Any]]] = {}
    # For each form of the card that clients asked for: the card, its bytes and their ETag.
    encoded_cards: dict[Form, tuple[AgentCard, bytes, str]] = {}

    def __post_init__(self) -> None:
        service, agent = self.service, self.agent
        self.handlers = {
            Operation.SEND_MESSAGE: partial(service.send, agent),
            Operation.SEND_STREAMING_MESSAGE: partial(service.stream, agent),
            Operation.GET_TASK: partial(service.get, agent),
            Operation.LIST_TASKS: partial(service.list, agent),
            Operation.CANCEL_TASK: partial(service.cancel, agent),
            Operation.SUBSCRIBE_TO_TASK: partial(service.subscribe, agent),
            Operation.GET_EXTENDED_AGENT_CARD: self._extended_card_for,
        }

    def withdraw(self) -> None:
        """Refuse the requests that have come and have not reached the agent yet."""
        self.handlers = dict.fromkeys(Operation, _refuse_withdrawn)

    def hand_over(self, successor: "Endpoint") -> None:
        """Pass the requests that have come and have not reached the agent yet to the successor."""
        self.handlers = successor.handlers

    async def _extended_card_for(self, caller: Caller, _: GetExtendedAgentCardRequest) -> AgentCard:
        if self.extended_card is None:
            raise GatewayBug("an extended card that is not offered was asked for")
        # A2A 1.0, 3.1.11: the extended card is for authenticated callers only, wherever they are.
        if caller.principal.is_anonymous:
            raise Unauthenticated("The extended agent card needs an API key")
        check_granted(
            caller.principal,
            self.agent.handle,
            Operation.GET_EXTENDED_AGENT_CARD,
            is_open=self.agent.is_open,
        )
        return self.extended_card

    def check_offered(self, operation: Operation, version: Version) -> None:
        """Raises for an operation whose capability is not on the card (A2A 1.0, 3.3.4)."""
        if operation in STREAMING:
            if not self.agent.profile.streaming:
                raise UnsupportedOperation(
                    "Streaming is not supported by this agent; use SendMessage and GetTask"
                )
        elif operation in PUSH:
            raise PushNotificationNotSupported("Push notifications are not supported by this agent")
        elif operation is Operation.GET_EXTENDED_AGENT_CARD and self.extended_card is None:
            # 0.3, 8.2 has a separate error for this. In 1.0 the card says whether there is an
            # extended card, so the operation is unsupported.
            refusal = (
                ExtendedAgentCardNotConfigured if version is Version.V0_3 else UnsupportedOperation
            )
            raise refusal("This agent has no extended agent card", case=Case.NO_EXTENDED_CARD)

    def check_tenant(self, tenant: str) -> None:
        if self.tenants and tenant not in self.tenants:
            raise unknown_tenant()

    def activate(self, listed: list[str]) -> tuple[str, ...]:
        """The extensions in use: those that the client lists and the agent declares.

        Raises ExtensionSupportRequired when the agent insists on one that is not listed.
        """
        declared = self.card.capabilities.extensions
        if not declared:
            return ()
        wanted = set(listed)
        missing = [e.uri for e in declared if e.required and e.uri not in wanted]
        if missing:
            raise ExtensionSupportRequired(
                f"This agent requires the extension {missing[0]}; "
                "list it in the A2A-Extensions header",
                metadata={"extensions": ", ".join(missing)},
            )
        return tuple(e.uri for e in declared if e.uri in wanted)


def unknown_tenant() -> InvalidParams:
    """The refusal of a tenant that the agent does not have, or that the caller does not belong
    to."""
    return InvalidParams.at("tenant", "names no tenant of this agent; take it from the agent card")


async def _refuse_withdrawn(*_: object, **__: object) -> Never:
    raise RouteNotFound("Nothing is served at this path any more; the agent was withdrawn")
