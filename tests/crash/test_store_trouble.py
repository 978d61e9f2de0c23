"""What callers and `/readyz` are told when the files of the store are gone, damaged or full."""

import logging
import os
import resource
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.bindings.clients import Client, Refused
from tests.bindings.world import World, open_world

from trunkline.stores.sqlite import SqliteStore

KINDS = ["sqlite", "json-file"]
DIALECTS = ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"]


@pytest.fixture(autouse=True)
def look_at_every_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store looks at its file every few milliseconds, and these tests are faster."""
    defaults = SqliteStore.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "look_every_s", 0)


@asynccontextmanager
async def world_on(path: Path, kind: Any) -> AsyncIterator[World]:
    async with open_world(database=path, store_kind=kind) as world:
        yield world


async def readiness(world: World) -> tuple[int, str]:
    answer = await world.http.send(Http(method="GET", path="/readyz"))
    return answer.status, answer.body.decode()


async def refusal(call: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        await call
    return refused.value


def assert_unavailable(refused: Refused, path: Path) -> None:
    assert refused.reason == "UNAVAILABLE"
    assert refused.answer.status == 503
    assert int(refused.answer.headers["retry-after"]) > 0
    # What is wrong with which file is for the operator.
    assert str(path) not in refused.message
    assert refused.message


def store_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message.startswith("the store takes ")]


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def empty_log(path: Path) -> None:
    os.truncate(path.with_name(path.name + "-wal"), 0)


def put_another_in_its_place(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def remove_tasks(path: Path) -> None:
    # In one step: the gateway may be writing records there.
    path.rename(path.with_name("removed"))
    shutil.rmtree(path.with_name("removed"))


def remove_changes(path: Path) -> None:
    for file in path.glob("changes-*.log"):
        file.unlink()


def empty_changes(path: Path) -> None:
    for file in path.glob("changes-*.log"):
        os.truncate(file, 0)


def put_another_folder_in_its_place(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    # The store may rename a temporary file at this moment.
    shutil.copytree(path.with_name("elsewhere"), path, ignore=shutil.ignore_patterns("*.tmp"))


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    ("sqlite", delete),
    ("sqlite", delete_log),
    ("sqlite", empty_log),
    ("sqlite", put_another_in_its_place),
    ("sqlite", move_away),
    ("sqlite", remove_folder),
    ("sqlite", cut_short),
    ("json-file", remove_tasks),
    ("json-file", remove_changes),
    ("json-file", empty_changes),
    ("json-file", put_another_folder_in_its_place),
    ("json-file", move_away),
]


@pytest.mark.parametrize(
    ("kind", "damage"), DAMAGE, ids=[f"{kind}-{each.__name__}" for kind, each in DAMAGE]
)
async def test_nothing_is_acknowledged_on_files_that_are_gone(
    tmp_path: Path, kind: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data" / "store"
    async with world_on(path, kind) as world:
        client = world.client("jsonrpc-1.0")
        # One that waits keeps the log of a json-file store in use.
        await client.run("ask which?")
        await client.run("say before")
        assert (await readiness(world))[0] == 200
        damage(path)
        assert_unavailable(await refusal(client.run("say after")), path)
        status, text = await readiness(world)
        assert status == 503
        assert "not ready: The store " in text
        assert "estart the gateway" in text
        assert str(path) not in text
        # It needs a restart, so nothing that happens meanwhile turns it ready again.
        for dialect in DIALECTS:
            assert_unavailable(await refusal(world.client(dialect).run("say more")), path)
        await world.clock.advance(20)
        assert (await readiness(world))[0] == 503
    [line] = store_lines(caplog)
    assert line.levelno == logging.ERROR
    assert str(path) in str(line.__dict__["reason"])


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("sqlite", delete), ("sqlite", delete_log), ("json-file", remove_tasks)],
    ids=["sqlite", "sqlite-log", "json-file"],
)
async def test_an_idle_gateway_notices_that_its_files_are_gone(
    tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "data" / "store"
    async with world_on(path, kind) as world:
        await world.client("jsonrpc-1.0").run("ask which?")
        damage(path)
        await world.runtime.store.check()
        status, text = await readiness(world)
        assert status == 503
        assert "store" in text


async def test_what_was_acknowledged_before_is_still_shown(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with world_on(path, "sqlite") as world:
        client = world.client("jsonrpc-1.0")
        task = await client.run("say before")
        delete(path)
        assert_unavailable(await refusal(client.run("say after")), path)
        assert await client.get(task["id"]) == task
        assert [each["id"] for each in (await client.list())["tasks"]] == [task["id"]]


def overwrite_pages(path: Path) -> None:
    """Garbage over all but the first page; what the log holds goes to the file before."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    connection.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x07" * (size - 4096))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_damaged_pages_are_no_internal_error(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "store"
    async with world_on(path, "sqlite") as world:
        client = world.client(dialect)
        task = await client.run("say " + "long " * 3000)
        paused = await client.run("ask which?")
    # With nothing in its caches.
    async with world_on(path, "sqlite") as world:
        client = world.client(dialect)
        overwrite_pages(path)
        for call in every_read(client, task["id"], paused["id"]):
            assert_unavailable(await refusal(call), path)
        assert_unavailable(await refusal(client.run("say after")), path)
        status, text = await readiness(world)
        assert status == 503
        assert "damaged" in text
        assert "trunkline db check" in text


@pytest.mark.parametrize("damage", ["zeroblob(length(body))", "'{' || substr(body, 9)"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_damaged_values_are_no_internal_error(
    tmp_path: Path, dialect: str, damage: str
) -> None:
    path = tmp_path / "store"
    async with world_on(path, "sqlite") as world:
        task = await world.client(dialect).run("say done")
        paused = await world.client(dialect).run("ask which?")
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE snapshots SET body = CAST({damage} AS BLOB)")
        connection.commit()
        connection.close()
        client = world.client(dialect)
        assert_unavailable(await refusal(client.get(task["id"], historyLength=1)), path)
        assert_unavailable(await refusal(client.cancel(paused["id"])), path)
        assert_unavailable(await refusal(entered(client.subscribe(paused["id"]))), path)


async def test_a_deleted_log_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with world_on(path, "sqlite") as world:
        client = world.client("jsonrpc-1.0")
        before = await client.run("say before")
        delete_log(path)
        assert_unavailable(await refusal(client.run("say after")), path)
        # As after a kill: the process leaves the file as it is.
        copy = tmp_path / "copy" / "store"
        copy.parent.mkdir()
        shutil.copy(path, copy)
    for left in (path, copy):
        async with world_on(left, "sqlite") as world:
            client = world.client("jsonrpc-1.0")
            assert (await client.list())["tasks"][0]["id"] == before["id"]
            assert (await client.list())["totalSize"] == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_damaged_record_is_no_internal_error(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "store"
    async with world_on(path, "json-file") as world:
        task = await world.client(dialect).run("say done")
        paused = await world.client(dialect).run("ask which?")
    async with world_on(path, "json-file") as world:
        client = world.client(dialect)
        for file in path.glob("*.json"):
            file.write_bytes(file.read_bytes()[:100])
        for call in every_read(client, task["id"], paused["id"]):
            assert_unavailable(await refusal(call), path)
        assert_unavailable(await refusal(client.run("say after")), path)
        assert (await readiness(world))[0] == 503


def every_read(client: Client, ended: str, paused: str) -> Iterator[Any]:
    yield client.get(ended)
    if not client.name.endswith("0.3"):
        yield client.list()
    yield client.cancel(paused)
    yield entered(client.subscribe(paused))
    yield client.get(paused)


async def entered(stream: Any) -> None:
    async with stream:
        pass


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """The file that commits are written to may not grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    [log] = [*folder.rglob("store-wal"), *folder.rglob("changes-*.log")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_full_disk_shows_until_a_write_succeeds(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "data" / "store"
    async with world_on(path, kind) as world:
        client = world.client("jsonrpc-1.0")
        before = await client.run("ask which?")
        with full_disk(tmp_path):
            for dialect in DIALECTS:
                refused = await refusal(world.client(dialect).run("say " + "lost " * 20_000))
                assert_unavailable(refused, path)
            assert (await readiness(world))[0] == 503
            await entered_refused(client, path)
            # It is no better after the next look.
            await world.runtime.store.check()
            status, text = await readiness(world)
            assert status == 503
            assert "continues by itself" in text
            assert str(path) not in text
            assert (await client.get(before["id"]))["id"] == before["id"]
        # Nobody writes anything, and the gateway finds out by itself.
        await world.runtime.store.check()
        assert await readiness(world) == (200, "ready\n")
        assert (await client.run("say after"))["status"]["state"] == "TASK_STATE_COMPLETED"
    failed, recovered = store_lines(caplog)
    assert failed.levelno == logging.ERROR
    assert recovered.levelno == logging.INFO


async def entered_refused(client: Client, path: Path) -> None:
    assert_unavailable(await refusal(entered(client.stream("say " + "lost " * 20_000))), path)
