"""Hosts in the process of the test, which attach to a relay in a process of its own; and callers
without a library, so that hundreds of both fit on a small machine."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway

from trunkline.clock import SystemClock
from trunkline.relay.carrier import Socket
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.host import Host, HostSettings, HostState
from trunkline.relay.hosts.relayed_callers import RelayedCallers

ALICE_KEY, HOST_TOKEN = "alice-has-this-key", "the-hosts-have-this-token"
RELAY = f"""
[server]
relay = true
[auth.keys.alice]
key = "{ALICE_KEY}"
[auth.keys.hosts]
key = "{HOST_TOKEN}"
attach = ["acme/*"]
"""
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@contextmanager
def relay_process(folder: Path, config: str = RELAY) -> Iterator[Gateway]:
    with gateway(folder, config) as relay:
        relay.start()
        yield relay


class AttachedHost:
    """A host that dials again at once; `sockets` are its connections, the oldest first."""

    def __init__(
        self, port: int, app: App, *, agent: str = "helper", token: str = HOST_TOKEN
    ) -> None:
        self.sockets: list[Socket] = []
        self._token = token
        self.host = Host(
            HostSettings(url=f"ws://127.0.0.1:{port}/agent", agents={f"acme/{agent}": "me/agent"}),
            app=app,
            callers=RelayedCallers(),
            token=self._tell_token,
            clock=SystemClock(),
            dial=self._dial,
            chance=lambda: 0.0,
        )
        self.host.start()

    async def attached(self) -> "AttachedHost":
        await until(lambda: bool(self.host.attached_agents), self._trouble)
        return self

    def _trouble(self) -> str:
        return f"{self.host.state}: {self.host.trouble}"

    @property
    def is_refused(self) -> bool:
        return self.host.state is HostState.REFUSED

    async def _tell_token(self) -> str:
        return self._token

    async def _dial(self, url: str, token: str) -> Socket:
        socket = await dialing.dial(url, token)
        self.sockets.append(socket)
        return socket

    @property
    def transport(self) -> asyncio.Transport:
        """That of the newest connection."""
        connection: Any = self.sockets[-1]
        transport: asyncio.Transport = connection._socket._connection.transport
        return transport

    def cut(self) -> None:
        """Lose the connection, as when a cable is pulled and the kernel notices."""
        if self.sockets:
            self.transport.abort()

    async def close(self) -> None:
        """As a process that is killed: nobody is told."""
        self.cut()
        await self.host.close()


@asynccontextmanager
async def hosts() -> AsyncIterator[list[AttachedHost]]:
    """Those that are put into the list are closed in the end."""
    made: list[AttachedHost] = []
    try:
        yield made
    finally:
        await asyncio.gather(*(host.close() for host in made))


class Echo:
    """Answers each request with its body, and counts how often each body came."""

    def __init__(self) -> None:
        self.runs: Counter[bytes] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, has_more = body + message["body"], message["more_body"]
        self.runs[body] += 1
        head = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


async def until(is_true: Callable[[], bool], told: Callable[[], str] = lambda: "") -> None:
    """Poll, because sockets and processes have no events of ours."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not is_true():
        assert asyncio.get_running_loop().time() < deadline, told()
        await asyncio.sleep(0.01)


def request(
    body: bytes = b"",
    *,
    agent: str = "helper",
    key: str = ALICE_KEY,
    below: str = "",
    more: str = "",
) -> bytes:
    method = "POST" if body else "GET"
    return (
        f"{method} /t/acme/a2a/{agent}{below} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    ).encode() + body


class Caller:
    """One connection to the relay, which makes one request after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, data: bytes) -> None:
        if self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(data)

    async def call(self, data: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        await self.send(data)
        status, headers = await self.head()
        assert self._reader is not None
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return status, body

    async def head(self) -> tuple[int, dict[str, str]]:
        assert self._reader is not None
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = dict(re.findall(r"^([^:\r\n]+): *([^\r\n]*)", text.lower(), re.MULTILINE))
        return int(text.split()[1]), headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a body, up to the last one. Raises IncompleteReadError without that."""
        assert self._reader is not None
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            data = (await self._reader.readexactly(size + 2))[:size]
            if not size:
                return
            yield data

    def pause(self) -> None:
        """Read nothing any more."""
        assert self._writer is not None
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


@asynccontextmanager
async def caller(port: int) -> AsyncIterator[Caller]:
    made = Caller(port)
    try:
        yield made
    finally:
        made.close()
