"""`ApiKeys`: the authenticator of the keys that the configuration names."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers

# The headers that carry a key, by their names in agent cards.
WAYS: Final = {"bearer": "'Authorization: Bearer KEY'", "apiKey": "'X-API-Key: KEY'"}
SCHEMES: Final = tuple(WAYS)


class ApiKeys(Struct, frozen=True, eq=False):
    # The principal of each key, by the SHA-256 of the key in hex.
    principals: Mapping[str, Principal]
    # The headers that may carry a key.
    schemes: Collection[str] = SCHEMES

    def __repr__(self) -> str:
        # Without the digests, by which a weak key could be guessed.
        return f"ApiKeys({len(self.principals)} keys)"

    def known(self, headers: Headers) -> Principal | None:
        key: bytes | None = None
        if "bearer" in self.schemes and b"authorization" in headers:
            value = headers[b"authorization"]
            key = value[7:].strip() if value.startswith(b"Bearer ") else bearer_token(value)
        elif "apiKey" in self.schemes:
            key = headers.get(b"x-api-key")
        if not key:
            return None
        # The time of a look-up by the digest reveals nothing about the key.
        return self.principals.get(hashlib.sha256(key).hexdigest())

    async def identify(self, headers: Headers) -> Principal | None:
        return self.known(headers)


def bearer_token(authorization: bytes) -> bytes:
    """The token of an Authorization header; empty if the header has another form."""
    scheme, _, token = authorization.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""
