"""`Connector`: makes connections: name lookup, IPv4 and IPv6, the guard, TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

import aiohappyeyeballs

from trunkline.remote.errors import PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.http.guard import Guard
from trunkline.remote.http.request import Origin

# A row of getaddrinfo; its last field is the address that a socket connects to.
AddressInfo: TypeAlias = tuple[
    int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
P = TypeVar("P", bound=asyncio.Protocol)
# RFC 8305, 5: how long an address may keep silent before the next one is tried beside it.
_NEXT_ADDRESS_S: Final = 0.25
# OpenSSL gives these reasons for a response that is not TLS.
_PLAIN_TEXT: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """The certificates that the system trusts, read once because that takes a while."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Network:
    """The functions of the system that a connector uses."""

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of a name, or of a text that stands for an address. Raises OSError."""
        loop = asyncio.get_running_loop()
        found: list[AddressInfo] = [*await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        return found

    async def dial(self, found: list[AddressInfo]) -> socket.socket:
        """A socket to the first of them that answers. Raises OSError."""
        return await aiohappyeyeballs.start_connection(
            found,
            happy_eyeballs_delay=_NEXT_ADDRESS_S,
            interleave=1,
            loop=asyncio.get_running_loop(),
        )


class Connector:
    def __init__(
        self, guard: Guard, *, tls: ssl.SSLContext | None = None, network: Network | None = None
    ) -> None:
        """`tls` names the trusted certificates, if they are not those of the system."""
        self._guard = guard
        self._tls = tls
        self._network = network or Network()

    async def connect(self, origin: Origin, make: Callable[[], P], *, within_s: float) -> P:
        """A connection to the origin. Raises RemoteError before any request was sent."""
        try:
            async with asyncio.timeout(within_s):
                return await self._connect(origin, make)
        except OSError as error:
            raise _failure(error, origin) from None

    async def _connect(self, origin: Origin, make: Callable[[], P]) -> P:
        sock = await dial(origin, self._guard, self._network)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop = asyncio.get_running_loop()
            if origin.is_tls:
                context = self._tls or system_trust()
                _, protocol = await loop.create_connection(
                    make, sock=sock, ssl=context, server_hostname=origin.host
                )
            else:
                _, protocol = await loop.create_connection(make, sock=sock)
        except BaseException:
            sock.close()
            raise
        return protocol


async def dial(origin: Origin, guard: Guard, network: Network) -> socket.socket:
    """A socket to the origin, at an address that it may have. Raises AddressRefused and OSError.

    The name is looked up once. Its DNS server could give another address the next time (DNS
    rebinding), so the connection goes to the addresses that were checked.
    """
    found = await network.resolve(origin.host, origin.port)
    guard.check(origin, [str(info[4][0]) for info in found])
    sock = await network.dial(found)
    try:
        guard.check(origin, [str(sock.getpeername()[0])])
    except BaseException:
        sock.close()
        raise
    return sock


def _failure(error: OSError, origin: Origin) -> RemoteError:
    failure: RemoteError
    if isinstance(error, ssl.SSLError):
        failure = PeerUnreachable(_tls_fault(error), reason="TLS_FAILED", is_unsent=True)
    elif isinstance(error, TimeoutError) and not error.errno:
        # The limit of this client ended the attempt; with a number, the system did.
        message = f"connecting to {origin.address} took too long"
        failure = PeerTimeout(message, reason="CONNECT_TIMEOUT", is_unsent=True)
    else:
        if isinstance(error, socket.gaierror):
            why = error.strerror
        else:
            why = os.strerror(error.errno) if error.errno else ""
        message = f"cannot connect to {origin.address}: {why or 'it does not answer'}"
        failure = PeerUnreachable(message, is_unsent=True)
    failure.address = origin.address
    return failure


def _tls_fault(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the agent is not accepted: {error.verify_message}"
    if error.reason in _PLAIN_TEXT:
        return "the agent does not speak TLS there; its url may begin with http://"
    return "TLS with the agent failed"
