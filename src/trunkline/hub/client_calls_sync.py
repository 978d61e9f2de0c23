"""`SyncHubCalls`: the calls of a hub for programs without asyncio.

Written by tools/gen_hub_client.py from the table of routes; run it after a change of a route.
"""

from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from trunkline.hub.about_api import Index
from trunkline.hub.agent_changes import NewAgent
from trunkline.hub.agent_views import AgentView
from trunkline.hub.agents_api import AgentPage, AgentPatch
from trunkline.hub.client_calls import HubCalls
from trunkline.hub.inbound import InboundReport
from trunkline.hub.sign_in_api import Me

T = TypeVar("T")


class SyncHubCalls:
    def __init__(self, calls: HubCalls) -> None:
        self._calls = calls

    @abstractmethod
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def change_agent(self, id: str, body: AgentPatch) -> AgentView:
        """Change members of an agent; those that are absent keep their values."""
        return self._run(self._calls.change_agent(id, body))

    def create_agent(self, body: NewAgent) -> AgentView:
        """Create an agent, or restore a deleted one with new values."""
        return self._run(self._calls.create_agent(body))

    def delete_agent(self, id: str, *, version: int = 0) -> None:
        """Delete an agent. Its handle can be published again, with the tasks it had."""
        self._run(self._calls.delete_agent(id, version=version))

    def get_agent(self, id: str) -> AgentView:
        """Get an agent."""
        return self._run(self._calls.get_agent(id))

    def get_agent_by_handle(self, owner: str, slug: str) -> AgentView:
        """Get an agent by its handle, whatever the case of its letters."""
        return self._run(self._calls.get_agent_by_handle(owner, slug))

    def get_inbound(self, id: str, *, days: int = 7) -> InboundReport:
        """Report who has called an agent in the last days, and how that ended."""
        return self._run(self._calls.get_inbound(id, days=days))

    def get_index(self) -> Index:
        """Show what is served here."""
        return self._run(self._calls.get_index())

    def get_openapi(self) -> dict[str, Any]:
        """Get this reference as an OpenAPI document."""
        return self._run(self._calls.get_openapi())

    def get_reference(self) -> str:
        """Get this reference as a page."""
        return self._run(self._calls.get_reference())

    def list_agents(
        self,
        *,
        mine: bool = False,
        owner: str = "",
        q: str = "",
        status: Literal["deleted", "draft", "published"] | None = None,
        page_size: int = 50,
        page_token: str = "",
    ) -> AgentPage:
        """List the agents that the caller may see, in the order of their handles."""
        return self._run(
            self._calls.list_agents(
                mine=mine,
                owner=owner,
                q=q,
                status=status,
                page_size=page_size,
                page_token=page_token,
            )
        )

    def me(self) -> Me:
        """The caller."""
        return self._run(self._calls.me())

    def sign_in_page(self) -> str:
        """The form for login and password, or who is signed in."""
        return self._run(self._calls.sign_in_page())

    def sign_out(self) -> None:
        """Revoke the session, and clear its cookie."""
        self._run(self._calls.sign_out())
