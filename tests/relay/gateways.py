"""`RelayedWorld`: two gateways in one process. One is a relay, and all requests go there; the other
has the agent."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Asgi
from tests.bindings.clients import CLIENTS, Address, Client
from tests.bindings.world import BASE_URL, HANDLE, KEYS, World, settings
from tests.relay.polling_wire import MemoryHttp
from tests.relay.wire import End, Wire

from trunkline.app import runtimes
from trunkline.app.adapters import make_store
from trunkline.app.gateway import Gateway, build
from trunkline.background import BackgroundTasks
from trunkline.config.secret import Secret
from trunkline.ports.cluster import Cluster
from trunkline.ports.store import Store
from trunkline.ports.websocket import WebSocketMount
from trunkline.relay.hosts import dialing, transports
from trunkline.relay.nodes.hop_sockets import HOP_PATH
from trunkline.server.websocket import WebSocketEndpoint
from trunkline.settings import Settings
from trunkline.settings.auth import ApiKey
from trunkline.settings.cluster import ClusterSettings
from trunkline.settings.relay import AGENT_PATH, RelaySettings
from trunkline.settings.stores import StoreSettings
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore

RELAY_URL = "https://relay.example"
PATH = "/t/acme/a2a/scripted"
TOKEN = "the-token-of-the-host"
RELAY = RelaySettings(
    url="wss://relay.example/agent", tenant="acme", agent_id="scripted", token=Secret(TOKEN)
)


class RelayedWorld(World):
    def __init__(self, host: Gateway, relay: Gateway, clock: FakeClock, wire: Wire) -> None:
        super().__init__(host, clock)
        self.relay = relay
        self.relay_tasks = BackgroundTasks("test")
        self.wire = wire
        self.direct = self.http
        self.http = Asgi(relay.application)

    def client(
        self,
        dialect: str,
        principal: str = "alice",
        *,
        tenant: str = "",
        agent: str = "",
        headers: dict[str, str] | None = None,
    ) -> Client:
        assert not agent
        return CLIENTS[dialect](
            self.http,
            key=KEYS.get(principal, principal),
            tenant=tenant,
            address=Address(jsonrpc=PATH, rest=PATH),
            headers=headers,
        )


def relay_settings() -> Settings:
    plain = settings(server={"relay": True})
    host = {"laptop": ApiKey(key=Secret(TOKEN), attach=("acme/*",))}
    return replace(plain, agents={}, auth=replace(plain.auth, keys=plain.auth.keys | host))


@asynccontextmanager
async def open_world_of_two_relays(
    monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[RelayedWorld]:
    """The agent is attached at one relay, and all requests come to another one on its store."""
    clock = FakeClock()
    store = SharedStore(clock)
    places = {f"node{number}": store.node() for number in range(2)}
    monkeypatch.setattr(runtimes, "make_store", partial(_store_at, places))
    monkeypatch.setattr(runtimes, "make_cluster", _cluster_of)
    entry = build(_relay_at("node1"), base_url=RELAY_URL, clock=clock)
    holder = _relay_at("node0")
    async with open_relayed_world(monkeypatch, at_relay=holder, clock=clock, **options) as world:
        hops = Wire(_mount(world.relay, HOP_PATH), world.relay_tasks)

        async def dial_node(_: str, credential: str) -> End:
            return await hops.connect(credential)

        monkeypatch.setattr(dialing, "dial_node", dial_node)
        await entry.open()
        world.http = Asgi(entry.application)
        try:
            yield world
        finally:
            await entry.close()
            await world.relay_tasks.close()


def _relay_at(place: str) -> Settings:
    return replace(
        relay_settings(),
        store=StoreSettings(kind="memory", path=place),
        cluster=ClusterSettings(node_url=f"http://{place}"),
    )


def _store_at(places: Mapping[str, Node], settings: StoreSettings, **options: Any) -> Store:
    return places.get(settings.path) or make_store(settings, **options)


def _cluster_of(_: StoreSettings, store: Store, **options: Any) -> Cluster | None:
    return store if isinstance(store, Node) else None


def _mount(gateway: Gateway, path: str) -> WebSocketMount:
    mounted = gateway.application._mounts[path]
    assert isinstance(mounted, WebSocketEndpoint)
    return mounted.mount


@asynccontextmanager
async def open_relayed_world(
    monkeypatch: pytest.MonkeyPatch,
    *,
    mode: str = "both",
    at_relay: Settings | None = None,
    token: str = TOKEN,
    clock: FakeClock | None = None,
    standby: Sequence[str] = (),
    transport: Literal["websocket", "long-poll"] = "websocket",
    **options: Any,
) -> AsyncIterator[RelayedWorld]:
    clock = clock or FakeClock()
    relay = build(at_relay or relay_settings(), base_url=RELAY_URL, clock=clock)
    tasks = BackgroundTasks("wire")
    wire = Wire(_mount(relay, AGENT_PATH), tasks)
    monkeypatch.setattr(dialing, "dial", wire.dial)
    monkeypatch.setattr(transports, "OwnHttp", lambda _: MemoryHttp(relay.application))
    own = replace(
        settings(**options),
        relay=replace(
            RELAY, mode=mode, standby=tuple(standby), token=Secret(token), transport=transport
        ),
    )
    assert own.default_agent() == HANDLE
    host = build(own, base_url=BASE_URL, clock=clock)
    await relay.open()
    await host.open()
    await settle()
    try:
        yield RelayedWorld(host, relay, clock, wire)
    finally:
        await host.close()
        await relay.close()
        await tasks.close()
        await settle()
