"""What an operator reads when a gateway cannot start on PostgreSQL, and releases side by side."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from signal import SIGHUP

import pytest
from tests.postgres.server import PostgresServer, embedded_binaries, postgres
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app
from trunkline.model.errors import StoreUnusable
from trunkline.stores.postgres import connect_problems, schema
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing.stores.kit import create, must_get, must_put

pytestmark = pytest.mark.usefixtures("logging_as_before")


def serve(url: str, folder: Path) -> Result:
    command = ["serve", "--db", url, "--data", str(folder), "--port", "0"]
    return CliRunner().invoke(app, command)


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that keeps what it acknowledged and asks the user `gateway` for a password."""
    with postgres(embedded_binaries()) as server:
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("local all gateway scram-sha-256\n" + rules.read_text())
        server.execute("CREATE ROLE gateway LOGIN PASSWORD 's3cret'")
        server.signal(SIGHUP)
        yield server


def url_of(server: PostgresServer, database: str, password: str = "s3cret") -> str:
    return f"postgresql://gateway:{password}@/{database}?host={server.folder}"


def test_the_server_may_refuse(guarded: PostgresServer, tmp_path: Path) -> None:
    guarded.execute("CREATE DATABASE foreign_one")
    guarded.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    refusals = {
        url_of(guarded, "postgres", "wr0ng"): "Correct user and password in `url` of [store].",
        url_of(guarded, "none"): 'database "none" does not exist. Create it',
        url_of(guarded, "foreign_one"): "GRANT CREATE, USAGE ON SCHEMA public",
        url_of(guarded, "latin"): "with the encoding LATIN1",
        f"postgresql:///x?host={tmp_path}": "Look whether PostgreSQL runs",
        "postgresql://u:s3cret@127.0.0.1:1/x": "Look whether PostgreSQL runs",
    }
    for url, remedy in refusals.items():
        result = serve(url, tmp_path / "data")
        assert (result.exit_code, remedy in result.stderr) == (1, True), result.stderr
        assert "s3cret" not in result.output
        assert "wr0ng" not in result.output
        # One sentence with the remedy, and nothing of the parts that did not start.
        assert "lanes" not in result.stderr


def test_a_server_that_may_lose_commits_is_refused(postgres_url: str, tmp_path: Path) -> None:
    result = serve(postgres_url, tmp_path)
    assert result.exit_code == 1
    assert "fsync, full_page_writes, synchronous_commit switched off" in result.stderr


def test_a_server_that_is_too_old_is_refused(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_problems, "MIN_SERVER", 99)
    result = serve(postgres_url, tmp_path)
    assert result.exit_code == 1
    assert "99 or newer is needed. Upgrade the server." in result.stderr


def test_the_package_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "psycopg" else found(name)
    )
    url = "postgresql://u:s3cret@db/x"
    for command in (["serve", "--port", "0"], ["db", "migrate"], ["nodes"]):
        result = CliRunner().invoke(app, [*command, "--db", url, "--data", str(tmp_path)])
        assert result.exit_code == 2
        assert 'store.kind = "postgres": needs the package psycopg' in result.stderr
        assert "pip install 'trunkline[postgres]'" in result.stderr


async def test_an_older_release_works_beside_a_newer_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The database has one migration that the older release does not know.
    newest = schema.migrations()
    newer = {**newest, len(newest) + 1: "CREATE TABLE later (id int)"}
    monkeypatch.setattr(schema, "migrations", lambda: newer)
    new = PostgresStore(postgres_url, allow_unsafe=True)
    await new.open()
    monkeypatch.setattr(schema, "migrations", lambda: newest)
    old = PostgresStore(postgres_url, allow_unsafe=True)
    await old.open()
    await must_put(old, create("old"))
    await must_put(new, create("new"))
    for store in (old, new):
        assert [(await must_get(store, each)).task_id for each in ("old", "new")] == ["old", "new"]
    # Until a migration says that it does not.
    last = len(newer) + 1
    newest_again = {**newer, last: f"UPDATE trunkline SET min_code = {last}"}
    monkeypatch.setattr(schema, "migrations", lambda: newest_again)
    assert await schema.migrate(postgres_url) == schema.Version(last, last)
    monkeypatch.setattr(schema, "migrations", lambda: newest)
    with pytest.raises(StoreUnusable, match=r"changed by a newer release.*Run that release"):
        await schema.migrate(postgres_url)
    # Those that run go on until they are replaced.
    await must_put(old, create("last"))
    for store in (old, new):
        await store.close()


def test_migrate_as_the_owner_of_the_database(guarded: PostgresServer, tmp_path: Path) -> None:
    guarded.execute("CREATE DATABASE owned OWNER gateway")
    url = url_of(guarded, "owned")
    for _ in range(2):
        result = CliRunner().invoke(app, ["db", "migrate", "--db", url])
        assert result.exit_code == 0, result.stderr
        assert f"/owned: has schema {len(schema.migrations())}\n" in result.stdout
        assert "s3cret" not in result.output
