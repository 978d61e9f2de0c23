"""`why_refused`: whether an ID token was made for this sign-in (OpenID Connect Core, 3.1.3.7)."""

from typing import Any, Final

from msgspec import Struct

# How far the clocks of the provider and the gateway may differ.
SKEW_S: Final = 60
# An ID token is made when its code is exchanged.
_MAX_AGE_S: Final = 600
# Core, 2: `sub` has at most 255 characters.
_MAX_SUBJECT: Final = 255


class Claims(Struct, frozen=True, kw_only=True):
    subject: str
    account: str = ""
    nickname: str = ""
    name: str = ""
    email: str = ""
    has_verified_email: bool = False


def why_refused(
    claims: dict[str, Any], *, issuer: str, client_id: str, nonce: str, now_s: float
) -> str:
    """The reason why the claims are not accepted; empty if they are."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    subject = claims.get("sub")
    if claims.get("iss") != issuer:
        return "its issuer is another one"
    if client_id not in audiences:
        return "it is for another client"
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != client_id:
        return "it was given to another client"
    if not isinstance(subject, str) or not 1 <= len(subject) <= _MAX_SUBJECT:
        return "it names no subject"
    if claims.get("nonce") != nonce:
        return "it belongs to another sign-in"
    return _why_not_now(claims, now_s)


def _why_not_now(claims: dict[str, Any], now_s: float) -> str:
    expires, issued, begins = (_time(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None or now_s >= expires + SKEW_S:
        return "it has expired"
    if issued is None or not now_s - _MAX_AGE_S - SKEW_S <= issued <= now_s + SKEW_S:
        return "it was not made now; compare the clocks of the provider and the gateway"
    if "nbf" in claims and (begins is None or begins > now_s + SKEW_S):
        return "it does not count yet"
    return ""


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e15 else None


def claims_of(tree: dict[str, Any]) -> Claims:
    """The claims that are used. Those of another type count as missing."""

    def text(name: str) -> str:
        value = tree.get(name)
        return value if isinstance(value, str) else ""

    return Claims(
        subject=text("sub"),
        account=text("preferred_username"),
        nickname=text("nickname"),
        name=text("name"),
        email=text("email"),
        has_verified_email=tree.get("email_verified") is True,
    )
