"""`Relays`: several relays on one clock, by their addresses, and hosts that know all of them."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from tests.bindings.asgi import App
from tests.relay.world import AGENT, RelayWorld, open_relay

from trunkline.relay.carrier import Socket
from trunkline.relay.dialing import CONNECT_S, DialFailed
from trunkline.relay.host import Host, HostSettings
from trunkline.relay.relayed_callers import RelayedCallers
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
        # The relays where attempts get no answer.
        self.silent: set[RelayWorld] = set()

    def attempts(self) -> Counter[str]:
        return Counter(name for name, _ in self.dialed)

    async def dial(self, url: str, token: str) -> Socket:
        name = urlsplit(url).netloc
        self.dialed.append((name, self.clock.monotonic()))
        if self.at[name] in self.silent:
            await self.clock.sleep(CONNECT_S)
            raise DialFailed("connecting took too long")
        return await self.at[name].wire.dial(url, token)

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
