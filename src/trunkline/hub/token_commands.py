"""`TokenCommands`: what operators on the machine do with tokens."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from trunkline.hub.agent_commands import LOCAL_OPERATOR
from trunkline.hub.token_changes import IssuedToken, TokenChanges
from trunkline.hub.token_explain import AgentFacts, Explanation, explain
from trunkline.hub.token_requests import NewToken, Rotation, TokenView
from trunkline.hub.token_values import OPERATIONS
from trunkline.model.errors import InvalidParams
from trunkline.ports.clock import Clock


class ListTokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    principal: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 500


class TokenList(Struct, frozen=True, kw_only=True):
    items: list[TokenView]
    has_more: bool


class NameToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # The id, or the prefix that lists show.
    name: str


class RotateToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    rotation: Rotation = Rotation()


class ExplainToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    agent: str
    operation: str = "SendMessage"


class TokenCommands(Struct, frozen=True, kw_only=True):
    changes: TokenChanges
    # What decides about the agent of a handle; None for one that is unknown.
    agent: Callable[[str], AgentFacts | None]
    clock: Clock

    async def create(self, given: NewToken) -> IssuedToken:
        return await self.changes.create(given, by=LOCAL_OPERATOR)

    async def list(self, given: ListTokens) -> TokenList:
        found = await self.changes.page(
            by=LOCAL_OPERATOR,
            principal=given.principal,
            after=given.after,
            limit=given.limit + 1,
        )
        return TokenList(items=[*found[: given.limit]], has_more=len(found) > given.limit)

    async def revoke(self, given: NameToken) -> TokenView:
        return await self._view(await self.changes.revoke_any(given.name, by=LOCAL_OPERATOR))

    async def rotate(self, given: RotateToken) -> IssuedToken:
        return await self.changes.rotate(given.name, given.rotation, by=LOCAL_OPERATOR)

    async def explain(self, given: ExplainToken) -> Explanation:
        if given.operation not in OPERATIONS:
            known = ", ".join(sorted(OPERATIONS))
            raise InvalidParams.at("operation", f"is not an operation; name one of {known}")
        found = await self.changes.find(given.name, by=LOCAL_OPERATOR)
        token = found.token
        return explain(
            token,
            self.changes.view(found, LOCAL_OPERATOR),
            await self.changes.tokens.principal(token),
            self.agent(given.agent),
            handle=given.agent,
            operation=given.operation,
            has_ended_parent=not await self.changes.tokens.has_active_parents(token),
            now_ms=self.clock.now_ms(),
        )

    async def _view(self, token_id: str) -> TokenView:
        return self.changes.view(await self.changes.tokens.find(token_id), LOCAL_OPERATOR)
