"""`Guard`: which origins may be called, and with which addresses.

A configured origin may be anywhere. Any other was learned: an agent named it, in its card or
elsewhere, and could name the metadata service of a cloud or a database next to us. A connection
to it must go to a public address.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from trunkline.model.addresses import is_this_machine, kind_of
from trunkline.remote.errors import AddressRefused
from trunkline.remote.http.request import Origin, origin_of

# The same machine by other names. Agents often name the address that they listen on.
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})


class Guard(Struct, frozen=True, kw_only=True):
    """`allow_private` lets learned origins be private as well; for development. `public_only` lets
    not even configured ones be private, because a person without rights on this network configured
    them."""

    configured: frozenset[Origin] = frozenset()
    allow_private: bool = False
    public_only: bool = False

    @classmethod
    def of(cls, *urls: str, allow_private: bool = False, public_only: bool = False) -> "Guard":
        """For the origins of configured URLs. Raises BadPeerAnswer for an invalid URL."""
        return cls(
            configured=frozenset(map(origin_of, urls)),
            allow_private=allow_private,
            public_only=public_only,
        )

    def knows(self, origin: Origin) -> bool:
        """Whether it is configured, so that credentials may be sent there."""
        return origin in self.configured or self._is_other_name(origin)

    def _is_other_name(self, origin: Origin) -> bool:
        """The machine itself under another name than the configured one, at the same port."""
        return origin.host in _THIS_MACHINE and any(
            one.host in _THIS_MACHINE and (one.is_tls, one.port) == (origin.is_tls, origin.port)
            for one in self.configured
        )

    def check(self, origin: Origin, addresses: Iterable[str]) -> None:
        """Raises AddressRefused if any of the addresses that a socket has is forbidden.

        Any, not all: a name that leads to a public and to a private address is an attempt to
        get past a check of the first one.
        """
        if self.allow_private or (origin in self.configured and not self.public_only):
            return
        must_be_here = not self.public_only and self._is_other_name(origin)
        for address in addresses:
            if must_be_here:
                kind = "" if is_this_machine(address) else "not this machine"
            else:
                kind = kind_of(address)
            if kind:
                raise self._refused(origin, address, kind)

    def _refused(self, origin: Origin, address: str, kind: str) -> AddressRefused:
        what = f"is {kind}" if origin.host == address else f"leads to {address}, {kind}"
        if self.public_only:
            why = "because the owner of an agent chose it. If it is meant, an operator of the hub "
            remedy = "has to set the backend of the agent"
        else:
            why = "because only the agent names it. If it is meant, "
            remedy = f'add "{origin}" to trusted_origins of the target'
        return AddressRefused(
            f"{origin} {what}, and is not called {why}{remedy}, or set allow_private_addresses in "
            "[network] for development"
        )
