"""`CallsApi`: the routes of calls between agents, below `/api/v1/calls`."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.ports.call_views import (
    CallDetails,
    CallFilter,
    CallStatus,
    CallView,
    ListsCalls,
)

MAX_PAGE: Final = 200


class CallQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=128)] = ""
    callee: Annotated[str, Meta(max_length=128)] = ""
    status: CallStatus | None = None
    principal: Annotated[str, Meta(max_length=200)] = ""
    tenant: Annotated[str, Meta(max_length=200)] = ""
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")] = ""


class CallPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[CallView]
    # Empty on the last page.
    next_page_token: str


class CallsApi:
    def __init__(self, calls: ListsCalls) -> None:
        self._calls = calls

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/calls",
            name="list_calls",
            summary="List calls of agents to agents: the caller's own, for operators those of all.",
            description="Calls under way, and those that ended so recently that their outcome is "
            "kept, in the order of their ids. That is the order of time, the last call first, "
            "except for calls of routes.",
            handle=self._list,
            query=CallQuery,
            result=CallPage,
        )
        yield Route(
            method="GET",
            path="/calls/{id}",
            name="get_call",
            summary="Get a call by its correlation id, with its outcome.",
            handle=self._get,
            result=CallDetails,
        )

    async def _list(self, call: Call) -> CallPage:
        query: CallQuery = call.query
        wanted = CallFilter(
            agent=query.agent,
            callee=query.callee,
            status=query.status,
            principal=query.principal,
            tenant=query.tenant,
            after=query.page_token,
            limit=query.page_size,
        )
        items, after = await self._calls.page(wanted, by=call.caller)
        return CallPage(items=items, next_page_token=after)

    async def _get(self, call: Call) -> CallDetails:
        return await self._calls.find(call.path["id"], by=call.caller)
