"""A gateway in this process: the real application, with a scripted agent and a clock that
stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.bindings.asgi import Asgi
from tests.bindings.clients import CLIENTS, Address, Client

from trunkline.app.gateway import Gateway, build
from trunkline.backends.scripted import ScriptedBackend
from trunkline.config.secret import Secret
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.gate import Gate
from trunkline.runtime.runtime import Runtime
from trunkline.settings import AgentSettings, Settings, StoreSettings
from trunkline.settings.auth import ApiKey, AuthSettings
from trunkline.settings.cluster import ClusterSettings
from trunkline.settings.server import ServerSettings
from trunkline.testing import FakeClock, settle
from trunkline.testing import ScriptedBackend as ScriptedAgent

HANDLE = "test/scripted"
KEYS = {"alice": "alice-has-a-long-key", "bob": "bob-has-another-long-key"}
BASE_URL = "https://gateway.example"

# A file, the URL of a PostgreSQL database, or None for a store in memory.
Database: TypeAlias = Path | str | None


class World:
    def __init__(self, gateway: Gateway, clock: FakeClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.http = Asgi(gateway.application)

    @property
    def runtime(self) -> Runtime:
        (only,) = self.gateway.runtimes
        return only

    @property
    def agent(self) -> ScriptedAgent:
        return self.agent_of(HANDLE)

    def agent_of(self, handle: str) -> ScriptedAgent:
        backend = self.runtime.agents[handle].backend
        assert isinstance(backend, ScriptedAgent)
        return backend

    def client(
        self,
        dialect: str,
        principal: str = "alice",
        *,
        tenant: str = "",
        agent: str = "",
        headers: dict[str, str] | None = None,
    ) -> Client:
        """`principal` may be empty for a caller without a key."""
        own = f"/api/a2a/v1/agents/{agent}"
        return CLIENTS[dialect](
            self.http,
            key=KEYS.get(principal, principal),
            tenant=tenant,
            address=Address(jsonrpc=own, rest=own) if agent else None,
            headers=headers,
        )


def settings(
    *,
    database: Database = None,
    store_kind: Literal["sqlite", "json-file"] = "sqlite",
    anonymous: str = "never",
    server: dict[str, Any] | None = None,
    grants: dict[str, dict[str, tuple[str, ...]]] | None = None,
    agents: dict[str, dict[str, Any]] | None = None,
    **agent: Any,
) -> Settings:
    """One scripted agent with these settings, or several by handle, for Alice and Bob, whose keys
    may have `grants`."""
    if database is None:
        store = StoreSettings(kind="memory")
    elif isinstance(database, str):
        store = StoreSettings(kind="postgres", url=Secret(database))
    else:
        store = StoreSettings(kind=store_kind, path=str(database), synchronous="normal")
    published: dict[str, dict[str, Any]] = agents or {HANDLE: agent}
    defaults: dict[str, Any] = {"name": "Scripted", "description": "Does as told"}
    return Settings(
        server=ServerSettings(**(server or {})),
        store=store,
        # By the clock of the database, which a test on a slow machine may take long for.
        cluster=ClusterSettings(beat_s=20.0, lease_s=60.0),
        auth=AuthSettings(
            keys={
                name: ApiKey(key=Secret(key), grants=(grants or {}).get(name))
                for name, key in KEYS.items()
            },
            anonymous="never" if anonymous == "never" else "loopback",
        ),
        agents={
            handle: AgentSettings(
                **(defaults | {"default": handle == HANDLE, "backend": ScriptedBackend()} | own)
            )
            for handle, own in published.items()
        },
    )


@asynccontextmanager
async def open_world(**options: Any) -> AsyncIterator[World]:
    clock = FakeClock()
    authenticators: Sequence[Authenticator] = options.pop("authenticators", ())
    gate: Gate | None = options.pop("gate", None)
    gateway = build(
        settings(**options),
        base_url=BASE_URL,
        clock=clock,
        authenticators=authenticators,
        gate=gate,
    )
    await gateway.runtimes.open()
    try:
        yield World(gateway, clock)
    finally:
        await gateway.runtimes.close()
    await settle()
    assert asyncio.all_tasks() - {asyncio.current_task()} == set()
