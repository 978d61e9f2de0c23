"""`prepare`: brings a database file to the schema of this release."""

import logging
import re
import sqlite3
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.ports.caller_records import answer_id, array_text, key_body

_log = logging.getLogger("trunkline.store")

# "TRNK": tells our files from other SQLite databases.
APPLICATION_ID = 0x54524E4B


class Schema(Struct, frozen=True):
    # The statements for a new file.
    latest: str
    # Version 1 was the first; migration n leads from version n - 1 to n.
    migrations: dict[int, str]

    @property
    def version(self) -> int:
        return max(self.migrations, default=1)


def load_schema(folder: Traversable) -> Schema:
    migrations: dict[int, str] = {}
    scripts = folder.joinpath("migrations")
    for file in scripts.iterdir() if scripts.is_dir() else ():
        match = re.fullmatch(r"(\d{3})_\w+\.sql", file.name)
        if match is not None:
            migrations[int(match[1])] = file.read_text("utf-8")
    if sorted(migrations) != list(range(2, len(migrations) + 2)):
        raise ValueError(f"migrations are not numbered 002, 003, …: {sorted(migrations)}")
    return Schema(folder.joinpath("schema.sql").read_text("utf-8"), migrations)


def shipped_schema() -> Schema:
    return load_schema(files(__package__))


def check_version(connection: sqlite3.Connection, schema: Schema, path: str) -> int:
    """The version that the file has; 0 for one that is empty. Raises StoreUnusable."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnusable(
            f"{path} is a SQLite database of another program. Give the store another file."
        )
    if version > schema.version:
        raise StoreUnusable(
            f"The store {path} was written by a newer release (schema {version}, this one "
            f"knows {schema.version}). Run that release or newer, or restore a backup."
        )
    return int(version) if tables else 0


def prepare(connection: sqlite3.Connection, schema: Schema, path: str) -> None:
    """Create or migrate, one transaction per version. Raises StoreUnusable."""
    version = check_version(connection, schema, path)
    if not version:
        _run(connection, schema.latest, schema.version)
        return
    # What migrations write has the format of its time: a record kind never gets another one.
    connection.create_function("array_text", -1, array_text, deterministic=True)
    connection.create_function("key_body", 2, key_body, deterministic=True)
    connection.create_function("answer_id", 3, answer_id, deterministic=True)
    for step in range(version + 1, schema.version + 1):
        # Before it, because it may take a while.
        _log.info("migrating the store", extra={"store": path, "schema": step})
        _run(connection, schema.migrations[step], step)


def _run(connection: sqlite3.Connection, script: str, version: int) -> None:
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\n"
            f"PRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {version};\nCOMMIT;"
        )
    except sqlite3.Error:
        connection.rollback()
        raise
