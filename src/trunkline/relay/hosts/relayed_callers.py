"""`RelayedCallers`: the principals of requests that come through a relay.

The relay has found the caller and signed it. Here it is one principal among others, of its own name
and with grants for the agent that it calls alone.
"""

import secrets
from collections.abc import Callable
from typing import Final

from trunkline.model.principal import RELAYED, Grant, Principal
from trunkline.ports.authenticator import Headers
from trunkline.protocol.relay.callers import Caller

_SCHEME: Final = b"Relayed "


def principal_of(caller: Caller, *, relay: str, handle: str) -> Principal:
    """`relay` tells the callers of one relay from those of another, and `handle` is the agent
    here."""
    operations = None if caller.operations is None else frozenset(caller.operations)
    return Principal(
        id=f"{RELAYED}{relay}:{caller.id}",
        grants=(Grant(handle, operations),),
        chain=tuple(f"{RELAYED}{relay}:{each}" for each in caller.chain),
    )


class RelayedCallers:
    """An `Authenticator`: each request under way has a credential, which nobody else learns."""

    def __init__(self, new_secret: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        self._new_secret = new_secret
        self._principals: dict[bytes, Principal] = {}

    def admit(self, principal: Principal) -> bytes:
        """The value of `Authorization` for a request of the principal, until `leave`."""
        credential = _SCHEME + self._new_secret().encode()
        self._principals[credential] = principal
        return credential

    def leave(self, credential: bytes) -> None:
        del self._principals[credential]

    def known(self, headers: Headers) -> Principal | None:
        return self._principals.get(headers.get(b"authorization", b""))

    async def identify(self, headers: Headers) -> Principal | None:
        return self.known(headers)
