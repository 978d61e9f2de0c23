"""`KnowsAgents`: how the routes of the console find the agents of the gateway."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from trunkline.model.errors import RouteNotFound


class AgentName(Struct, frozen=True, kw_only=True):
    """The id of an agent, as `GET /agents` has it, and its handle."""

    id: str
    handle: str


class KnowsAgents(Protocol):
    def list(self) -> Sequence[AgentName]:
        """All published agents."""
        ...

    async def find(self, agent_id: str) -> AgentName | None:
        """None for an id that no agent has. Raises StoreError."""
        ...


async def agent_of(agents: KnowsAgents, agent_id: str) -> AgentName:
    """Raises RouteNotFound."""
    agent = await agents.find(agent_id)
    if agent is None:
        raise RouteNotFound("There is no such agent")
    return agent
