"""`Authenticator`: finds the principal of a credential.

It gets headers and not a request, so that the metadata of gRPC and the frames of a relay fit.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from trunkline.model.principal import Principal

# The names are in lower case. A name that came several times has one value, joined by commas.
Headers: TypeAlias = Mapping[bytes, bytes]


class Authenticator(Protocol):
    def known(self, headers: Headers) -> Principal | None:
        """The principal of the credential in the headers, if memory holds it; else None.

        Every request asks this first, so it neither waits nor raises.
        """
        ...

    async def identify(self, headers: Headers) -> Principal | None:
        """The same, and it may ask a store or another server.

        None means that the headers hold no credential of this authenticator. Raises
        Unauthenticated for one that has expired or was revoked. Another error means that the
        credential cannot be checked now, and the client is told to try again.
        """
        ...
