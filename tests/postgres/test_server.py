"""The servers that tests run on: databases apart, data that outlives a kill, nothing left over."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from tests.postgres.fixtures import ON_EVERY_POSTGRES
from tests.postgres.server import DEADLINE_S, PostgresServer, process_state


def write(url: str, number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n int)")
        connection.execute("INSERT INTO numbers VALUES (%s)", [number])


def read(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def write_one(url: str) -> None:
    write(url, 1)


@ON_EVERY_POSTGRES
def test_databases_are_copies_of_a_template_and_apart(postgres_server: PostgresServer) -> None:
    first, second = (postgres_server.create_database(write_one) for _ in range(2))
    write(first, 2)
    assert (read(first), read(second)) == ([1, 2], [1])


async def test_the_database_of_a_test_has_the_schema(postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        cursor = await connection.execute(
            "SELECT version, (SELECT count(*) FROM tasks) FROM trunkline"
        )
        [(version, tasks)] = await cursor.fetchall()
    assert version >= 1
    assert tasks == 0


def test_a_database_with_open_connections_is_dropped(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(write_one)
    with psycopg.connect(url) as left:
        left.execute("SELECT * FROM numbers")
        postgres_server.drop_database(url)
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            left.execute("SELECT 1")


def test_a_server_starts_again_with_all_it_acknowledged(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database(write_one)
    for number, end in enumerate((own_postgres.kill, own_postgres.stop, own_postgres.stop_at_once)):
        with psycopg.connect(url) as other:
            other.execute("INSERT INTO numbers VALUES (-1)")
            write(url, number + 2)
            end()
            with pytest.raises(psycopg.OperationalError):
                other.execute("SELECT 1")
        own_postgres.start()
    assert read(url) == [1, 2, 3, 4]


def test_a_stopped_server_answers_when_it_goes_on(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database(write_one)
    with psycopg.connect(url) as connection:
        own_postgres.signal_backends(signal.SIGSTOP)
        state = process_state(connection.info.backend_pid)
        own_postgres.signal_backends(signal.SIGCONT)
        assert state == "T"
        assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]


_KILLED = """
from tests.postgres.server import PostgresServer, embedded_binaries
server = PostgresServer(embedded_binaries())
print(server.folder, server.pid, flush=True)
input()
"""


def test_a_killed_test_run_leaves_no_process_and_no_folder() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout is not None
        folder, pid = tests.stdout.readline().split()
        tests.kill()
    left = [Path(folder), Path("/proc", pid)]
    deadline = time.monotonic() + DEADLINE_S
    while any(path.exists() for path in left):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
