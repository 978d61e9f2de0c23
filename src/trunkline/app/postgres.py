"""The PostgreSQL store of a gateway: made of its settings, migrated, and its nodes for operators.

Its packages are imported when they are needed, because they come with the extra `postgres`.
"""

import importlib.util
from typing import TYPE_CHECKING

from trunkline.extras import install_command
from trunkline.model.errors import ConfigError, StoreInUse
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Cluster, Times
from trunkline.ports.copying import CopyableStore
from trunkline.ports.store import Store
from trunkline.settings import StoreSettings
from trunkline.settings.stores import place_of, url_of
from trunkline.stores.findings import Findings

if TYPE_CHECKING:
    from trunkline.stores.postgres.nodes import NodeState
    from trunkline.stores.postgres.store import PostgresStore


def require_psycopg() -> None:
    """Raises ConfigError."""
    if importlib.util.find_spec("psycopg") is None:
        raise ConfigError(
            'store.kind = "postgres": needs the package psycopg. Install it: '
            f"{install_command('postgres')}"
        )


def direct_url(settings: StoreSettings) -> str:
    """The URL that leads to the server itself."""
    listen_url = settings.listen_url
    return url_of(settings) if listen_url is None else listen_url.reveal()


def make_postgres_store(settings: StoreSettings, *, clock: Clock) -> "PostgresStore":
    """Raises ConfigError."""
    require_psycopg()
    from trunkline.stores.postgres.store import PostgresStore

    return PostgresStore(
        url_of(settings),
        direct_url=direct_url(settings),
        prepares=settings.prepared_statements,
        clock=clock,
    )


def make_copyable_store(settings: StoreSettings, *, clock: Clock) -> CopyableStore:
    """Raises ConfigError."""
    require_psycopg()
    from trunkline.stores.postgres.copying import CopyablePostgresStore

    return CopyablePostgresStore(
        url_of(settings),
        direct_url=direct_url(settings),
        prepares=settings.prepared_statements,
        clock=clock,
    )


def make_postgres_cluster(
    settings: StoreSettings, store: Store, *, times: Times, clock: Clock
) -> Cluster:
    from trunkline.stores.postgres.cluster import PostgresCluster
    from trunkline.stores.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return PostgresCluster(
        url_of(settings),
        store,
        listen_url=direct_url(settings),
        prepares=settings.prepared_statements,
        times=times,
        clock=clock,
    )


async def migrate(settings: StoreSettings) -> str:
    """Says what was done. Raises ConfigError and StoreUnusable."""
    require_psycopg()
    from trunkline.stores.postgres.schema import migrate as run

    done = await run(direct_url(settings))
    return f"has schema {done.version}"


async def check(settings: StoreSettings) -> Findings:
    """Raises ConfigError and StoreUnusable."""
    require_psycopg()
    from trunkline.stores.postgres.check import check as run

    return await run(url_of(settings))


async def read_nodes(settings: StoreSettings) -> "list[NodeState]":
    """Raises ConfigError and StoreUnusable."""
    require_psycopg()
    from trunkline.stores.postgres.nodes import read_nodes as read

    return await read(url_of(settings))


async def require_unused(settings: StoreSettings) -> None:
    """Raises StoreInUse while a gateway uses the database."""
    living = [node for node in await read_nodes(settings) if node.is_alive]
    if living:
        names = ", ".join(f"process {node.pid} on {node.host}" for node in living)
        raise StoreInUse(
            f"{place_of(settings)} is in use by {names}. Stop the gateways first; one that was "
            "killed counts until its lease is over."
        )
