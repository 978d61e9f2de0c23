"""`Jwt`: a JSON Web Token that was taken apart (RFC 7519), and whether a key has signed it.

Nothing in a token chooses how it is checked: the configuration names the algorithms, and each goes
with one kind of key, so that a token cannot have a public key taken for the secret of an HMAC.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from joserfc.jwk import Key

MAX_BYTES: Final = 16 * 1024
# The algorithm of a shared secret. All others have a public key.
HMAC: Final = "HS256"
_FORM: Final = re.compile(rb"[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*")
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


def seconds_of(value: Any) -> float | None:
    """A claim that is a time (RFC 7519, 2); None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e12 else None


def why_not_now(claims: Mapping[str, Any], *, now_s: float, skew_s: float) -> str:
    """The reason why a token does not count now; empty if it does. `skew_s` is how far the clock of
    its issuer may be from ours."""
    expires, begins, issued = (seconds_of(claims.get(name)) for name in ("exp", "nbf", "iat"))
    latest = now_s + skew_s
    if expires is None:
        return "it does not say when it ends"
    if now_s >= expires + skew_s:
        return "it has expired"
    if "nbf" in claims and (begins is None or begins > latest):
        return "it does not count yet"
    if "iat" in claims and (issued is None or issued > latest):
        return "it was issued in the future; compare the clocks of the issuer and the gateway"
    return ""


def has_audience(claims: Mapping[str, Any], audience: str) -> bool:
    stated = claims.get("aud")
    return audience in (stated if isinstance(stated, list) else [stated])


def sign_with_secret(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """A token that `is_signed_with` the secret."""
    signed = f"{_encoded(header)}.{_encoded(claims)}"
    return f"{signed}.{_part(_digest(signed.encode(), secret))}"


def is_signed_with(token: Jwt, secrets: Iterable[bytes]) -> bool:
    """Whether one of the shared secrets has signed a token of HS256."""
    return token.algorithm == HMAC and any(
        hmac.compare_digest(_digest(token.signed, secret), token.signature) for secret in secrets
    )


def _digest(signed: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, signed, hashlib.sha256)


def _encoded(value: Mapping[str, Any]) -> str:
    return _part(msgspec.json.encode(value))


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


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
    """Whether one of the keys has signed the token."""
    from joserfc.jws import JWSRegistry

    if token.algorithm not in _KEYS_OF:
        return False
    algorithm = JWSRegistry.algorithms[token.algorithm]
    return any(
        bool(algorithm.verify(token.signed, token.signature, key))
        for key in keys
        if _fits(token, key)
    )


def _fits(token: Jwt, key: "Key") -> bool:
    if _kind(key) != _KEYS_OF.get(token.algorithm):
        return False
    return not token.key_id or (key.kid or "") in ("", token.key_id)
