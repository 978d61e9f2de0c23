"""`Admission`: which hosts may attach, by their credentials."""

from collections.abc import Awaitable, Callable
from typing import Final

from trunkline.engine.access import may_attach
from trunkline.model.errors import PermissionDenied, TrunklineError, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED, Close

# The principal of a credential that comes from an address; None for headers without one. An empty
# address is that of a host which is known. Raises as `Authenticator.identify` does, and
# TooManyRequests for an address with too many wrong ones.
Identify = Callable[[Headers, str], Awaitable[Principal | None]]

_HEADERS: Final = (b"authorization", b"x-api-key")


class Admission:
    def __init__(self, identify: Identify, *, clock: Clock) -> None:
        self._identify = identify
        self._clock = clock

    async def admit(self, credential: Headers, *, address: str = "") -> Principal:
        """The principal of a host. Raises Unauthenticated, PermissionDenied, TooManyRequests or
        Unavailable."""
        principal = await self._identify(credential, address)
        if principal is None:
            raise Unauthenticated(
                "A host attaches with its token: send it as Authorization: Bearer TOKEN"
            )
        if not may_attach(principal):
            raise PermissionDenied(
                "This credential may not attach agents; use one that was made for a host"
            )
        return principal

    async def still_admitted(self, credential: Headers) -> Principal | Close | None:
        """The same for a live session: the principal, or how to close it; None where the credential
        cannot be checked now."""
        try:
            return await self.admit(credential)
        except Unauthenticated:
            return Close(NOT_AUTHENTICATED, "the credential does not count any more")
        except PermissionDenied:
            return Close(FORBIDDEN, "the credential may not attach agents any more")
        except TrunklineError:
            return None

    def ends_at(self, principal: Principal) -> float | None:
        """When the credential ends, by the clock of sessions."""
        if principal.ends_ms is None:
            return None
        left_s = (principal.ends_ms - self._clock.now_ms()) / 1000
        return self._clock.monotonic() + left_s


def credential_of(headers: Headers) -> Headers:
    """The headers that hold the credential; the others need not be kept."""
    return {name: headers[name] for name in _HEADERS if name in headers}
