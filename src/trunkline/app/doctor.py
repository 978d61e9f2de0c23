"""`trunkline doctor`: checks that everything a configuration names exists and works. No check
changes anything."""

import asyncio
import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.app.adapters import check_backend, resources_for
from trunkline.app.postgres import read_nodes
from trunkline.app.relay.doctor import examine_relays
from trunkline.backends.python.settings import PythonBackend
from trunkline.background import BackgroundTasks
from trunkline.clock import SystemClock
from trunkline.model.errors import ConfigError, StoreInUse, StoreUnusable
from trunkline.ports.backend import Finding
from trunkline.server.listener import address, listen
from trunkline.settings import Settings, StoreSettings
from trunkline.settings.server import is_loopback_url
from trunkline.settings.stores import database_path, place_of
from trunkline.stores.locks import FileLock
from trunkline.stores.sqlite.connections import cannot_open, connect_reader
from trunkline.stores.sqlite.schema import check_version, shipped_schema

# Maximum number of agents that are checked at once. Some checks start a program.
AT_ONCE = 4
_WILDCARDS = ("0.0.0.0", "::", "")
_PRIVATE = Finding(
    "warning",
    "allow_private_addresses: whoever writes the card of an agent that is called can have this "
    "machine call any private address",
    "Use trusted_origins of the target or backend instead; this is for development.",
)


class Examined(Struct, frozen=True):
    """One finding, with the name of the part of the configuration that it is about."""

    part: str
    finding: Finding


async def examine(settings: Settings) -> AsyncIterator[Examined]:
    """Findings about server, access, stores, agents and relays, in this order, as they become
    known."""
    for finding in _server(settings):
        yield Examined("server", finding)
    yield Examined("auth", _access(settings))
    if settings.network.allow_private_addresses:
        yield Examined("network", _PRIVATE)
    for store in settings.stores():
        is_postgres = store.kind == "postgres"
        yield Examined("store", await _postgres(store) if is_postgres else _store(store))
    async for handle, findings in _agents(settings):
        for finding in findings:
            yield Examined(f'agents."{handle}"', finding)
    if settings.relay is not None:
        async for finding in examine_relays(settings.relay):
            yield Examined("relay", finding)


async def _agents(settings: Settings) -> AsyncIterator[tuple[str, list[Finding]]]:
    """The findings for each agent, in the order of the configuration."""
    tasks, room = BackgroundTasks("doctor"), asyncio.Semaphore(AT_ONCE)
    agents = settings.agents
    found: dict[str, list[Finding]] = {}

    async def look_at(handle: str) -> None:
        async with room:
            agent = agents[handle]
            resources = resources_for(agent, settings, clock=SystemClock())
            found[handle] = await check_backend(agent, resources)

    # Python agents first: an import blocks the loop, and other agents would seem not to answer.
    order = sorted(agents, key=lambda handle: not isinstance(agents[handle].backend, PythonBackend))
    looks = {handle: tasks.start(look_at(handle), name=handle) for handle in order}
    try:
        for handle in agents:
            await looks[handle]
            yield handle, found[handle]
    finally:
        await tasks.close()


def _server(settings: Settings) -> Iterator[Finding]:
    server = settings.server
    where = address(server.host, server.port)
    try:
        listen(server.host, server.port).close()
    except OSError as error:
        yield Finding(
            "warning",
            f"{where} is not available: {error.strerror or error}",
            "This is normal while the gateway runs. Otherwise choose another port.",
        )
    else:
        yield Finding("ok", f"{where} is free")
    yield from _addresses(settings)


def _addresses(settings: Settings) -> Iterator[Finding]:
    if settings.server.host in _WILDCARDS and not settings.server.public_url:
        yield Finding(
            "warning",
            "cards will name 127.0.0.1, which other machines cannot reach",
            'Set server.public_url, such as "https://agents.example.com".',
        )
    for url in settings.public_urls().values():
        if urlsplit(url).scheme == "http" and not is_loopback_url(url):
            yield Finding(
                "warning",
                f"{url} is not encrypted: keys can be intercepted",
                "Put a proxy with TLS in front, and use https.",
            )
        elif not _is_known(url):
            yield Finding("warning", f"the name in {url} is not known here", "Check the spelling.")
        else:
            yield Finding("ok", f"cards name {url}")


def _access(settings: Settings) -> Finding:
    """Whether callers can reach the agents without a key."""
    warning = settings.access_warning()
    if warning:
        what, _, remedy = warning.rpartition(". ")
        return Finding("warning", what, remedy)
    if not settings.allows_anonymous():
        return Finding("ok", f"every caller needs an API key ({', '.join(settings.auth.keys)})")
    if settings.is_exposed():
        urls = " and ".join(dict.fromkeys(settings.public_urls().values()))
        return Finding(
            "warning",
            f"whoever reaches {urls} may call without a key",
            "Add a key to [auth.keys], and remove anonymous.",
        )
    return Finding(
        "ok", "programs on this machine need no key; requests that came through a proxy are refused"
    )


def _is_known(url: str) -> bool:
    try:
        return bool(socket.getaddrinfo(urlsplit(url).hostname, None))
    except OSError:
        return False


def _store(store: StoreSettings) -> Finding:
    if store.kind == "memory":
        return Finding("warning", "tasks are kept in memory and are lost at a restart")
    path = database_path(store)
    if not path.exists():
        return _new_place(path)
    if store.kind == "json-file":
        is_usable = os.access(path, os.R_OK | os.W_OK | os.X_OK)
        return _usable(path) if is_usable else _unusable(path)
    try:
        return _database(path)
    except StoreUnusable as error:
        return Finding("error", error.message)


async def _postgres(store: StoreSettings) -> Finding:
    try:
        nodes = await read_nodes(store)
    except (ConfigError, StoreUnusable) as error:
        return Finding("error", error.message)
    living = sum(node.is_alive for node in nodes)
    return Finding("ok", f"{place_of(store)} can be reached; gateways that use it now: {living}")


def _database(path: Path) -> Finding:
    if not os.access(path, os.R_OK | os.W_OK):
        return _unusable(path)
    try:
        connection = connect_reader(path)
        try:
            version = check_version(connection, shipped_schema(), str(path))
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise cannot_open(path, error) from error
    lock = FileLock(path)
    try:
        lock.acquire()
    except StoreInUse as error:
        who = error.message.partition(". ")[0]
        return Finding("ok", f"{who[0].lower()}{who[1:]}, a running gateway")
    except OSError:
        return _unusable(path.parent)
    lock.release()
    if version < shipped_schema().version:
        return Finding("ok", f"{path} can be used; the next start migrates it")
    return _usable(path)


def _new_place(path: Path) -> Finding:
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        return _unusable(parent)
    return Finding("ok", f"{path} will be created at the first start")


def _usable(path: Path) -> Finding:
    return Finding("ok", f"{path} can be used")


def _unusable(path: Path) -> Finding:
    return Finding(
        "error",
        f"{path} is not writable",
        "Give write permission to the user of the gateway, or set path in [store].",
    )
