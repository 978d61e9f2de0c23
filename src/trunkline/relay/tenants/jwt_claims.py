"""`Holder`: the host or the client that the claims of a token name, and what it may do.

A token belongs to a tenant and has one role: an `agent` attaches agents and calls nothing, a
`client` calls agents of its tenant and attaches nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.handles import OWNER, SLUG
from trunkline.model.principal import ATTACH, Grant, Principal
from trunkline.protocol.jwt import has_audience, seconds_of, why_not_now

# How far the clock of whoever made a token may be from that of the relay.
SKEW_S: Final = 60
# A token that is found or stolen is of use for no longer than this.
MAX_LIFE_S: Final = 24 * 3600
# The agents of one host.
MAX_AGENTS: Final = 256
MAX_TENANT_CHARS: Final = 64
AGENT: Final = "agent"
CLIENT: Final = "client"
# The operations that each scope allows. A client without the claim may call all of them.
SCOPES: Final[Mapping[str, tuple[Operation, ...]]] = {
    "message:send": (Operation.SEND_MESSAGE,),
    "message:stream": (Operation.SEND_STREAMING_MESSAGE,),
    "tasks:read": (
        Operation.GET_TASK,
        Operation.LIST_TASKS,
        Operation.SUBSCRIBE_TO_TASK,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
    ),
    "tasks:write": (
        Operation.CANCEL_TASK,
        Operation.CREATE_PUSH_CONFIG,
        Operation.DELETE_PUSH_CONFIG,
    ),
    "agents:read": (Operation.GET_EXTENDED_AGENT_CARD,),
}
# What principals, headers and logs can hold.
_NAME: Final = re.compile(r"[!-~]{1,160}")


class TokenRefused(Exception):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Expected(Struct, frozen=True, kw_only=True):
    """The claims that a token must have; empty for any."""

    issuer: str = ""
    audience: str = ""


class Holder(Struct, frozen=True, kw_only=True):
    tenant: str
    principal: Principal
    # The names by which a denial may mean the holder.
    names: frozenset[str]
    # The id of the token; empty where it has none.
    jti: str


def is_tenant(name: object) -> bool:
    """Whether a tenant can have the name."""
    if not isinstance(name, str) or len(name) > MAX_TENANT_CHARS:
        return False
    return OWNER.fullmatch(name) is not None


def holder_of(claims: Mapping[str, Any], expected: Expected, *, now_s: float) -> Holder:
    """Raises TokenRefused."""
    if why := _why_not_expected(claims, expected, now_s=now_s):
        raise TokenRefused(why)
    tenant = claims.get("tenant")
    if not isinstance(tenant, str) or not is_tenant(tenant):
        raise TokenRefused("its claim tenant names no tenant")
    jti = _name(claims, "jti")
    ends_ms = round((claims["exp"] + SKEW_S) * 1000)
    role = claims.get("role")
    if role == AGENT:
        agents = _agents(claims)
        principal = Principal(
            id=f"host:{tenant}:{','.join(agents)}",
            roles=tuple(f"{ATTACH}{tenant}/{agent}" for agent in agents),
            token=_shown(jti),
            ends_ms=ends_ms,
        )
    elif role == CLIENT:
        principal = Principal(
            id=f"tenant:{tenant}:{_client(claims)}",
            grants=(Grant(f"{tenant}/*", _operations(claims)),),
            token=_shown(jti),
            ends_ms=ends_ms,
        )
    else:
        raise TokenRefused('its claim role is neither "agent" nor "client"')
    names = {principal.id, _name(claims, "sub"), _name(claims, "user_id")} - {""}
    return Holder(tenant=tenant, principal=principal, names=frozenset(names), jti=jti)


def _shown(jti: str) -> str:
    return f"jti:{jti[:64]}" if jti else ""


def _why_not_expected(claims: Mapping[str, Any], expected: Expected, *, now_s: float) -> str:
    if expected.issuer and claims.get("iss") != expected.issuer:
        return "its issuer is another one"
    if expected.audience and not has_audience(claims, expected.audience):
        return "it is for another audience"
    if why := why_not_now(claims, now_s=now_s, skew_s=SKEW_S):
        return why
    expires, issued = seconds_of(claims["exp"]), seconds_of(claims.get("iat"))
    assert expires is not None, "the times were checked"
    begins = now_s if issued is None else min(issued, now_s)
    if expires - begins > MAX_LIFE_S + SKEW_S:
        return "it is valid for more than 24 hours; make tokens with an earlier exp"
    return ""


def _client(claims: Mapping[str, Any]) -> str:
    """The claim `sub`; clients of the first relays have `user_id` instead."""
    name = _name(claims, "sub") or _name(claims, "user_id")
    if not name:
        raise TokenRefused("neither its claim sub nor user_id names a client")
    return name


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if value is None:
        return ""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise TokenRefused(f"its claim {claim} is not a text of up to 160 visible ASCII characters")
    return value


def _agents(claims: Mapping[str, Any]) -> Sequence[str]:
    named = claims.get("agent_id")
    agents = named if isinstance(named, list) else [named]
    names = [each for each in agents if isinstance(each, str) and _is_agent(each)]
    if len(names) != len(agents) or not 0 < len(names) <= MAX_AGENTS:
        raise TokenRefused("its claim agent_id names no agent")
    return names


def _is_agent(name: str) -> bool:
    return len(name) <= 160 and SLUG.fullmatch(name) is not None


def _operations(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """The operations of the scopes; None for all of them. Other scopes allow nothing."""
    named = claims.get("scopes", claims.get("scope"))
    if named is None:
        return None
    scopes = named.split() if isinstance(named, str) else named
    if not isinstance(scopes, list):
        raise TokenRefused("its claim scopes is neither a list nor a text")
    return frozenset(
        str(operation)
        for scope in scopes
        if isinstance(scope, str)
        for operation in SCOPES.get(scope, ())
    )
