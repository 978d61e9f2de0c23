"""`TokensApi`: the routes of tokens, below `/api/v1/tokens`."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.hub.token_changes import IssuedToken, TokenChanges
from trunkline.hub.token_requests import NewToken, Rotation, TokenView
from trunkline.hub.token_values import ID
from trunkline.model.errors import InvalidParams

MAX_PAGE: Final = 200


class TokenQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    # Only tokens of this principal. Callers that are no operators see only their own.
    principal: Annotated[str, Meta(max_length=200)] = ""
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=64)] = ""


class TokenPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[TokenView]
    # Empty on the last page.
    next_page_token: str


class TokensApi:
    def __init__(self, changes: TokenChanges) -> None:
        self._changes = changes

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/tokens",
            name="list_tokens",
            summary="List sessions and keys: the caller's own, for operators those of all.",
            handle=self._list,
            query=TokenQuery,
            result=TokenPage,
        )
        yield Route(
            method="POST",
            path="/tokens",
            name="create_token",
            summary="Create a key. The answer is the only place where it is shown.",
            description="Operators create keys of services, each a principal of its own. Other "
            "people create keys of their own, which reach what the person reaches or less.",
            handle=self._create,
            body=NewToken,
            example=NewToken(name="ci", agents=("acme/rust-expert",), expires_in_seconds=2592000),
            result=IssuedToken,
            status=201,
            errors=(409,),
        )
        yield Route(
            method="DELETE",
            path="/tokens/{id}",
            name="revoke_token",
            summary="Revoke a session or a key, by its id or its prefix.",
            description="When the answer comes, every node refuses the token, and all tokens that "
            "were given for it.",
            handle=self._revoke,
            errors=(409,),
        )
        yield Route(
            method="POST",
            path="/tokens/{id}/rotate",
            name="rotate_token",
            summary="Replace a key by a new one, and let both count for a while.",
            handle=self._rotate,
            body=Rotation,
            result=IssuedToken,
            errors=(409,),
        )

    async def _list(self, call: Call) -> TokenPage:
        query: TokenQuery = call.query
        if query.page_token and not ID.fullmatch(query.page_token):
            raise InvalidParams.at("pageToken", "is not from an answer of this address")
        found = await self._changes.page(
            by=call.caller,
            principal=query.principal,
            after=query.page_token,
            limit=query.page_size + 1,
        )
        items = [*found[: query.page_size]]
        has_more = len(found) > len(items)
        return TokenPage(items=items, next_page_token=items[-1].id if has_more else "")

    async def _create(self, call: Call) -> IssuedToken:
        new: NewToken = call.body
        return await self._changes.create(new, by=call.caller)

    async def _revoke(self, call: Call) -> None:
        await self._changes.revoke(call.path["id"], by=call.caller)

    async def _rotate(self, call: Call) -> IssuedToken:
        rotation: Rotation = call.body
        return await self._changes.rotate(call.path["id"], rotation, by=call.caller)
