"""A published agent at one set of addresses."""

from msgspec import Struct

from trunkline.model.card import AgentCard
from trunkline.model.errors import ExtensionSupportRequired, InvalidParams
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.spoken import Spoken
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.service import Service
from trunkline.server.exchange import Limits


class Endpoint(Struct, kw_only=True, eq=False):
    agent: PublishedAgent
    # Of the runtime that holds the agent's tasks.
    service: Service
    spoken: Spoken
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
