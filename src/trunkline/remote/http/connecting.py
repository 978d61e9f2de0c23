"""How a connection is made: names, both kinds of addresses, TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

import aiohappyeyeballs

from trunkline.remote.errors import PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.http.place import Origin

P = TypeVar("P", bound=asyncio.Protocol)
# RFC 8305, 5: how long an address may keep silent before the next one is tried beside it.
_NEXT_ADDRESS_S: Final = 0.25
# What OpenSSL makes of an answer that is not TLS.
_PLAIN_TEXT: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """Whom the system trusts. Reading that takes a while, so it is done once."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def connect(
    origin: Origin, make: Callable[[], P], *, within_s: float, tls: ssl.SSLContext | None
) -> P:
    """A connection to it. Raises RemoteError; nothing was sent then."""
    try:
        async with asyncio.timeout(within_s):
            return await _connect(origin, make, tls)
    except TimeoutError as error:
        if error.errno:
            # It was the system that gave up.
            raise _named(_unreachable(error, origin), origin) from None
        slow = PeerTimeout(
            f"connecting to {origin.address} took too long",
            reason="CONNECT_TIMEOUT",
            is_unsent=True,
        )
        raise _named(slow, origin) from None
    except ssl.SSLError as error:
        fault = PeerUnreachable(_tls_fault(error), reason="TLS_FAILED", is_unsent=True)
        raise _named(fault, origin) from None
    except OSError as error:
        raise _named(_unreachable(error, origin), origin) from None


def _named(error: RemoteError, origin: Origin) -> RemoteError:
    error.address = origin.address
    return error


def _tls_fault(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the agent is not accepted: {error.verify_message}"
    if error.reason in _PLAIN_TEXT:
        return "the agent does not speak TLS there; its url may begin with http://"
    return "TLS with the agent failed"


async def _connect(origin: Origin, make: Callable[[], P], tls: ssl.SSLContext | None) -> P:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    sock = await aiohappyeyeballs.start_connection(
        found, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, loop=loop
    )
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if origin.is_tls:
            context = tls or system_trust()
            _, protocol = await loop.create_connection(
                make, sock=sock, ssl=context, server_hostname=origin.host
            )
        else:
            _, protocol = await loop.create_connection(make, sock=sock)
    except BaseException:
        sock.close()
        raise
    return protocol


def _unreachable(error: OSError, origin: Origin) -> RemoteError:
    if isinstance(error, socket.gaierror):
        why = error.strerror
    else:
        why = os.strerror(error.errno) if error.errno else ""
    return PeerUnreachable(
        f"cannot connect to {origin.address}: {why or 'it does not answer'}", is_unsent=True
    )
