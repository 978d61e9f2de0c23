"""`V1Agents`: agents of protocol v1 at the relay, served by the bindings of the server."""

from typing import Final

from trunkline.app.relay.answers import RelayAnswers
from trunkline.background import BackgroundTasks
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.protocol import card_reading
from trunkline.protocol.relay.addresses import path_of
from trunkline.protocol.relay.v1.cards import card_at_relay
from trunkline.protocol.versions import Version
from trunkline.relay.known_agents import KnownAgents
from trunkline.relay.requests import RelayedRequest
from trunkline.relay.v1.agent import V1Agent
from trunkline.relay.v1.connection import V1Connection
from trunkline.relay.v1.operations import V1Operations
from trunkline.relay.v1.tasks import V1Tasks
from trunkline.runtime.large_values import LargeValues

_NO_CARD: Final = b"{}"
# It is kept in memory and in the store.
MAX_CARD_BYTES: Final = 128 * 1024


class V1Agents:
    def __init__(
        self,
        answers: RelayAnswers,
        *,
        store: Store,
        large_values: LargeValues,
        known: KnownAgents,
        base_url: str,
        clock: Clock,
    ) -> None:
        self._known = known
        self._answers = answers
        self._store = store
        self._large_values = large_values
        self._base_url = base_url
        self._clock = clock
        self._followed = BackgroundTasks("tasks of older agents")

    async def close(self) -> None:
        await self._followed.close()

    def make(self, agent: str, connection: V1Connection, card: bytes) -> V1Agent:
        """Raises ValueError for a card that cannot be served."""
        url = f"{self._base_url}{path_of(agent)}"
        card = card if card.strip() != b"null" else _NO_CARD
        served = card_at_relay(card, name=agent.partition("/")[2], url=url)
        if len(served) > MAX_CARD_BYTES:
            raise ValueError(f"the card has more than {MAX_CARD_BYTES} bytes")
        operations = V1Operations(
            agent,
            connection,
            version=_version_of(card),
            tasks=V1Tasks(self._store, agent),
            large_values=self._large_values,
            background=self._followed,
            clock=self._clock,
        )
        return V1Agent(
            agent,
            operations,
            card=served,
            decoded_card=_decoded(served),
            bindings=self,
            known=self._known,
            clock=self._clock,
        )

    async def serve(
        self, request: RelayedRequest, operations: V1Operations, card: AgentCard | None, /
    ) -> None:
        endpoint = self._answers.endpoint(request.address.agent, operations, card)
        endpoint.extended_card = card
        await self._answers.serve(request, endpoint)


def _decoded(card: bytes) -> AgentCard | None:
    # Clients get the bytes, and may read what the relay does not.
    try:
        return card_reading.decode(card)
    except InvalidAgentResponse:
        return None


def _version_of(card: bytes) -> Version:
    """The version that the agent reads: 0.3, unless its card names only others."""
    own = _decoded(card)
    versions = set() if own is None else set(map(card_reading.version_of, own.supported_interfaces))
    return Version.V1_0 if versions == {Version.V1_0} else Version.V0_3
