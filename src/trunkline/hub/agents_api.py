"""`AgentsApi`: the routes of agents, below `/api/v1/agents`."""

import heapq
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from trunkline.api.api import Call, Handler, Route
from trunkline.engine.access import reaches
from trunkline.hub.agent_cards import CARD_TEXTS, AgentCards, CardView
from trunkline.hub.agent_changes import AgentChanges, NewAgent
from trunkline.hub.agent_limits import LIMIT_TEXTS
from trunkline.hub.agent_views import AgentView, AgentViews, configured_id
from trunkline.hub.agents import (
    AgentRow,
    AgentValues,
    Status,
    fits,
    is_listed,
    may_know,
)
from trunkline.hub.registry import Registry
from trunkline.model.errors import InvalidParams, PermissionDenied, RouteNotFound
from trunkline.model.handles import folded
from trunkline.model.principal import Principal, manages
from trunkline.ports.directory import Directory, Listing

MAX_PAGE: Final = 200
_MAX_SEARCH_CHARS: Final = 200


class AgentQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    # Only agents that the caller manages, in any state but deleted.
    mine: bool = False
    owner: Annotated[str, Meta(max_length=64)] = ""
    # Words that occur in the handle, the name, the tagline, the description or the skills.
    q: Annotated[str, Meta(max_length=_MAX_SEARCH_CHARS)] = ""
    status: Status | None = None
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=400)] = ""


class AgentPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[AgentView]
    # Empty on the last page.
    next_page_token: str


class AgentPatch(AgentValues, frozen=True, kw_only=True, rename="camel"):
    # The version that the caller has read. An agent that was changed meanwhile gives 409.
    version: Annotated[int, Meta(ge=0)] = 0


class VersionQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    version: Annotated[int, Meta(ge=0)] = 0


def reading_routes(
    *, list_agents: Handler, get: Handler, get_by_handle: Handler, get_card: Handler
) -> Iterator[Route]:
    """The routes that read agents, which every gateway has."""
    yield Route(
        method="GET",
        path="/agents",
        name="list_agents",
        summary="List the agents that the caller may see, in the order of their handles.",
        handle=list_agents,
        query=AgentQuery,
        result=AgentPage,
        is_public=True,
    )
    yield Route(
        method="GET",
        path="/agents/by-handle/{owner}/{slug}",
        name="get_agent_by_handle",
        summary="Get an agent by its handle, whatever the case of its letters.",
        handle=get_by_handle,
        result=AgentView,
        is_public=True,
    )
    yield Route(
        method="GET",
        path="/agents/{id}",
        name="get_agent",
        summary="Get an agent.",
        handle=get,
        result=AgentView,
        is_public=True,
    )
    yield Route(
        method="GET",
        path="/agents/{id}/card",
        name="get_agent_card",
        summary="Get the card of an agent, with what checks of it found.",
        handle=get_card,
        result=CardView,
        texts=CARD_TEXTS,
        is_public=True,
    )


class ConfiguredAgentsApi:
    """The routes of agents at a gateway without a hub."""

    def __init__(self, directory: Directory, views: AgentViews, cards: AgentCards) -> None:
        self._directory = directory
        self._views = views
        self._cards = cards

    def routes(self) -> Iterator[Route]:
        yield from reading_routes(
            list_agents=self._list,
            get=self._get,
            get_by_handle=self._get_by_handle,
            get_card=self._get_card,
        )

    async def _list(self, call: Call) -> AgentPage:
        query: AgentQuery = call.query
        after = _key_of_token(query.page_token)
        listed = [each for each in self._directory.list() if may_see(each, call.principal)]
        found = [each for each in wanted(listed, query) if each[0] > after]
        page = heapq.nsmallest(query.page_size + 1, found, key=_first)
        token = ""
        if len(page) > query.page_size:
            page.pop()
            token = _token_of_key(page[-1][0])
        items = await self._views.of_configured([each for _, each in page], call.principal)
        return AgentPage(items=items, next_page_token=token)

    async def _get(self, call: Call) -> AgentView:
        return await self._one(call, lambda handle: configured_id(handle) == call.path["id"])

    async def _get_by_handle(self, call: Call) -> AgentView:
        wanted = folded(f"{call.path['owner']}/{call.path['slug']}")
        return await self._one(call, lambda handle: folded(handle) == wanted)

    async def _get_card(self, call: Call) -> CardView:
        return self._cards.of((await self._get(call)).handle)

    async def _one(self, call: Call, is_wanted: Callable[[str], bool]) -> AgentView:
        for listed in self._directory.list():
            if is_wanted(listed.handle) and may_see(listed, call.principal):
                return (await self._views.of_configured([listed], call.principal))[0]
        raise _unknown()


def may_see(listed: Listing, caller: Principal | None) -> bool:
    """Whether a caller may learn of an agent that has no row in a registry."""
    if listed.standing is None or not listed.standing.is_private:
        return True
    return caller is not None and reaches(caller, listed.handle, is_open=False)


def wanted(listed: Iterable[Listing], query: AgentQuery) -> list[tuple[str, Listing]]:
    """The agents of the configuration that a query asks for, by the keys of their order."""
    if query.mine or query.status not in (None, "published"):
        return []
    return [
        (folded(each.handle), each)
        for each in listed
        if (not query.owner or each.handle.partition("/")[0].lower() == query.owner.lower())
        and _occurs(query.q, f"{each.handle} {each.card.name} {each.card.description}")
    ]


class AgentsApi:
    def __init__(
        self, registry: Registry, changes: AgentChanges, views: AgentViews, cards: AgentCards
    ) -> None:
        self._cards = cards
        self._directory = cards.directory
        self._registry = registry
        self._changes = changes
        self._views = views

    def routes(self) -> Iterator[Route]:
        yield from reading_routes(
            list_agents=self._list,
            get=self._get,
            get_by_handle=self._get_by_handle,
            get_card=self._get_card,
        )
        yield Route(
            method="POST",
            path="/agents",
            name="create_agent",
            summary="Create an agent, or restore a deleted one with new values.",
            handle=self._create,
            body=NewAgent,
            texts=LIMIT_TEXTS,
            result=AgentView,
            status=201,
            errors=(409,),
        )
        yield Route(
            method="PATCH",
            path="/agents/{id}",
            name="change_agent",
            summary="Change members of an agent; those that are absent keep their values.",
            handle=self._change,
            body=AgentPatch,
            texts=LIMIT_TEXTS,
            result=AgentView,
            errors=(409,),
        )
        yield Route(
            method="DELETE",
            path="/agents/{id}",
            name="delete_agent",
            summary="Delete an agent. Its handle can be published again, with the tasks it had.",
            handle=self._delete,
            query=VersionQuery,
            errors=(409,),
        )

    async def _list(self, call: Call) -> AgentPage:
        query: AgentQuery = call.query
        await self._registry.current()
        after = _key_of_token(query.page_token)
        rows = await self._registry.first(
            query.page_size + 1, lambda row: _is_wanted(row, query, call.principal), after=after
        )
        listed = self._others(call.principal)
        others = [each for each in wanted(listed, query) if each[0] > after]
        found: list[tuple[str, AgentRow | Listing]] = [(row.key, row) for row in rows]
        found += others
        page = heapq.nsmallest(query.page_size + 1, found, key=_first)
        token = ""
        if len(page) > query.page_size:
            page.pop()
            token = _token_of_key(page[-1][0])
        return AgentPage(items=await self._shown(page, call.principal), next_page_token=token)

    async def _shown(
        self, page: list[tuple[str, AgentRow | Listing]], caller: Principal | None
    ) -> list[AgentView]:
        rows = [each for _, each in page if isinstance(each, AgentRow)]
        others = [each for _, each in page if isinstance(each, Listing)]
        views = await self._views.of(rows, caller) + await self._views.of_configured(others, caller)
        return sorted(views, key=lambda view: folded(view.handle))

    async def _get(self, call: Call) -> AgentView:
        await self._registry.current()
        agent_id = call.path["id"]
        row = self._registry.find(agent_id)
        if row is not None:
            return await self._one(row, call.principal)
        return await self._one_configured(call, lambda handle: configured_id(handle) == agent_id)

    async def _get_by_handle(self, call: Call) -> AgentView:
        await self._registry.current()
        handle = f"{call.path['owner']}/{call.path['slug']}"
        if configured := self._registry.configured(handle):
            return await self._one_configured(call, lambda each: each == configured)
        row = self._registry.at(handle)
        if row is None:
            return await self._one_configured(call, lambda each: folded(each) == folded(handle))
        return await self._one(row, call.principal)

    async def _one(self, row: AgentRow, caller: Principal | None) -> AgentView:
        if not may_know(row, caller):
            raise _unknown()
        return (await self._views.of([row], caller))[0]

    async def _one_configured(self, call: Call, is_wanted: Callable[[str], bool]) -> AgentView:
        for listed in self._others(call.principal):
            if is_wanted(listed.handle):
                return (await self._views.of_configured([listed], call.principal))[0]
        raise _unknown()

    def _others(self, caller: Principal | None) -> list[Listing]:
        """The agents of the configuration, and the temporary ones that the caller may see."""
        temporary = [
            each
            for each in self._directory.list()
            if each.standing is not None
            and self._registry.at(each.handle) is None
            and may_see(each, caller)
        ]
        return [*self._registry.listed(), *temporary]

    async def _get_card(self, call: Call) -> CardView:
        return self._cards.of((await self._get(call)).handle)

    async def _create(self, call: Call) -> AgentView:
        row = await self._changes.create(call.body, by=call.caller)
        return await self._one(row, call.caller)

    async def _change(self, call: Call) -> AgentView:
        body: AgentPatch = call.body
        row = await self._changes.change(
            self._finder(call), body, by=call.caller, version=body.version
        )
        return await self._one(row, call.caller)

    async def _delete(self, call: Call) -> None:
        await self._changes.delete(self._finder(call), by=call.caller, version=call.query.version)

    def _finder(self, call: Call) -> Callable[[], AgentRow]:
        """The row that a request names, at the moment at which it is asked."""
        agent_id, caller = call.path["id"], call.caller

        def find() -> AgentRow:
            row = self._registry.find(agent_id)
            if row is not None and may_know(row, caller):
                return row
            configured = (configured_id(each.handle) for each in self._registry.listed())
            if row is None and agent_id in configured:
                raise PermissionDenied("This agent is changed in the configuration of the gateway")
            raise _unknown()

        return find


def _is_wanted(row: AgentRow, query: AgentQuery, caller: Principal | None) -> bool:
    if query.owner and row.owner.lower() != query.owner.lower():
        return False
    if not may_know(row, caller) or not is_listed(row, caller):
        return False
    is_own = caller is not None and manages(caller, row.owner)
    if query.mine and not is_own:
        return False
    if query.status is not None:
        return row.status == query.status and fits(row, query.q)
    return row.status != "deleted" and fits(row, query.q)


def _occurs(words: str, text: str) -> bool:
    return all(word in text.casefold() for word in words.casefold().split())


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _token_of_key(key: str) -> str:
    return urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _key_of_token(token: str) -> str:
    try:
        return b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
    except (NotBase64, ValueError):
        raise InvalidParams.at("pageToken", "is not one of this list") from None


def _unknown() -> RouteNotFound:
    return RouteNotFound("There is no such agent")
