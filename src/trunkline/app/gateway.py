"""`Gateway`: the runtimes, and the ASGI application in front of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.applications import Starlette

from trunkline.app.adapters import load_agents
from trunkline.app.card_signer import card_signer
from trunkline.app.directory import AgentDirectory
from trunkline.app.endpoints import Endpoints
from trunkline.app.front import Front
from trunkline.app.openclaw_channel import Channel
from trunkline.app.runtimes import Runtimes
from trunkline.clock import SystemClock
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Gate
from trunkline.server.application import Application
from trunkline.server.endpoint import Endpoint
from trunkline.settings import Settings

if TYPE_CHECKING:
    from trunkline.server.mcp.http import McpEndpoint


class Gateway(Struct, frozen=True, kw_only=True):
    front: Front
    runtimes: Runtimes
    directory: AgentDirectory
    channel: Channel

    @property
    def settings(self) -> Settings:
        """The settings in force, with the agents that are published now."""
        return self.directory.settings

    @property
    def application(self) -> Application:
        return self.front.application

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(self.directory.endpoints)

    @property
    def mcp(self) -> "McpEndpoint | None":
        return self.front.mcp


def build(
    settings: Settings,
    *,
    base_url: str,
    clock: Clock | None = None,
    authenticators: Sequence[Authenticator] = (),
    gate: Gate | None = None,
) -> Gateway:
    """Put the gateway together. Cards advertise `base_url`, which has a scheme and no slash at
    the end. `authenticators` come after the API keys. Every turn passes the `gate`."""
    settings, code = load_agents(settings)
    clock = clock or SystemClock()
    server = settings.server
    signer = None
    if server.card_key_path:
        signer = card_signer(server.card_key_path, base_url=base_url)
    runtimes = Runtimes(
        main=settings.store, server=server, clock=clock, times=settings.cluster.times, gate=gate
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Other ASGI servers run the lifespan; `serve` opens the runtimes itself.
        await runtimes.open()
        try:
            async with front.mcp.running() if front.mcp is not None else nullcontext():
                yield
        finally:
            await runtimes.drain(grace_s=server.drain_s)
            await runtimes.close()

    front = Front(
        settings,
        runtimes=runtimes,
        clock=clock,
        signer=signer,
        authenticators=authenticators,
        lifespan=lifespan,
    )
    directory = AgentDirectory(
        settings=settings,
        endpoints=Endpoints(settings=settings, base_url=base_url, clock=clock, signer=signer),
        runtimes=runtimes,
        application=front.application,
        clock=clock,
        on_change=front.agents_changed,
    )
    for handle, agent in settings.agents.items():
        if not agent.unavailable:
            directory.prepare(handle, code.get(handle))
    return Gateway(
        front=front, runtimes=runtimes, directory=directory, channel=Channel(directory.accounts)
    )


def create_app(settings: Settings, *, base_url: str = "") -> Application:
    """The gateway as an ASGI application with a lifespan, for another server to run.

    Its cards advertise `base_url`, else `server.public_url`, else the host and port of
    the settings.
    """
    server = settings.server
    own = server.public_url or f"http://{server.host}:{server.port}"
    return build(settings, base_url=(base_url or own).rstrip("/")).application
