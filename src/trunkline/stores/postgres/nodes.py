"""`read_nodes`: the nodes that share a database, for operators."""

from importlib.resources import files

import msgspec
import psycopg
from msgspec import Struct

from trunkline.config.urls import postgres_place
from trunkline.stores.postgres.connect_problems import no_connection
from trunkline.stores.postgres.connection import CONNECT_S
from trunkline.stores.postgres.schema import read_version
from trunkline.stores.statements import Statements

SQL = Statements(files(__package__).joinpath("nodes.sql").read_text("utf-8"))


class NodeState(Struct, frozen=True, kw_only=True):
    """A node as the database knows it."""

    node: str
    host: str
    pid: int
    release: str
    started_ms: int
    is_alive: bool
    # Until the others take over its lanes, if it does not beat again; negative when that is past.
    lease_left_s: float
    # Since the others gave it up or it left; None for one that lives.
    dead_for_s: float | None
    lanes: int


class _About(Struct, frozen=True):
    host: str = ""
    pid: int = 0
    release: str = ""
    started_ms: int = 0


async def read_nodes(url: str) -> list[NodeState]:
    """Raises StoreUnusable."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, connect_timeout=int(CONNECT_S)
        )
        async with connection:
            if not (await read_version(connection)).version:
                return []
            # Not prepared, as it may not be behind some poolers.
            cursor = await connection.execute(SQL["get_nodes"].encode(), prepare=False)
            rows = await cursor.fetchall()
    except psycopg.Error as error:
        raise no_connection(postgres_place(url), error) from error
    return [
        NodeState(
            node=f"{node:016x}",
            is_alive=is_alive,
            lease_left_s=left,
            dead_for_s=dead_for,
            lanes=lanes,
            **msgspec.structs.asdict(msgspec.json.decode(about, type=_About)),
        )
        for node, about, is_alive, left, dead_for, lanes in rows
    ]
