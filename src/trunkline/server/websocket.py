"""`WebSocketEndpoint`: answers the requests to a WebSocket mount, on any server."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from trunkline.ports.websocket import (
    INTERNAL_ERROR,
    Refusal,
    WebSocket,
    WebSocketClosed,
    WebSocketLimits,
    WebSocketMount,
    offers,
)
from trunkline.server.http import Disconnected, Header, Request, Response


class Upgrade(ABC):
    """The ability of a request to become a WebSocket."""

    # The address of the client; empty where it is not known.
    peer: str = ""

    @abstractmethod
    async def open(
        self, request: Request, subprotocols: Sequence[str], limits: WebSocketLimits
    ) -> WebSocket | Refusal:
        """Answer the handshake. Raises Disconnected if the client has left."""


# RFC 9110, 15.5.22, and RFC 6455, 4.4: what the client must use.
UPGRADE_HEADERS: Sequence[Header] = (
    (b"upgrade", b"websocket"),
    (b"connection", b"upgrade"),
    (b"sec-websocket-version", b"13"),
)
_UPGRADE_REQUIRED = Refusal(
    426,
    "A WebSocket is opened here: send GET with Upgrade: websocket and Connection: Upgrade.\n",
    UPGRADE_HEADERS,
)
_TOO_SLOW = Refusal(503, "The check of the request took too long; try again.\n")


class WebSocketEndpoint(Struct, frozen=True, eq=False):
    mount: WebSocketMount

    async def __call__(self, request: Request, response: Response) -> None:
        opened = await self._open(request)
        if isinstance(opened, Refusal):
            await response.answer(
                opened.status,
                opened.text.encode(),
                content_type=b"text/plain; charset=utf-8",
                headers=opened.headers,
            )
            return
        response.has_begun = True
        try:
            await self.mount.handler(opened)
        except (Disconnected, WebSocketClosed):
            pass
        except Exception:
            await opened.close(INTERNAL_ERROR, "internal error")
            raise
        await opened.close()

    async def _open(self, request: Request) -> WebSocket | Refusal:
        if request.upgrade is None:
            return _UPGRADE_REQUIRED
        if self.mount.check is not None:
            try:
                async with asyncio.timeout(self.mount.limits.handshake_s):
                    refusal = await self.mount.check(request)
            except TimeoutError:
                return _TOO_SLOW
            if refusal is not None:
                return refusal
        subprotocols = self.mount.subprotocols
        if self.mount.takes_no_subprotocol and not offers(request, subprotocols):
            subprotocols = ()
        return await request.upgrade.open(request, subprotocols, self.mount.limits)
