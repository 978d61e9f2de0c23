"""`TokenChanges`: what people and operators do with tokens, over HTTP and on the machine."""

from collections.abc import Sequence

from msgspec import Struct

from trunkline.hub.noted import Noted, not_noted
from trunkline.hub.token_requests import (
    NewToken,
    Rotation,
    TokenView,
    plan,
    require_manager,
    view_of,
)
from trunkline.hub.tokens import Issued, Listed, Tokens
from trunkline.model.errors import Conflict, InvalidRequest, PermissionDenied, RouteNotFound
from trunkline.model.principal import OPERATOR, Principal
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock


class IssuedToken(Struct, frozen=True, kw_only=True, rename="camel"):
    # Shown once: the gateway keeps only its digest.
    token: str
    id: str
    prefix: str
    expires_at: str | None

    def __repr__(self) -> str:
        return f"IssuedToken(id={self.id!r})"


class TokenChanges:
    """A caller sees its own tokens, an operator those of all. Others are like unknown ones."""

    def __init__(self, tokens: Tokens, *, clock: Clock, noted: Noted = not_noted) -> None:
        self.tokens = tokens
        self._clock = clock
        self._noted = noted

    async def create(self, new: NewToken, *, by: Principal) -> IssuedToken:
        """Raises InvalidParams, PermissionDenied, Conflict and StoreError."""
        planned = plan(new, by)
        issued = await self.tokens.issue(
            kind="key",
            name=new.name,
            principal=planned.principal,
            grants=planned.grants,
            scopes=new.scopes,
            agents=planned.agents,
            methods=planned.methods,
            reaches_open=planned.reaches_open,
            roles=planned.roles,
            tenant=planned.tenant,
            expires_in_s=new.expires_in_seconds,
            created_by=by.id,
            # Other changes of tokens go through `RecordChanges`, which notes them in the audit.
            also=self._noted(by, "token.create", planned.principal, new.name),
        )
        return _shown(issued)

    async def page(
        self, *, by: Principal, principal: str, after: str, limit: int
    ) -> Sequence[TokenView]:
        """Raises PermissionDenied and StoreError."""
        require_manager(by)
        if OPERATOR not in by.roles:
            if principal not in ("", by.id):
                raise PermissionDenied("Only operators see the tokens of others")
            principal = by.id
        found = await self.tokens.list(principal=principal, after=after, limit=limit)
        return [self.view(each, by) for each in found]

    def view(self, listed: Listed, by: Principal) -> TokenView:
        return view_of(
            listed.token,
            now_ms=self._clock.now_ms(),
            used_ms=listed.used_ms,
            current_id=by.token,
        )

    async def revoke(self, name: str, *, by: Principal) -> None:
        """`name` is an id or the prefix that lists show. Raises RouteNotFound, PermissionDenied,
        Conflict and StoreError."""
        require_manager(by)
        found = await self.find(name, by=by)
        if found.token.id == by.token:
            raise Conflict(
                "This is the credential of the request itself; sign out, or use another one"
            )
        await self.tokens.revoke(found.token.id)

    async def revoke_any(self, name: str, *, by: Principal) -> str:
        """The same for an operator on the machine, who has no session; returns the id."""
        found = await self.find(name, by=by)
        await self.tokens.revoke(found.token.id)
        return found.token.id

    async def rotate(self, name: str, rotation: Rotation, *, by: Principal) -> IssuedToken:
        """A program may rotate its own key whatever its scopes are, because the new one allows
        nothing more. Raises RouteNotFound, PermissionDenied, InvalidRequest, Conflict and
        StoreError."""
        if not by.token:
            require_manager(by)
        found = await self.find(name, by=by)
        token = found.token
        if token.id != by.token:
            require_manager(by)
            if OPERATOR not in by.roles and by.within is not None:
                raise PermissionDenied(
                    "This credential is limited to certain agents or operations, so it may rotate "
                    "only itself"
                )
        if token.kind != "key":
            raise InvalidRequest(
                f"Only keys are rotated, and this is a token of kind {token.kind}; sign in again"
            )
        if rotation.expires_in_seconds is not None and not by.roles:
            raise PermissionDenied(
                "Only a credential with the scope admin may say how long the new key is valid"
            )
        issued = await self.tokens.rotate(
            token.id,
            overlap_s=rotation.overlap_seconds,
            expires_in_s=rotation.expires_in_seconds,
        )
        return _shown(issued)

    async def find(self, name: str, *, by: Principal) -> Listed:
        """Raises RouteNotFound, Conflict and StoreError."""
        found = [each for each in await self.tokens.named(name) if _may_know(each, by)]
        if not found:
            raise RouteNotFound("There is no such token")
        if len(found) > 1:
            raise Conflict("Several tokens begin like this; name one by its id")
        return found[0]


def _may_know(listed: Listed, by: Principal) -> bool:
    return OPERATOR in by.roles or listed.token.principal == by.id


def _shown(issued: Issued) -> IssuedToken:
    return IssuedToken(
        token=issued.token,
        id=issued.id,
        prefix=issued.prefix,
        expires_at=None if issued.expires_ms is None else format_timestamp(issued.expires_ms),
    )
