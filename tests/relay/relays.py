"""`Relays`: several relays on one clock, by their addresses, and hosts that know all of them."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from tests.bindings.asgi import App
from tests.relay.wire import End
from tests.relay.world import AGENT, RelayWorld, open_relay

from trunkline.relay.carrier import Socket
from trunkline.relay.hosts.dialing import CONNECT_S, DialFailed
from trunkline.relay.hosts.host import Host, HostSettings
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.testing import FakeClock, settle

URLS = ("wss://one.example/agent", "wss://two.example/agent", "wss://three.example/agent")


class Relays:
    def __init__(self, worlds: list[RelayWorld]) -> None:
        self.worlds = worlds
        # The relay behind each address.
        self.at = {urlsplit(url).netloc: world for url, world in zip(URLS, worlds, strict=False)}
        self.clock = worlds[0].clock
        # When each address was dialed.
        self.dialed: list[tuple[str, float]] = []
        self.hosts: list[Host] = []
        self.token = "host-token"
        # The addresses where attempts get no answer, and those that lead nowhere.
        self.silent: set[str] = set()
        self.down: set[str] = set()
        self._sockets: list[tuple[str, Socket]] = []

    def attempts(self) -> Counter[str]:
        return Counter(name for name, _ in self.dialed)

    async def dial(self, url: str, token: str) -> Socket:
        name = urlsplit(url).netloc
        self.dialed.append((name, self.clock.monotonic()))
        if name in self.silent:
            await self.clock.sleep(CONNECT_S)
            raise DialFailed("connecting took too long")
        if name in self.down:
            raise DialFailed("cannot connect")
        socket = await self.at[name].wire.dial(url, token)
        self._sockets.append((name, socket))
        return socket

    def open_ends(self, name: str) -> list[End]:
        """The connections that were made by this address."""
        ends = [socket for at, socket in self._sockets if at == name and isinstance(socket, End)]
        return [end for end in ends if end.closed is None]

    async def attach(
        self, app: App, *, relays: int = 2, chance: Callable[[], float] = lambda: 0.5
    ) -> Host:
        """A host of the first relays, once it had time to attach."""
        host = Host(
            HostSettings(url=URLS[0], standby=URLS[1:relays], agents={AGENT: "me/helper"}),
            app=app,
            callers=RelayedCallers(),
            token=self._tell_token,
            clock=self.clock,
            dial=self.dial,
            chance=chance,
        )
        self.hosts.append(host)
        host.start()
        await settle()
        return host

    async def _tell_token(self) -> str:
        if not self.token:
            raise DialFailed("there is no token")
        return self.token


@asynccontextmanager
async def open_relays(count: int) -> AsyncIterator[Relays]:
    async with AsyncExitStack() as stack:
        clock = FakeClock()
        worlds = [
            await stack.enter_async_context(open_relay(clock=clock, transport="websocket"))
            for _ in range(count)
        ]
        relays = Relays(worlds)
        try:
            yield relays
        finally:
            for host in relays.hosts:
                await host.close()
