"""`read_jwt`: takes a JSON Web Token apart, and `why_refused` decides about its claims (RFC 7519).

Nothing in a token chooses how it is checked: the configuration names the algorithms, and each goes
with one kind of key, so that a token cannot have a public key taken for the secret of an HMAC.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from trunkline.hub.credential_settings import JwtIssuer
from trunkline.hub.token_values import SCOPES, Scope

if TYPE_CHECKING:
    from joserfc.jwk import Key

MAX_BYTES: Final = 16 * 1024
_FORM: Final = re.compile(rb"[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*")
_PRINCIPAL: Final = re.compile(r"[!-~]{1,160}")
_MIN_RSA_BITS: Final = 2048
_MAX_KEYS: Final = 100
# The type and the curve of the key of each algorithm.
_KEYS_OF: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", "")),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    # RFC 9864 names the curve; earlier issuers say EdDSA.
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}


class Jwt(Struct, frozen=True):
    """A token that nothing has verified yet."""

    algorithm: str
    key_id: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return "Jwt()"


def looks_like_jwt(credential: bytes) -> bool:
    return len(credential) <= MAX_BYTES and _FORM.fullmatch(credential) is not None


def read_jwt(credential: bytes) -> Jwt | None:
    """None for one that is not of the expected form, or has critical headers, which the gateway
    does not know (RFC 7515, 4.1.11)."""
    if not looks_like_jwt(credential):
        return None
    signed, _, signature = credential.rpartition(b".")
    header, _, claims = signed.partition(b".")
    try:
        head, body = (msgspec.json.decode(_decoded(part)) for part in (header, claims))
        raw = _decoded(signature)
    except (binascii.Error, ValueError, RecursionError):
        return None
    if not isinstance(head, dict) or not isinstance(body, dict) or "crit" in head:
        return None
    algorithm, key_id = head.get("alg"), head.get("kid", "")
    if not isinstance(algorithm, str) or not isinstance(key_id, str):
        return None
    return Jwt(algorithm, key_id, body, signed, raw)


def _decoded(part: bytes) -> bytes:
    return base64.b64decode(part + b"=" * (-len(part) % 4), b"-_", validate=True)


def why_refused(claims: Mapping[str, Any], issuer: JwtIssuer, *, now_s: float) -> str:
    """The reason why the claims are not accepted; empty if they are."""
    audience = claims.get("aud")
    expires, begins, issued = (_time(claims.get(name)) for name in ("exp", "nbf", "iat"))
    latest = now_s + issuer.clock_skew_s
    if claims.get("iss") != issuer.issuer:
        return "its issuer is another one"
    if issuer.audience not in (audience if isinstance(audience, list) else [audience]):
        return "it is for another audience"
    if expires is None:
        return "it does not say when it ends"
    if now_s >= expires + issuer.clock_skew_s:
        return "it has expired"
    if "nbf" in claims and (begins is None or begins > latest):
        return "it does not count yet"
    if "iat" in claims and (issued is None or issued > latest):
        return "it was issued in the future; compare the clocks of the issuer and the gateway"
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


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e12 else None


def keys_in(data: bytes) -> "list[Key]":
    """The public keys of a JWK Set that can check signatures. Others are left out, because an
    issuer may have more than the gateway knows. Raises ValueError."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    try:
        tree = msgspec.json.decode(data)
        listed = tree["keys"][:_MAX_KEYS]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        raise ValueError("it is not a JWK Set") from None
    keys: list[Key] = []
    for each in listed:
        if not isinstance(each, dict) or not _may_be_public(each):
            continue
        try:
            key = import_key(each)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if _is_strong(key):
            keys.append(key)
    return keys


def _may_be_public(tree: Mapping[str, Any]) -> bool:
    if tree.get("kty") not in ("RSA", "EC", "OKP") or "d" in tree:
        return False
    modulus = tree.get("n", "")
    # Before the library warns of it.
    is_short = tree["kty"] == "RSA" and len(str(modulus)) * 6 < _MIN_RSA_BITS
    return tree.get("use", "sig") == "sig" and not is_short


def _is_strong(key: Any) -> bool:
    kind = _kind(key)
    if kind not in _KEYS_OF.values():
        return False
    return kind[0] != "RSA" or key.public_key.key_size >= _MIN_RSA_BITS


def _kind(key: Any) -> tuple[str, str]:
    return key.key_type, getattr(key, "curve_name", "")


def has_key_for(token: Jwt, keys: "Iterable[Key]") -> bool:
    return any(_fits(token, key) for key in keys)


def is_signed(token: Jwt, keys: "Iterable[Key]") -> bool:
    """Whether one of the keys has signed the token. Its algorithm is among those of the
    configuration."""
    from joserfc.jws import JWSRegistry

    algorithm = JWSRegistry.algorithms[token.algorithm]
    return any(
        bool(algorithm.verify(token.signed, token.signature, key))
        for key in keys
        if _fits(token, key)
    )


def _fits(token: Jwt, key: "Key") -> bool:
    if _kind(key) != _KEYS_OF[token.algorithm]:
        return False
    return not token.key_id or (key.kid or "") in ("", token.key_id)
