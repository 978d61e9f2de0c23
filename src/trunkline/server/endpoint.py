"""A published agent at one set of addresses."""

from msgspec import Struct

from trunkline.model.card import AgentCard
from trunkline.model.errors import (
    Case,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    InvalidParams,
    PushNotificationNotSupported,
    UnsupportedOperation,
)
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.dialects import Dialects
from trunkline.protocol.operations import PUSH, STREAMING, Operation
from trunkline.protocol.versions import Version
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.service import Service
from trunkline.server.exchange import Limits


class Endpoint(Struct, kw_only=True, eq=False):
    agent: PublishedAgent
    # Of the runtime that holds the agent's tasks.
    service: Service
    dialects: Dialects
    limits: Limits
    # Renewed while it is served, where it follows that of another agent.
    card: AgentCard
    # What only authenticated callers get to see; None when the agent has no such card.
    extended_card: AgentCard | None = None
    # When the card was renewed; 0 as long as it is that of the start.
    renewed_ms: int = 0
    card_paths: tuple[str, ...]
    jsonrpc_path: str
    # None: the agent is not served over HTTP+JSON.
    rest_path: str | None
    # Empty: any tenant.
    tenants: frozenset[str] = frozenset()
    shape: Shape = STANDARD
    # With the error style of OpenClaw: what its routes answer where nothing is served.
    not_found: bytes | None = None

    @property
    def streams(self) -> bool:
        return self.agent.profile.streaming

    def check_offered(self, operation: Operation, version: Version) -> None:
        """Raises for an operation whose capability is not on the card (A2A 1.0, 3.3.4)."""
        if operation in STREAMING:
            if not self.streams:
                raise UnsupportedOperation(
                    "Streaming is not supported by this agent; use SendMessage and GetTask"
                )
        elif operation in PUSH:
            raise PushNotificationNotSupported("Push notifications are not supported by this agent")
        elif operation is Operation.GET_EXTENDED_AGENT_CARD and self.extended_card is None:
            # 0.3, 8.2 has one error for it. In 1.0 the card says whether there is one, and asking
            # in spite of that is unsupported.
            refusal = (
                ExtendedAgentCardNotConfigured if version is Version.V0_3 else UnsupportedOperation
            )
            raise refusal("This agent has no extended agent card", case=Case.NO_EXTENDED_CARD)

    def check_tenant(self, tenant: str) -> None:
        if self.tenants and tenant not in self.tenants:
            raise InvalidParams.at(
                "tenant", "names no tenant of this agent; take it from the agent card"
            )

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
