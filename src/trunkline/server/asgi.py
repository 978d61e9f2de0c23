"""ASGI in both directions: requests of an ASGI server, and ASGI applications behind our server."""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.model.errors import TrunklineError
from trunkline.protocol import rest
from trunkline.protocol.versions import Version
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request, Response
from trunkline.server.memory_budget import MemoryBudget

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRequest(Request, kw_only=True):
    """A request that an ASGI server hands in."""

    receive: Receive
    client: tuple[str, int] | None = None
    # Of requests that come through no other server.
    memory: MemoryBudget | None = None

    @property
    def budget(self) -> MemoryBudget | None:
        return self.memory

    @property
    def peer(self) -> str:
        return "" if self.client is None else self.client[0]

    @classmethod
    def of(
        cls, scope: Scope, receive: Receive, *, memory: MemoryBudget | None = None
    ) -> "AsgiRequest":
        lines = scope["headers"]
        headers = dict(lines)
        if len(headers) != len(lines):
            # RFC 9110, 5.3: repeated headers count as one list. So two credentials are no
            # credential, whichever of them a proxy in front has checked.
            headers = {
                name: b", ".join([value for each, value in lines if each == name])
                for name in headers
            }
        return cls(
            scope["method"],
            scope["path"],
            scope.get("raw_path"),
            scope["query_string"],
            lines,
            headers,
            is_local=_is_local(scope.get("client")),
            receive=receive,
            client=scope.get("client"),
            memory=memory,
        )

    async def piece(self) -> tuple[bytes, bool]:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message.get("body", b""), message.get("more_body", False)

    async def disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    ended = disconnected


def _is_local(client: tuple[str, int] | None) -> bool:
    """Whether the peer of a connection is on this machine. A peer without an address is: it came
    over a Unix socket or from a program in this process."""
    return client is None or is_local_address(client[0])


# The same few peers send most requests, and to read an address takes longer than to find one here.
@lru_cache(maxsize=1024)
def is_local_address(text: str) -> bool:
    """Whether an address is one of this machine's loopback; so is what is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return True
    # A socket of both versions shows IPv4 peers as ::ffff:127.0.0.1.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class AsgiResponse(Response):
    """A response by way of an ASGI server."""

    send: Send

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        data = b"".join(body)
        own = ((b"content-type", content_type), (CONTENT_LENGTH, b"%d" % len(data)))
        await self.begin(status, (*own, *headers))
        await self.send({"type": "http.response.body", "body": data})

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        self.has_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})


class _Served(Struct, eq=False):
    """A request of our own server, as an ASGI application receives and answers it."""

    request: Request
    response: Response
    has_more: bool = True
    size: int = 0
    # The reason to refuse the body; the application sees a client that has left.
    refusal: TrunklineError | None = None

    async def receive(self) -> Message:
        if self.has_more:
            try:
                body, self.has_more = await self.request.piece()
                self.size += len(body)
                # Most applications collect the whole body before they read it, so all of it counts.
                self.request.hold(self.size)
                return {"type": "http.request", "body": body, "more_body": self.has_more}
            except Disconnected:
                return {"type": "http.disconnect"}
            except TrunklineError as error:
                self.has_more, self.refusal = False, error
        if self.refusal is None:
            # Like other ASGI servers. A client that has left looks like one that sends no more,
            # and an application cannot find out by a write that it does not make.
            await self.request.ended()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        response = self.response
        if self.refusal is not None:
            return
        if message["type"] == "http.response.start":
            self.request.release()
            headers = list(message.get("headers", ()))
            await response.begin(message["status"], headers)
            if not any(name.lower() == CONTENT_LENGTH for name, _ in headers):
                # Without a length it is a stream, and its client should see at once that it is
                # open.
                await response.write(b"")
            return
        if body := message.get("body", b""):
            await response.write(body)
        if not message.get("more_body", False):
            await response.end()

    async def refuse(self, error: TrunklineError) -> None:
        retry_s = getattr(error, "retry_after_s", None)
        await self.response.answer(
            *rest.error(error, Version.V1_0),
            headers=[] if retry_s is None else [(b"retry-after", b"%d" % retry_s)],
        )


async def serve_with(app: App, request: Request, response: Response) -> None:
    """Let an ASGI application answer a request of our own server."""
    served = _Served(request, response)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.raw_path,
        "query_string": request.query,
        "root_path": "",
        "headers": list(request.header_lines),
        "client": (request.peer, 0) if request.peer else None,
        "server": None,
    }
    try:
        await app(scope, served.receive, served.send)
    except Exception:
        # The application believes that the client has left, so its error means nothing.
        if served.refusal is None:
            raise
    if served.refusal is not None and not response.has_begun:
        await served.refuse(served.refusal)
