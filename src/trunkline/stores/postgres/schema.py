"""`migrate`: brings a database to the schema of this release.

Nodes of two releases may use one database during an upgrade: the first of the newer release adds
what it needs, and the others keep using the part that they know.
"""

import asyncio
import logging
import re
from importlib.resources import files
from typing import Any

import psycopg
from msgspec import Struct

from trunkline.config.urls import postgres_place
from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres.connect_problems import no_connection, not_migrated, why_unsuitable
from trunkline.stores.postgres.connection import CONNECT_S

_log = logging.getLogger("trunkline.store")

# The advisory lock of whoever changes the schema: "TRNK" and a number.
_LOCK = (0x54524E4B, 1)
# How long a migration waits for a table that is in use before it lets the others pass.
_LOCK_TIMEOUT = "2s"
_ATTEMPTS = 30


class Version(Struct, frozen=True):
    """What a database has: 0 for an empty one."""

    version: int
    min_code: int


def migrations() -> dict[int, str]:
    """The scripts of this release, by their number."""
    found: dict[int, str] = {}
    for file in files(__package__).joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{3})_\w+\.sql", file.name)
        if match is not None:
            found[int(match[1])] = file.read_text("utf-8")
    if sorted(found) != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations are not numbered 001, 002, …: {sorted(found)}")
    return found


def why_unusable(found: Version, latest: int) -> str | None:
    """Why this release cannot use a database; None when it can."""
    if found.min_code > latest:
        return (
            f"the database was changed by a newer release (schema {found.version}, for releases "
            f"that know {found.min_code}; this one knows {latest}). Run that release or newer."
        )
    return None


async def read_version(connection: psycopg.AsyncConnection[Any]) -> Version:
    cursor = await connection.execute("SELECT to_regclass('trunkline') IS NOT NULL")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return Version(0, 0)
    cursor = await connection.execute("SELECT version, min_code FROM trunkline")
    row = await cursor.fetchone()
    if row is None:
        raise StoreUnusable("The table trunkline of the database is empty. Restore a backup.")
    return Version(*row)


async def migrate(url: str) -> Version:
    """Run the migrations that the database lacks. Several nodes may try at once. The URL must lead
    to the server itself, because a lock does not last behind a pooler. Raises StoreUnusable."""
    scripts = migrations()
    name = postgres_place(url)
    try:
        return await _migrate(url, name, scripts)
    except psycopg.Error as error:
        raise no_connection(name, error) from error


async def _migrate(url: str, name: str, scripts: dict[int, str]) -> Version:
    connection = await psycopg.AsyncConnection.connect(
        url, autocommit=True, connect_timeout=int(CONNECT_S)
    )
    async with connection:
        if (unsuitable := why_unsuitable(name, connection)) is not None:
            raise unsuitable
        found = await read_version(connection)
        if (reason := why_unusable(found, len(scripts))) is not None:
            raise StoreUnusable(f"The store {name} cannot be used: {reason}")
        if found.version >= len(scripts):
            return found
        # Asked for again and again: waiting inside PostgreSQL would hold a snapshot, which an index
        # that is built meanwhile waits for.
        while not await _is_true(connection, "SELECT pg_try_advisory_lock(%s, %s)", _LOCK):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # noqa: TID251 - the lock belongs to another process
        try:
            for number in range((await read_version(connection)).version + 1, len(scripts) + 1):
                _log.info("migrating the store", extra={"schema": number})
                try:
                    await _run(connection, number, scripts[number])
                except psycopg.Error as error:
                    raise not_migrated(name, number, error) from error
        finally:
            await connection.execute("SELECT pg_advisory_unlock(%s, %s)", _LOCK)
        return await read_version(connection)


async def _is_true(connection: psycopg.AsyncConnection[Any], sql: str, values: Any) -> bool:
    row = await (await connection.execute(sql, values)).fetchone()
    return row is not None and bool(row[0])


async def _run(connection: psycopg.AsyncConnection[Any], number: int, script: str) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                await connection.execute(script.encode())
                await connection.execute("UPDATE trunkline SET version = %s", (number,))
            return
        except psycopg.errors.LockNotAvailable:
            if attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(1.0)  # noqa: TID251 - lets the statements of other nodes pass
