"""`VisitsApi`: the routes of visits, below `/api/v1/visits`."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct, field

from trunkline.api.api import Call, Route
from trunkline.hub.agent_views import AgentView, AgentViews
from trunkline.hub.visits import Visit, Visits
from trunkline.model.errors import RouteNotFound
from trunkline.model.principal import Principal
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.directory import Directory

_TEXTS = {
    "NewVisit.url": "The base URL of the agent, or the URL of its card.",
    "NewVisit.headers": "Headers of every request to it. They are secrets, which no answer shows.",
    "VisitView.agent": "The agent, as it is published here.",
    "VisitView.url": "Where the agent is.",
    "VisitView.beganAt": "When it was published.",
}


class NewVisit(Struct, frozen=True, kw_only=True):
    """An agent elsewhere to publish for a while."""

    url: Annotated[str, Meta(min_length=1, max_length=2000)]
    headers: Annotated[dict[str, Annotated[str, Meta(max_length=8192)]], Meta(max_length=20)] = (
        field(default_factory=dict)
    )

    def __repr__(self) -> str:
        return f"NewVisit(url={self.url!r})"


class VisitView(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent elsewhere that is published here until the gateway stops."""

    agent: AgentView
    url: str
    began_at: str


class VisitPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[VisitView]
    # Always empty, because there are few of them.
    next_page_token: str = ""


class VisitsApi:
    def __init__(self, visits: Visits, directory: Directory, views: AgentViews) -> None:
        self._visits = visits
        self._directory = directory
        self._views = views

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/visits",
            name="list_visits",
            summary="List the agents elsewhere that are published for a while.",
            description="Only operators may do this.",
            handle=self._list,
            result=VisitPage,
            texts=_TEXTS,
        )
        yield Route(
            method="POST",
            path="/visits",
            name="begin_visit",
            summary="Publish an agent elsewhere as `visit/NAME`, until the gateway stops.",
            description="Only operators may do this, where `visits` in `[console]` allows it. An "
            "agent that is visited already gets the new headers.",
            handle=self._begin,
            body=NewVisit,
            example=NewVisit(url="https://agent.example"),
            result=VisitView,
            status=201,
            errors=(409,),
            texts=_TEXTS,
        )
        yield Route(
            method="DELETE",
            path="/visits/{slug}",
            name="end_visit",
            summary="Withdraw an agent that was visited. Its tasks stay.",
            description="Only operators may do this.",
            handle=self._end,
        )

    async def _list(self, call: Call) -> VisitPage:
        caller = call.require_operator()
        return VisitPage(items=[await self._view(each, caller) for each in self._visits.list()])

    async def _begin(self, call: Call) -> VisitView:
        caller = call.require_operator()
        visit = await self._visits.begin(call.body.url, call.body.headers)
        return await self._view(visit, caller)

    async def _end(self, call: Call) -> None:
        call.require_operator()
        await self._visits.end(call.path["slug"])

    async def _view(self, visit: Visit, caller: Principal) -> VisitView:
        listed = self._directory.find(visit.handle)
        if listed is None:
            raise RouteNotFound("There is no such visit")
        (agent,) = await self._views.of_configured([listed], caller)
        return VisitView(agent=agent, url=visit.url, began_at=format_timestamp(visit.began_ms))
