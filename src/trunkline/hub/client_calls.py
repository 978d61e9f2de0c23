"""`HubCalls`: the calls of a hub, one for each of its routes.

Written by tools/gen_hub_client.py from the table of routes; run it after a change of a route.
"""

from typing import Any, Literal

from trunkline.hub.about_api import Index
from trunkline.hub.agent_changes import NewAgent
from trunkline.hub.agent_views import AgentView
from trunkline.hub.agents_api import AgentPage, AgentPatch, AgentQuery, VersionQuery
from trunkline.hub.audit_api import InboundQuery
from trunkline.hub.client_http import HubHttp, path_of
from trunkline.hub.inbound import InboundReport
from trunkline.hub.sign_in_api import Me


class HubCalls:
    def __init__(self, http: HubHttp) -> None:
        self._http = http

    async def change_agent(self, id: str, body: AgentPatch) -> AgentView:
        """Change members of an agent; those that are absent keep their values."""
        return await self._http.value(AgentView, "PATCH", path_of("/agents/{id}", id=id), body=body)

    async def create_agent(self, body: NewAgent) -> AgentView:
        """Create an agent, or restore a deleted one with new values."""
        return await self._http.value(AgentView, "POST", "/agents", body=body)

    async def delete_agent(self, id: str, *, version: int = 0) -> None:
        """Delete an agent. Its handle can be published again, with the tasks it had."""
        await self._http.nothing(
            "DELETE", path_of("/agents/{id}", id=id), query=VersionQuery(version=version)
        )

    async def get_agent(self, id: str) -> AgentView:
        """Get an agent."""
        return await self._http.value(AgentView, "GET", path_of("/agents/{id}", id=id))

    async def get_agent_by_handle(self, owner: str, slug: str) -> AgentView:
        """Get an agent by its handle, whatever the case of its letters."""
        return await self._http.value(
            AgentView, "GET", path_of("/agents/by-handle/{owner}/{slug}", owner=owner, slug=slug)
        )

    async def get_inbound(self, id: str, *, days: int = 7) -> InboundReport:
        """Report who has called an agent in the last days, and how that ended."""
        return await self._http.value(
            InboundReport,
            "GET",
            path_of("/agents/{id}/inbound", id=id),
            query=InboundQuery(days=days),
        )

    async def get_index(self) -> Index:
        """Show what is served here."""
        return await self._http.value(Index, "GET", "")

    async def get_openapi(self) -> dict[str, Any]:
        """Get this reference as an OpenAPI document."""
        return await self._http.value(dict[str, Any], "GET", "/openapi.json")

    async def get_reference(self) -> str:
        """Get this reference as a page."""
        return await self._http.text("GET", "/reference")

    async def list_agents(
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
        return await self._http.value(
            AgentPage,
            "GET",
            "/agents",
            query=AgentQuery(
                mine=mine,
                owner=owner,
                q=q,
                status=status,
                page_size=page_size,
                page_token=page_token,
            ),
        )

    async def me(self) -> Me:
        """The caller."""
        return await self._http.value(Me, "GET", "/auth/me")

    async def sign_in_page(self) -> str:
        """The form for login and password, or who is signed in."""
        return await self._http.text("GET", "/auth/sign-in")

    async def sign_out(self) -> None:
        """Revoke the session, and clear its cookie."""
        await self._http.nothing("POST", "/auth/sign-out")
