"""`CertificateAuthenticator`: the principals of client certificates that a proxy has verified.

The proxy states the certificate as `Client-Cert` (RFC 9440), in Base64 between colons. `Access`
refuses the header from any other address before it asks.
"""

import base64
import binascii
import hashlib
import math
from collections.abc import Mapping
from typing import Final

from trunkline.hub.credential_settings import CertificateHolder
from trunkline.hub.held_principals import HeldPrincipals
from trunkline.hub.token_values import within
from trunkline.hub.tokens import REFUSED
from trunkline.model.errors import Unauthenticated
from trunkline.model.principal import OPERATOR, Grant, Principal
from trunkline.ports.authenticator import Headers

_HEADER: Final = b"client-cert"
_MAX_BYTES: Final = 16 * 1024


class CertificateAuthenticator:
    def __init__(self, holders: Mapping[str, CertificateHolder], held: HeldPrincipals) -> None:
        """`holders` by the fingerprints of their certificates."""
        self._holders = holders
        self._held = held

    def known(self, headers: Headers) -> Principal | None:
        # A credential that the caller states goes first, and `Access` checks the proxy before
        # `identify`.
        return None

    async def identify(self, headers: Headers) -> Principal | None:
        value = headers.get(_HEADER)
        if value is None:
            return None
        fingerprint = fingerprint_of(value)
        holder = self._holders.get(fingerprint)
        if holder is None:
            raise Unauthenticated(REFUSED, has_credential=True)
        held = self._held.find(fingerprint)
        if held is not None:
            return held
        principal = Principal(
            id=f"cert:{holder.name}",
            grants=tuple(Grant(agent) for agent in holder.agents),
            token=fingerprint[:23],
            reaches_open=holder.open,
            roles=(OPERATOR,) if "admin" in holder.scopes else (),
            within=within(holder.scopes),
        )
        return await self._held.hold(fingerprint, principal, ends_ms=math.inf)


def fingerprint_of(value: bytes) -> str:
    """`sha256:` and hex digits; empty for a value of another form. A header that came twice is
    joined by a comma, which is not Base64."""
    if len(value) > _MAX_BYTES or not (value.startswith(b":") and value.endswith(b":")):
        return ""
    try:
        certificate = base64.b64decode(value[1:-1], validate=True)
    except binascii.Error:
        return ""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"
