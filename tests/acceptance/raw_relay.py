"""`RawRelay`: a relay that sends its hosts whatever a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.raw_host import LIMITS, frame
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from trunkline.protocol.relay.callers import Caller, Request, sign

KEY = b"k" * 32
SESSION = "00112233445566778899aabbccddeeff"
WELCOME: dict[str, Any] = {
    "session": SESSION,
    "resumed": False,
    "limits": LIMITS,
    "key": KEY.hex(),
    "heartbeat_s": 20,
    "resume_s": 30,
}


class RawSession:
    """One connection of a host."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self._sent = 0
        self._streams = 0

    async def write(self, *messages: bytes | str) -> None:
        for message in messages:
            await self.socket.send(message)

    async def send(self, kind: str, body: bytes | None = None, **members: Any) -> None:
        """Send the next numbered frame."""
        self._sent += 1
        await self.write(frame(kind, body, n=self._sent, **members))

    async def welcome(self, **members: Any) -> dict[str, Any]:
        """Answer the hello of the host, which is returned."""
        hello = await self.expect("hello")
        await self.write(frame("welcome", **(WELCOME | members)))
        return hello

    async def attach(self, **epochs: int) -> None:
        await self.welcome()
        await self.expect("agents")
        await self.send("leases", epochs=epochs or {"acme/helper": 1})

    async def req(
        self,
        target: str = "/t/acme/a2a/helper/tasks",
        *,
        caller: Caller | str | None = None,
        method: str = "GET",
        body: bytes | None = None,
        **members: Any,
    ) -> int:
        """Open the next stream, with a caller that is signed unless it is a text."""
        self._streams += 1
        agent = str(members.get("agent", "acme/helper"))
        request = Request(
            session=SESSION, stream=self._streams, agent=agent, method=method, target=target
        )
        signed = caller if isinstance(caller, str) else sign(caller or ALICE, request, KEY)
        told = {"stream": self._streams, "agent": agent, "epoch": 1, "fin": True} | members
        await self.send("req", body, caller=signed, method=method, target=target, **told)
        return self._streams

    async def expect(self, *kinds: str) -> dict[str, Any]:
        """The next frame of these kinds, with its body as `body`."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                data = await self.socket.recv()
                assert isinstance(data, bytes)
                head, _, body = data.partition(b"\n")
                told: dict[str, Any] = json.loads(head)
                if told["frame"] in kinds:
                    return told | {"body": body}

    async def closed(self) -> tuple[int | None, str | None]:
        """Code and reason that the host closes the connection with."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code, self.socket.close_reason


ALICE = Caller(id="alice")
Handler: TypeAlias = Callable[[RawSession], Awaitable[None]]


class RawRelay:
    """Serves the connections one after the other with the handler of the moment."""

    def __init__(self) -> None:
        self.port = 0
        self._sessions: asyncio.Queue[RawSession] = asyncio.Queue()

    async def session(self) -> RawSession:
        """The next connection of a host."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._sessions.get()

    async def serve(self, socket: ServerConnection) -> None:
        await self._sessions.put(RawSession(socket))
        await socket.wait_closed()


@asynccontextmanager
async def raw_relay() -> AsyncIterator[RawRelay]:
    relay = RawRelay()
    async with serve(
        relay.serve,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("a2a.relay.v2")],
        max_size=None,
        compression=None,
        ping_interval=None,
        close_timeout=1,
    ) as server:
        [listening] = server.sockets
        relay.port = listening.getsockname()[1]
        yield relay
