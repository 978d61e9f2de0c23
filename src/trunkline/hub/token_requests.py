"""`NewToken`: the request for a token, and the rules about who may have which."""

import re
from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.hub.token_values import OPERATIONS, Scope, Token
from trunkline.model.errors import InvalidParams, PermissionDenied
from trunkline.model.handles import HANDLE, OWNER
from trunkline.model.principal import OPERATOR, Grant, Principal
from trunkline.model.timestamps import format_timestamp

# The name is part of the principal, `token:NAME`.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
MAX_EXPIRES_S: Final = 10 * 366 * 24 * 3600
MAX_OVERLAP_S: Final = 30 * 24 * 3600
_PERSON: Final = "user:"

_Patterns = Annotated[tuple[Annotated[str, Meta(max_length=130)], ...], Meta(max_length=100)]
_Methods = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=20)]


class NewToken(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    # `read` and `call` allow operations of A2A, `admin` to manage agents and tokens.
    scopes: Annotated[tuple[Scope, ...], Meta(max_length=3)] = ("call",)
    # Handles, `owner/*` or `*`. Of a service: the agents that it may call. Of a person's own key:
    # those among the person's.
    agents: _Patterns = ()
    # Operations of A2A by their names, such as `SendMessage`; without, all that the scopes allow.
    methods: _Methods = ()
    # Of a service: whether it may also call every agent that is public or unlisted.
    open: bool = False
    # Of a service with the scope `admin`: the owner whose agents it manages; without, all agents.
    owner: Annotated[str, Meta(max_length=64)] = ""
    # Whether it is a key of the caller's own, and not of a service. People who are no operators
    # have only those.
    personal: bool = False
    expires_in_seconds: Annotated[int, Meta(ge=1, le=MAX_EXPIRES_S)] | None = None


class Rotation(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    # For how long the old token stays valid.
    overlap_seconds: Annotated[int, Meta(ge=0, le=MAX_OVERLAP_S)] = 0
    # Without: as long as the old one was given for.
    expires_in_seconds: Annotated[int, Meta(ge=1, le=MAX_EXPIRES_S)] | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What a new token allows."""

    principal: str
    tenant: str = ""
    grants: tuple[Grant, ...] = ()
    reaches_open: bool = False
    roles: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None


class TokenView(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    kind: str
    name: str
    principal: str
    # The beginning of the token.
    prefix: str
    # active, expired or revoked
    status: str
    scopes: tuple[Scope, ...]
    # What the token is limited to; null for no limit.
    agents: tuple[str, ...] | None
    methods: tuple[str, ...] | None
    open: bool
    # `operator`, or `owner:NAME` for the agents that it manages.
    roles: tuple[str, ...]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    # To the minute; null if it was never used.
    last_used_at: str | None
    # The id of the token that took its place, or an empty text.
    replaced_by: str
    # Whether the request was made with it.
    current: bool


def require_manager(caller: Principal) -> None:
    """Raises PermissionDenied for a caller whose credential manages nothing."""
    if not caller.roles:
        raise PermissionDenied(
            "This credential may not manage tokens; use one with the scope admin"
        )


def plan(new: NewToken, caller: Principal) -> Plan:
    """Raises InvalidParams and PermissionDenied."""
    _check(new)
    is_operator = OPERATOR in caller.roles
    require_manager(caller)
    if new.personal or not is_operator:
        return _own_key(new, caller)
    if not (new.agents or new.open or "admin" in new.scopes):
        raise InvalidParams.at(
            "agents", 'names no agent; name handles, "owner/*" or "*", or set open'
        )
    roles: tuple[str, ...] = ()
    if "admin" in new.scopes:
        roles = (f"owner:{new.owner}",) if new.owner else (OPERATOR,)
    return Plan(
        principal=f"token:{new.name}",
        grants=tuple(Grant(agent) for agent in new.agents),
        reaches_open=new.open,
        roles=roles,
        agents=new.agents or None,
        methods=new.methods or None,
    )


def _own_key(new: NewToken, caller: Principal) -> Plan:
    if not caller.id.startswith(_PERSON):
        raise PermissionDenied("Only operators and people who signed in may create tokens")
    for field, is_given in (("open", new.open), ("owner", bool(new.owner))):
        if is_given:
            raise InvalidParams.at(field, "is only for tokens of services, which operators create")
    # The key of a person reaches what the person reaches, so a limited credential would widen
    # itself by it.
    if caller.within is not None:
        raise PermissionDenied(
            "This credential is limited to certain agents or operations; create keys with one "
            "that is not"
        )
    return Plan(
        principal=caller.id,
        tenant=caller.tenant,
        reaches_open=caller.reaches_open,
        roles=caller.roles,
        agents=new.agents or None,
        methods=new.methods or None,
    )


def _check(new: NewToken) -> None:
    if not NAME.fullmatch(new.name):
        raise InvalidParams.at(
            "name",
            "must have up to 64 letters, digits and . _ @ -, and start with a letter or digit",
        )
    if not new.scopes:
        raise InvalidParams.at("scopes", "names no scope; name read, call or admin")
    for index, agent in enumerate(new.agents):
        if agent != "*" and not HANDLE.fullmatch(agent):
            raise InvalidParams.at(
                f"agents[{index}]", 'names no agent; name a handle, "owner/*" or "*"'
            )
    for index, method in enumerate(new.methods):
        if method not in OPERATIONS:
            raise InvalidParams.at(
                f"methods[{index}]", f"is not an operation; name {', '.join(sorted(OPERATIONS))}"
            )
    if new.owner and not OWNER.fullmatch(new.owner):
        raise InvalidParams.at("owner", "must have letters, digits and -")
    if new.owner and "admin" not in new.scopes:
        raise InvalidParams.at("owner", "needs the scope admin")


def view_of(
    token: Token, *, now_ms: int, used_ms: int | None = None, current_id: str = ""
) -> TokenView:
    return TokenView(
        id=token.id,
        kind=token.kind,
        name=token.name,
        principal=token.principal,
        prefix=token.prefix,
        status=status_of(token, now_ms),
        scopes=token.scopes,
        agents=token.agents,
        methods=token.methods,
        open=token.reaches_open,
        roles=token.roles,
        created_at=format_timestamp(token.created_ms),
        created_by=token.created_by,
        expires_at=_time(token.expires_ms),
        revoked_at=_time(token.revoked_ms),
        last_used_at=_time(used_ms),
        replaced_by=token.replaced_by,
        current=bool(current_id) and token.id == current_id,
    )


def status_of(token: Token, now_ms: int) -> str:
    if token.revoked_ms is not None:
        return "revoked"
    return "active" if token.is_active(now_ms) else "expired"


def _time(ms: int | None) -> str | None:
    return None if ms is None else format_timestamp(ms)
