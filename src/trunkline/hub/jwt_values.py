"""`why_refused`: decides about the claims of a token of a configured issuer."""

import re
from collections.abc import Mapping
from typing import Any, Final

from trunkline.hub.credential_settings import JwtIssuer
from trunkline.hub.token_values import SCOPES, Scope
from trunkline.protocol.jwt import has_audience, why_not_now

_PRINCIPAL: Final = re.compile(r"[!-~]{1,160}")


def why_refused(claims: Mapping[str, Any], issuer: JwtIssuer, *, now_s: float) -> str:
    """The reason why the claims are not accepted; empty if they are."""
    if claims.get("iss") != issuer.issuer:
        return "its issuer is another one"
    if not has_audience(claims, issuer.audience):
        return "it is for another audience"
    if why := why_not_now(claims, now_s=now_s, skew_s=issuer.clock_skew_s):
        return why
    if not isinstance(caller_of(claims, issuer), str):
        return f"its claim {issuer.principal_claim} does not name a caller"
    return ""


def ends_ms(claims: Mapping[str, Any], issuer: JwtIssuer) -> float:
    """When a token whose claims were accepted ends."""
    return float((claims["exp"] + issuer.clock_skew_s) * 1000)


def caller_of(claims: Mapping[str, Any], issuer: JwtIssuer) -> str | None:
    value = claims.get(issuer.principal_claim)
    return value if isinstance(value, str) and _PRINCIPAL.fullmatch(value) else None


def scopes_of(claims: Mapping[str, Any], issuer: JwtIssuer) -> tuple[Scope, ...]:
    if issuer.scope_map is None:
        return issuer.scopes
    named = claims.get(issuer.scope_claim)
    names = named.split(" ") if isinstance(named, str) else named
    if not isinstance(names, list):
        return ()
    allowed = {
        scope for name in names if isinstance(name, str) for scope in issuer.scope_map.get(name, ())
    }
    return tuple(scope for scope in SCOPES if scope in allowed)
