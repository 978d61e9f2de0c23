"""How two relay nodes prove to each other that they know the secret of their store.

The secret itself never leaves a node. The credential of a connection counts for one node that
dials and one running node that is dialled, and the nonce gives the session a key that only the two
of them can compute.
"""

import hashlib
import hmac
from typing import Final

from msgspec import Struct

SCHEME: Final = "Relay-Node"
SUBPROTOCOL: Final = "trunkline.relay.hop.1"
MAX_CHARS: Final = 256


class HopCredential(Struct, frozen=True, kw_only=True):
    # The random names of the nodes.
    entry: str
    holder: str
    nonce: str

    def header(self, secret: bytes) -> str:
        """The value of `Authorization`."""
        return f"{SCHEME} {self.entry}.{self.nonce}.{self._mac(secret, 'credential').hex()}"

    def session_key(self, secret: bytes) -> bytes:
        return self._mac(secret, "session key")

    def _mac(self, secret: bytes, use: str) -> bytes:
        text = f"{SUBPROTOCOL}\n{use}\n{self.entry}\n{self.holder}\n{self.nonce}"
        return hmac.digest(secret, text.encode(), hashlib.sha256)


def read_header(value: str, holder: str) -> HopCredential | None:
    """What a header claims, for `is_valid`."""
    scheme, _, rest = value.partition(" ")
    parts = rest.split(".")
    if scheme != SCHEME or len(value) > MAX_CHARS or len(parts) != 3 or not all(parts):
        return None
    return HopCredential(entry=parts[0], holder=holder, nonce=parts[1])


def is_valid(value: str, credential: HopCredential, secret: bytes) -> bool:
    return hmac.compare_digest(value.encode(), credential.header(secret).encode())
