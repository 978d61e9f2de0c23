"""`copy_store`: copies one store to another, for `trunkline db copy`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from msgspec import Struct

from trunkline.app.adapters import make_store
from trunkline.app.postgres import make_copyable_store, require_unused
from trunkline.clock import SystemClock
from trunkline.model.errors import ConfigError
from trunkline.ports.copying import CopyableStore
from trunkline.settings import StoreSettings, demo, load
from trunkline.settings.stores import (
    database_path,
    make_private_dir,
    own_folder,
    place_of,
    table_of_url,
)
from trunkline.stores.copying import Copied, Progress, StoreCopy


class StorePlace(Struct, frozen=True):
    """A store on the command line: a URL, or a configuration file, whose `[store]` is meant."""

    store: StoreSettings
    # The agent that gets the tasks which another program has left there; empty when the URL does
    # not tell.
    adopting: str = ""

    @classmethod
    def of(cls, text: str) -> "StorePlace":
        """Raises ConfigError."""
        if text.endswith(".toml") and "://" not in text:
            settings = load(text)
            users = [agent for agent in settings.agents.values() if agent.store is None]
            adopting = settings.adopting_agent(settings.store) if users else ""
            return cls(settings.store, adopting)
        store = demo(overrides={"store": table_of_url(text)}).store
        if store.kind == "memory":
            raise ConfigError(f"{text}: a store in memory is gone when its gateway stops.")
        return cls(store)

    @property
    def name(self) -> str:
        return place_of(self.store)

    @property
    def exists(self) -> bool:
        return self.store.kind == "postgres" or database_path(self.store).exists()


def copy_store(
    source: StorePlace, target: StorePlace, on_progress: Callable[[Progress], None]
) -> Copied:
    """Raises ConfigError and StoreError."""
    if source.name == target.name:
        raise ConfigError(f"{source.name} is source and target. Give another target.")
    if not source.exists:
        raise ConfigError(f"{source.name}: there is no such store.")
    return asyncio.run(_copy(source, target, on_progress))


async def _copy(
    source: StorePlace, target: StorePlace, on_progress: Callable[[Progress], None]
) -> Copied:
    for place in (source, target):
        if place.store.kind == "postgres":
            await require_unused(place.store)
    async with opened(source) as from_, opened(target) as to:
        if any(not scope.agent for scope in await from_.scopes()):
            raise ConfigError(
                f"{source.name} has tasks that another program left there, and the URL does not "
                "tell to which agent they belong. Give the configuration file of the gateway in "
                "place of the URL."
            )
        return await StoreCopy(from_, to, name=source.name, on_progress=on_progress).run()


@asynccontextmanager
async def opened(place: StorePlace) -> AsyncIterator[CopyableStore]:
    """The store, open, for this process alone. Raises StoreInUse."""
    store = _make(place)
    if place.store.kind != "postgres":
        make_private_dir(_folder(place.store))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _make(place: StorePlace) -> CopyableStore:
    if place.store.kind == "postgres":
        return make_copyable_store(place.store, clock=SystemClock())
    # As every other kind that survives its process.
    return cast("CopyableStore", make_store(place.store, agent=place.adopting, clock=SystemClock()))


def _folder(store: StoreSettings) -> Path:
    return database_path(store) if store.kind == "json-file" else own_folder(store)
