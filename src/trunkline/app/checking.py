"""What `trunkline db check` does: each store is checked by its own kind of check."""

import asyncio

from trunkline.app.adapters import adopting_scope
from trunkline.app.store_maintenance import existing_stores
from trunkline.clock import SystemClock
from trunkline.settings import Settings, StoreSettings, database_path
from trunkline.stores.findings import Findings
from trunkline.stores.jsonfile.check import check as check_folder
from trunkline.stores.sqlite.check import check as check_database


def check_stores(settings: Settings) -> list[Findings]:
    """Raises StoreError for a store that cannot be checked at all."""
    return [_check(settings, store) for store in existing_stores(settings)]


def _check(settings: Settings, store: StoreSettings) -> Findings:
    path = database_path(store)
    if store.kind == "sqlite":
        return check_database(path)
    adopts = adopting_scope(store, agent=settings.adopting_agent(store))
    return asyncio.run(check_folder(path, clock=SystemClock(), adopts=adopts))
