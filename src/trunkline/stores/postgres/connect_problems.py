"""Why a database cannot be used by a gateway that starts, and the remedy. Nothing here has a
password: libpq never puts one into a message."""

from typing import Any, Final

import psycopg

from trunkline.model.errors import StoreUnusable

# The oldest server that the tests run on.
MIN_SERVER: Final = 15

# What libpq and the server say, in part, and the remedy. The server may speak another language, and
# then its message stands alone.
_REMEDIES: Final = (
    (
        ("unsupported startup parameter",),
        "The address leads to a pooler. Set prepared_statements = false in [store], and listen_url "
        "to the address of the database itself.",
    ),
    (
        ("password authentication failed", "no password supplied"),
        "Correct user and password in `url` of [store].",
    ),
    (
        ("does not exist",),
        "Create it, or correct `url` of [store]. For a new database: "
        "CREATE DATABASE trunkline ENCODING 'UTF8' TEMPLATE template0.",
    ),
    (
        ("no pg_hba.conf entry", "authentication failed"),
        "Let pg_hba.conf of the server allow this user to connect from here.",
    ),
    (
        ("too many connections", "remaining connection slots", "too many clients"),
        "Raise max_connections of the server, or put a pooler in between. A gateway needs up to "
        "11 connections.",
    ),
    (
        ("certificate", "SSL", "GSSAPI"),
        "Correct sslmode and the certificates in `url` of [store].",
    ),
    (
        ("read-only", "standby", "hot standby"),
        "Give the primary server in `url` of [store], or all servers, separated by commas.",
    ),
    (
        ("refused", "No such file", "could not translate", "not known", "timeout", "unreachable"),
        "Look whether PostgreSQL runs and can be reached from here, and correct host and port in "
        "`url` of [store].",
    ),
)


def no_connection(name: str, error: Exception) -> StoreUnusable:
    # What libpq asks at the end, the remedy says better.
    text = " ".join(str(error).split()).partition(" Is the server running")[0].rstrip(".")
    remedy = next(
        (remedy for parts, remedy in _REMEDIES if any(part in text for part in parts)), ""
    )
    return StoreUnusable(f"The store {name} cannot be opened: {text}. {remedy}".rstrip())


def why_unsuitable(name: str, connection: psycopg.AsyncConnection[Any]) -> StoreUnusable | None:
    """Why this server or database does not do; None when it does."""
    version = connection.info.server_version
    if version < MIN_SERVER * 10_000:
        return StoreUnusable(
            f"The store {name} is on PostgreSQL {version // 10_000}, and {MIN_SERVER} or newer is "
            "needed. Upgrade the server."
        )
    encoding = connection.info.parameter_status("server_encoding") or ""
    if encoding != "UTF8":
        return StoreUnusable(
            f"The store {name} is a database with the encoding {encoding}, which cannot keep every "
            "text. Create it with ENCODING 'UTF8' TEMPLATE template0."
        )
    return None


def not_migrated(name: str, number: int, error: psycopg.Error) -> StoreUnusable:
    text = " ".join(str(error).split())
    remedy = "The database is as it was before."
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        remedy += (
            " Make the user of `url` the owner of the database, or GRANT CREATE, USAGE ON SCHEMA "
            "public to it, or run `trunkline db migrate` as the owner."
        )
    elif isinstance(error, psycopg.errors.LockNotAvailable):
        remedy += " Another session holds one of its tables; try again when it has ended."
    return StoreUnusable(
        f"The store {name} cannot be migrated to schema {number}: {text}. {remedy}"
    )
