"""`RelayedWorld`: two gateways in one process. One is a relay, and all requests go there; the other
has the agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Asgi
from tests.bindings.clients import CLIENTS, Address, Client
from tests.bindings.world import BASE_URL, HANDLE, KEYS, World, settings
from tests.relay.wire import Wire

from trunkline.app.gateway import Gateway, build
from trunkline.background import BackgroundTasks
from trunkline.config.secret import Secret
from trunkline.relay import dialing
from trunkline.server.websocket import WebSocketEndpoint
from trunkline.settings import Settings
from trunkline.settings.auth import ApiKey
from trunkline.settings.relay import AGENT_PATH, RelaySettings
from trunkline.testing import FakeClock, settle

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
async def open_relayed_world(
    monkeypatch: pytest.MonkeyPatch,
    *,
    mode: str = "both",
    at_relay: Settings | None = None,
    token: str = TOKEN,
    **options: Any,
) -> AsyncIterator[RelayedWorld]:
    clock = FakeClock()
    relay = build(at_relay or relay_settings(), base_url=RELAY_URL, clock=clock)
    mounted = relay.application._mounts[AGENT_PATH]
    assert isinstance(mounted, WebSocketEndpoint)
    tasks = BackgroundTasks("wire")
    wire = Wire(mounted.mount, tasks)
    monkeypatch.setattr(dialing, "dial", wire.dial)
    own = replace(settings(**options), relay=replace(RELAY, mode=mode, token=Secret(token)))
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
