"""`trunkline db copy` and `db migrate`, on real files."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app
from trunkline.cli.db import ProgressLines
from trunkline.clock import SystemClock
from trunkline.ports.store import Scope, TaskQuery
from trunkline.stores.copying import Progress
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import ALICE, create, must_put, opened

pytestmark = pytest.mark.usefixtures("logging_as_before")


def db(*words: str) -> Result:
    return CliRunner().invoke(app, ["db", *words])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "a.db"

    async def fill() -> None:
        async with opened(lambda _: SqliteStore(file), "") as store:
            await must_put(store, create("one"), create("two"))

    asyncio.run(fill())
    return file


def test_a_store_is_copied_to_another_kind_and_back(source: Path, tmp_path: Path) -> None:
    folder = f"json-file:///{tmp_path / 'tasks'}"
    there = db("copy", f"sqlite:///{source}", folder)
    assert there.exit_code == 0, there.stderr
    assert there.stdout.startswith(
        f"copied sqlite at {source} to json-file at {tmp_path / 'tasks'}: 2 tasks and 0 records, "
    )
    back = db("copy", folder, f"sqlite:///{tmp_path / 'new' / 'b.db'}", "-o", "json")
    copied = json.loads(back.stdout)
    assert copied == {"tasks": 2, "records": 0, "hash": there.stdout.split()[-1]}


def test_a_configuration_file_names_its_store(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    agent = '[agents."acme/a"]\nname = "A"\nbackend = { kind = "echo" }\n'
    file.write_text(f'[store]\nkind = "json-file"\npath = "{tmp_path}/tasks"\n{agent}')
    assert db("copy", f"sqlite:///{source}", str(file)).exit_code == 0
    assert db("copy", str(file), f"sqlite:///{tmp_path}/b.db").exit_code == 0


def test_tasks_of_another_program_need_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
    (folder / "dA.json").write_text(
        json.dumps({"schemaVersion": 2, "task": task, "currentSequence": 0, "journal": []})
    )
    target = f"sqlite:///{tmp_path}/b.db"
    refused = db("copy", f"json-file:///{folder}", target)
    assert refused.exit_code == 2
    assert "Give the configuration file of the gateway" in refused.stderr
    file = tmp_path / "t.toml"
    agent = '[agents."acme/a"]\nname = "A"\nbackend = { kind = "echo" }\n'
    file.write_text(f'[store]\nkind = "json-file"\npath = "{folder}"\n{agent}')
    assert db("copy", str(file), target).exit_code == 0

    async def owner() -> Scope | None:
        async with opened(lambda _: SqliteStore(tmp_path / "b.db"), "") as store:
            return await store.owner("t")

    found = asyncio.run(owner())
    assert found is not None
    assert found.agent == "acme/a"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sqlite:///{0}/none.db", "sqlite:///{0}/b.db"], "there is no such store"),
        (["sqlite:///{0}/a.db", "sqlite:///{0}/x/../a.db"], "is source and target"),
        (["memory:", "sqlite:///{0}/b.db"], "is gone when its gateway stops"),
        (["none.toml", "sqlite:///{0}/b.db"], "none.toml: no such file"),
        (["mysql://u:s3cret@h/x", "sqlite:///{0}/b.db"], "mysql://***@h/x: expected sqlite:///"),
        (["sqlite:///{0}/a.db", "postgresql://u:s3cret@h"], "does not name the database"),
        (["sqlite:///{0}/a.db", "postgresql://u:s3cret/h/x"], "percent-encoded"),
    ],
)
def test_wrong_use_ends_with_2(source: Path, words: list[str], expected: str) -> None:
    result = db("copy", *[word.format(source.parent) for word in words])
    assert result.exit_code == 2
    assert expected in result.stderr
    assert "cret" not in result.stderr


def test_a_store_in_use_is_refused(source: Path, tmp_path: Path) -> None:
    async def copied_while_open(path: Path) -> Result:
        async with opened(lambda _: SqliteStore(path), ""):
            return await asyncio.to_thread(
                db, "copy", f"sqlite:///{source}", f"sqlite:///{tmp_path}/b.db"
            )

    for path in (source, tmp_path / "b.db"):
        result = asyncio.run(copied_while_open(path))
        assert result.exit_code == 1
        assert str(path) in result.stderr


def test_a_gateway_does_not_start_on_a_part_of_a_copy(source: Path, tmp_path: Path) -> None:
    assert db("copy", f"sqlite:///{source}", f"sqlite:///{tmp_path}/b.db").exit_code == 0

    async def unfinished() -> None:
        from trunkline.ports.copying import UNFINISHED_COPY
        from trunkline.ports.records import Put

        async with opened(lambda _: SqliteStore(tmp_path / "b.db"), "") as store:
            await store.change(Put(key=UNFINISHED_COPY, body=b'{"source":"x"}'))

    asyncio.run(unfinished())
    result = CliRunner().invoke(app, ["serve", "--db", f"sqlite:///{tmp_path}/b.db", "--port", "0"])
    assert result.exit_code == 1
    assert "Run the same command again" in result.stderr


async def test_progress_has_rate_and_remaining_time(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    lines = ProgressLines(clock)
    lines.report(Progress("copied tasks", 100, 1000))
    await clock.advance(4)
    lines.report(Progress("copied tasks", 500, 1000))
    await clock.advance(1)
    lines.report(Progress("copied tasks", 600, 1000))
    await clock.advance(9)
    lines.report(Progress("copied records", 5))
    assert capsys.readouterr().err.splitlines() == [
        "copied tasks: 500 of 1000, 100/s, 5 s left",
        "copied records: 5",
    ]


def test_migrate_brings_stores_to_the_format_of_the_release(source: Path, tmp_path: Path) -> None:
    result = db("migrate", "--db", f"sqlite:///{source}")
    assert (result.exit_code, result.stdout) == (0, f"sqlite at {source}: has schema 7\n")
    folder = tmp_path / "tasks"

    async def fill() -> None:
        store = JsonFileStore(folder, clock=SystemClock(), adopts=Scope("a", "", "p"))
        async with opened(lambda _: store, ""):
            await must_put(store, create("one"))
            assert (await store.list(TaskQuery(scope=ALICE))).total == 1

    asyncio.run(fill())
    result = db("migrate", "--db", f"json-file:///{folder}", "-o", "json")
    what = "has the format of this release"
    assert json.loads(result.stdout) == {
        "stores": [{"place": f"json-file at {folder}", "what": what}]
    }
    missing = db("migrate", "--db", f"sqlite:///{tmp_path}/none.db")
    assert missing.exit_code == 2
    assert "there is no store at" in missing.stderr
