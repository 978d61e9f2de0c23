"""`Caller`: who sent a request through the relay, and its signed form.

It is a JSON Web Signature (RFC 7515) with the key of the session, over the caller and the request
it makes. Number and session of the stream are part of it, so that it counts once: it needs no time
at which it ends, and the clocks of relay and host may differ.
"""

import hashlib
import hmac
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from trunkline.protocol.card_signing import base64url, unpadded

_HEADER: Final = base64url(b'{"alg":"HS256","typ":"a2a-relay-caller+jwt"}')


class Caller(Struct, frozen=True, kw_only=True):
    # The principal at the relay.
    id: str
    # The operations that it may call, by their names in A2A 1.0; None means all of them. The relay
    # does not read requests, so the host sees to that.
    operations: tuple[str, ...] | None = None
    # The ids of the principals that this one acts for, the first caller first.
    chain: tuple[str, ...] = ()


class Request(Struct, frozen=True, kw_only=True):
    """The request that a caller makes."""

    session: str
    stream: int
    agent: str
    method: str
    target: str
    # The id of the task that is delivered from the mailbox.
    task: str = ""


class _Claims(Struct, frozen=True, kw_only=True, omit_defaults=True):
    # It becomes part of the keys of a store, which take no control characters.
    sub: Annotated[str, Meta(min_length=1, max_length=512, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
    operations: tuple[str, ...] | None
    chain: tuple[str, ...]
    aud: str
    jti: str
    # As in RFC 9449.
    htm: str
    htu: str
    task: str = ""


def _claims(caller: Caller, request: Request) -> _Claims:
    return _Claims(
        sub=caller.id,
        operations=caller.operations,
        chain=caller.chain,
        aud=request.agent,
        jti=f"{request.session}/{request.stream}",
        htm=request.method,
        htu=request.target,
        task=request.task,
    )


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Claims).decode


def sign(caller: Caller, request: Request, key: bytes) -> str:
    signed = f"{_HEADER}.{base64url(_encode(_claims(caller, request)))}"
    return f"{signed}.{_signature(signed, key)}"


def verify(token: str, request: Request, key: bytes) -> Caller | None:
    """The caller, if the token was signed with this key for this request."""
    signed, _, signature = token.rpartition(".")
    header, _, payload = signed.partition(".")
    if header != _HEADER or not token.isascii():
        return None
    if not hmac.compare_digest(signature, _signature(signed, key)):
        return None
    try:
        claims = _decode(unpadded(payload))
    except (ValueError, msgspec.DecodeError):
        return None
    caller = Caller(id=claims.sub, operations=claims.operations, chain=claims.chain)
    return caller if claims == _claims(caller, request) else None


def _signature(signed: str, key: bytes) -> str:
    return base64url(hmac.digest(key, signed.encode(), hashlib.sha256))
