"""`GrantsApi`: the routes of grants, below `/api/v1/agents/{id}/grants`."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.hub.grants import Granted, Grants
from trunkline.hub.noted import Noted, not_noted
from trunkline.hub.token_values import OPERATIONS
from trunkline.model.errors import InvalidParams, RouteNotFound
from trunkline.model.principal import Principal
from trunkline.model.timestamps import format_timestamp

MAX_PAGE: Final = 200
# `user:LOGIN`, `token:NAME`, and the forms of other authenticators and of API keys.
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][!-.0-~]{0,199}")

# The handle of an agent, by its id, for a caller that may manage its grants; else None.
FindAgent: TypeAlias = Callable[[str, Principal], str | None]


class NewGrant(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    # Operations of A2A by their names; null for all.
    methods: (
        Annotated[
            tuple[Annotated[str, Meta(max_length=64)], ...], Meta(min_length=1, max_length=20)
        ]
        | None
    ) = None


class GrantQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=200)] = ""


class GrantView(Struct, frozen=True, kw_only=True, rename="camel"):
    principal: str
    agent: str
    methods: tuple[str, ...] | None
    granted_at: str
    granted_by: str


class GrantPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[GrantView]
    # Empty on the last page.
    next_page_token: str


class GrantsApi:
    def __init__(self, grants: Grants, *, find: FindAgent, noted: Noted = not_noted) -> None:
        self._noted = noted
        self._grants = grants
        self._find = find

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/agents/{id}/grants",
            name="list_grants",
            summary="List who may call the agent by a grant.",
            handle=self._list,
            query=GrantQuery,
            result=GrantPage,
        )
        yield Route(
            method="PUT",
            path="/agents/{id}/grants/{principal}",
            name="give_grant",
            summary="Let a person or a service call the agent, from its next request on.",
            description="A principal is `user:LOGIN` for a person and `token:NAME` for a service.",
            handle=self._give,
            body=NewGrant,
            result=GrantView,
        )
        yield Route(
            method="DELETE",
            path="/agents/{id}/grants/{principal}",
            name="take_grant",
            summary="Take a grant away.",
            description="When the answer comes, no node lets the principal in by it.",
            handle=self._take,
        )

    async def _list(self, call: Call) -> GrantPage:
        query: GrantQuery = call.query
        found = await self._grants.to(
            self._agent(call), after=query.page_token, limit=query.page_size + 1
        )
        items = [_view(each) for each in found[: query.page_size]]
        has_more = len(found) > len(items)
        return GrantPage(items=items, next_page_token=items[-1].principal if has_more else "")

    async def _give(self, call: Call) -> GrantView:
        agent, principal = self._agent(call), call.path["principal"]
        new: NewGrant = call.body
        if not _PRINCIPAL.fullmatch(principal):
            raise InvalidParams.at("principal", "is not one; an example is user:LOGIN")
        for index, method in enumerate(new.methods or ()):
            if method not in OPERATIONS:
                raise InvalidParams.at(
                    f"methods[{index}]",
                    f"is not an operation; name {', '.join(sorted(OPERATIONS))}",
                )
        given = await self._grants.give(
            agent,
            principal,
            methods=new.methods,
            by=call.caller.id,
            also=self._noted(call.caller, "grant.give", agent, principal),
        )
        return _view(given)

    async def _take(self, call: Call) -> None:
        agent, principal = self._agent(call), call.path["principal"]
        also = self._noted(call.caller, "grant.take", agent, principal)
        await self._grants.take(agent, principal, also=also)

    def _agent(self, call: Call) -> str:
        handle = self._find(call.path["id"], call.caller)
        if handle is None:
            # Also for one that the caller may call: the id tells no more than the agent does.
            raise RouteNotFound("There is no such agent")
        return handle


def _view(granted: Granted) -> GrantView:
    return GrantView(
        principal=granted.principal,
        agent=granted.agent,
        methods=granted.given.methods,
        granted_at=format_timestamp(granted.given.granted_ms),
        granted_by=granted.given.granted_by,
    )
