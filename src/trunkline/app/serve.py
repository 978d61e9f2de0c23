"""Run the gateway in this process until it is told to stop."""

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final, Protocol, TextIO

import uvloop
from msgspec import Struct
from msgspec.structs import replace

from trunkline.app import hub_commands, routing_commands
from trunkline.app.gateway import Gateway, build
from trunkline.app.nodes import NodeInfo, this_gateway
from trunkline.app.relay import commands as relay_commands
from trunkline.app.relay.tenants import FirstTenant
from trunkline.app.reload import Load, Reload
from trunkline.background import BackgroundTasks
from trunkline.clock import SystemClock
from trunkline.config.secret import secrets_in
from trunkline.console.page.codes import FIRST_CODE_S
from trunkline.model.errors import OperatorRefused, TrunklineError
from trunkline.protocol.relay.addresses import path_of
from trunkline.protocol.versions import Version
from trunkline.relay.hosts.host import HostStatus
from trunkline.server import logs
from trunkline.server.listener import (
    Listener,
    hear_hangups_early,
    listen,
    room_for_connections,
)
from trunkline.server.mcp import PATH as MCP_PATH
from trunkline.server.operator_channel import OperatorChannel, OperatorCommands
from trunkline.server.shared import Shared
from trunkline.settings import Settings
from trunkline.settings.relay import AGENT_PATH
from trunkline.settings.stores import operator_path, place_of

# Number of new objects before a garbage collection, a few MB. Requests leave few cycles behind, and
# a collection after every 700 objects took 5 % of the CPU.
_YOUNG_OBJECTS = 20_000


# How often a watcher of the relay is told how things are there.
_WATCH_S: Final = 0.2


class Watcher(Protocol):
    """Shows how the gateway fares at its relay."""

    # Where the log goes; None means stderr.
    log: TextIO | None

    def show(self, status: HostStatus) -> int:
        """The exit code to stop with; 0 goes on."""
        ...


class ServeInfo(Struct, frozen=True, kw_only=True):
    """Facts about the running gateway, for the person who started it."""

    url: str
    # The address on this machine, also when `url` is that of a proxy. Empty when nothing listens.
    local_url: str
    # Empty when no agent is the default one.
    card_url: str
    # JSON-RPC of the agent to try, at `local_url`; empty when there is none.
    try_url: str
    data: str
    agents: list[tuple[str, str, str]]
    auth: str
    # Empty when no tools are served.
    mcp_url: str
    # Protocol version to try it with.
    version: str
    # Where other gateways attach their agents; empty for one that is no relay.
    attach_url: str = ""
    # The addresses of its agents at a relay.
    relayed: tuple[str, ...] = ()
    # The token of the first operator of the hub, at the one start that makes it.
    admin_token: str = ""
    # The tenants of the relay, and the tokens of the first one, at the one start that makes it.
    tenants: tuple[str, ...] = ()
    first_tenant: FirstTenant | None = None
    # Opens the page once; empty where the page cannot be opened so.
    page_url: str = ""

    def __repr__(self) -> str:
        return f"ServeInfo(url={self.url!r})"


def serve(
    settings: Settings,
    *,
    load: Load,
    on_ready: Callable[[ServeInfo], None],
    on_waiting: Callable[[], None] = lambda: None,
    first_tenant: str = "",
    listens: bool = True,
    watcher: Watcher | None = None,
) -> int:
    """Returns the exit code. Raises ConfigError and StoreError before it listens. A relay that has
    no tenant gets the `first_tenant`, unless that is empty.

    `load` reads the settings again for a reload. The server calls `on_waiting` when it must stop
    while turns are still running. A gateway that does not listen is reached through its relay
    alone.
    """
    stream = None if watcher is None else watcher.log
    _configure_logs(settings, secrets_in(settings), stream)
    return uvloop.run(_serve(settings, load, on_ready, on_waiting, first_tenant, listens, watcher))


def _configure_logs(settings: Settings, secrets: Iterable[str], stream: TextIO | None) -> None:
    server = settings.server
    logs.configure(
        level=server.log_level,
        form=server.log_format,
        secrets=secrets,
        requests=server.log_requests,
        stream=stream,
    )


async def _serve(
    settings: Settings,
    load: Load,
    on_ready: Callable[[ServeInfo], None],
    on_waiting: Callable[[], None],
    first_tenant: str,
    listens: bool,
    watcher: Watcher | None,
) -> int:
    early_hangup = asyncio.Event()
    hear_hangups_early(early_hangup.set)
    exit_code = 0
    socks = [listen(settings.server.host, settings.server.port)] if listens else []
    try:
        local_url = _local_url(settings, socks[0]) if socks else ""
        own_url = local_url or _relayed_url(settings)
        base_url = settings.server.public_url.rstrip("/") or own_url
        gateway = build(settings, base_url=base_url, local_url=local_url)
        await gateway.open()
        background = BackgroundTasks("reload")
        commands = OperatorCommands()
        channel = OperatorChannel(operator_path(settings.operator_store()), commands)
        try:
            admin_token = await gateway.first_admin_token()
            tenants = gateway.relaying.tenants
            first = None
            if tenants is not None and first_tenant:
                first = await tenants.first(first_tenant)
            async with gateway.mcp.running() if gateway.mcp is not None else nullcontext():
                shared = Shared(
                    gateway.application.serve,
                    max_header_bytes=settings.server.max_header_bytes,
                    budget=gateway.front.budget,
                    body_timeout_s=settings.server.body_timeout_s,
                    max_connections=room_for_connections(),
                    takes_websocket=gateway.application.takes_websocket,
                )

                def hang_up() -> None:
                    background.spawn(_reload(reload), name="SIGHUP")

                def started() -> None:
                    info = _info(gateway, base_url, local_url)
                    page_url = "" if gateway.console is None else gateway.console.url(FIRST_CODE_S)
                    on_ready(
                        replace(
                            info, admin_token=admin_token, first_tenant=first, page_url=page_url
                        )
                    )
                    if early_hangup.is_set():
                        hang_up()

                listener = Listener(
                    shared,
                    on_started=started,
                    drain=lambda grace_s: gateway.drain(grace_s=grace_s),
                    drain_s=settings.server.drain_s,
                    on_waiting=on_waiting,
                    on_hangup=hang_up,
                )

                def apply(settings: Settings) -> None:
                    # The directory hides the secrets of agents, for as long as they run.
                    stream = None if watcher is None else watcher.log
                    _configure_logs(settings, secrets_in(replace(settings, agents={})), stream)
                    shared.max_header_bytes = settings.server.max_header_bytes
                    shared.body_timeout_s = settings.server.body_timeout_s
                    listener.drain_s = settings.server.drain_s

                reload = Reload(gateway, load, local_url=own_url, on_apply=apply)
                commands.add("reload", lambda _: reload())
                commands.add("open", partial(_open_page, gateway))
                routing_commands.add_to(commands, gateway.routing.routing)
                relay_commands.add_to(commands, gateway.relaying)
                if gateway.hub is not None:
                    hub_commands.add_to(commands, gateway.hub)
                commands.add("nodes", partial(_tell_node, this_gateway(SystemClock().now_ms())))
                await channel.open()
                _tune_garbage_collection()

                async def watch(watcher: Watcher) -> None:
                    nonlocal exit_code
                    while not listener.should_exit:
                        status = gateway.relaying.status
                        exit_code = 0 if status is None else watcher.show(status)
                        if exit_code:
                            listener.should_exit = True
                        await SystemClock().sleep(_WATCH_S)

                if watcher is not None:
                    background.spawn(watch(watcher), name="show the relay")
                await listener.serve(sockets=socks)
        finally:
            await channel.close()
            await background.close()
            await gateway.close()
    finally:
        for sock in socks:
            sock.close()
    return exit_code


async def _reload(reload: Reload) -> None:
    # The log has the error, because a signal has no answer.
    with suppress(TrunklineError):
        await reload()


async def _open_page(gateway: Gateway, _: dict[str, Any]) -> dict[str, str]:
    """A URL that opens the page once. Raises OperatorRefused."""
    if gateway.console is None:
        raise OperatorRefused("this gateway has no page: console.enabled is false.")
    url = gateway.console.url()
    if not url:
        raise OperatorRefused(
            "this gateway does not listen on a loopback address of this machine, where alone a "
            "code counts. Sign in at its own address."
        )
    return {"url": url}


async def _tell_node(itself: NodeInfo, _: dict[str, Any]) -> NodeInfo:
    return itself


def _relayed_url(settings: Settings) -> str:
    """What stands for the address of a gateway that does not listen: that of its first agent."""
    assert settings.relay is not None
    return settings.relay.base_url + path_of(next(iter(settings.relay.handles(""))))


def _local_url(settings: Settings, sock: socket.socket) -> str:
    host, port = settings.server.host, sock.getsockname()[1]
    # A wildcard is an address to listen on, not one to call.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _info(gateway: Gateway, base_url: str, local_url: str) -> ServeInfo:
    settings = gateway.settings
    default = next(
        (e for e in gateway.endpoints if e.agent.handle == settings.default_agent()), None
    )
    tried = default or next(iter(gateway.endpoints), None)
    shown = {endpoint.agent.handle: endpoint for endpoint in reversed(gateway.endpoints)}
    return ServeInfo(
        url=base_url,
        local_url=local_url,
        card_url=base_url + default.card_paths[0] if default is not None else "",
        try_url=local_url + tried.jsonrpc_path if tried is not None and local_url else "",
        data=", ".join(map(place_of, settings.stores())) or "none",
        agents=[
            (handle, endpoint.card.name, base_url + endpoint.jsonrpc_path)
            for handle, endpoint in reversed(shown.items())
        ],
        auth=settings.auth_summary(),
        mcp_url=base_url + MCP_PATH if gateway.mcp is not None else "",
        attach_url=_attach_url(base_url) if settings.as_relay is not None else "",
        relayed=gateway.relaying.urls,
        tenants=gateway.relaying.tenant_names,
        version=(tried.dialects.only or tried.dialects.default) if tried else Version.V1_0,
    )


def _attach_url(base_url: str) -> str:
    # http becomes ws, and https wss.
    return f"ws{base_url.removeprefix('http')}{AGENT_PATH}"


def _tune_garbage_collection() -> None:
    """Call it once, on the running loop, after everything permanent is loaded."""
    # Modules and settings live as long as the process, so the collector need not look at them
    # again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
    # The loop would track every async generator to close it at the end; turns close their own
    # before that.
    sys.set_asyncgen_hooks(firstiter=None)
