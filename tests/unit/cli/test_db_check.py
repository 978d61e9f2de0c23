"""`trunkline db check` on stores that a gateway has written, sound and damaged."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stores import DURABLE
from tests.runtime.world import world
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app
from trunkline.cli.exit_codes import Exit
from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Put
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import key, must_change

CONFIG = '[store]\nkind = "{kind}"\npath = "{path}"\n[agents."test/agent"]\nname = "A"\n'
CONFIG += 'backend = {{ kind = "echo" }}\n'


async def write(folder: Path, kind: str) -> None:
    """Tasks of every kind, as the runtime writes them."""
    store = DURABLE[kind](folder)
    async with world(store=store) as w:
        await w.send("say done", key="once")
        paused = await w.send("ask which?", context="c")
        await w.send("say that one", task=paused.id, context="c")
        await w.send("ask again?", context="d")
        await w.send("stream 200", context="e")
        await w.send("fail badly")
        await w.cancel((await w.submit("hang", context="f")).id)
        done = await w.send("stream 9", context="g")
        await store.prune_journal(done.id, up_to=4)
        await must_change(store, Put(key=key("due"), tags=("tag",), due_in_ms=0))
    async with world(store=DURABLE[kind](folder), agent_style="hybrid") as w:
        await w.listed()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in ("sqlite", "json-file")}
    for kind, folder in folders.items():
        asyncio.run(write(folder, kind))
    return folders


@pytest.fixture
def database(written: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(written["sqlite"], tmp_path / "copy")
    return tmp_path / "copy" / "store.db"


@pytest.fixture
def folder(written: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(written["json-file"], tmp_path / "copy")
    return tmp_path / "copy" / "tasks"


def check(path: Path, *words: str, kind: str = "sqlite") -> Result:
    config = path.parent.parent / "trunkline.toml"
    config.write_text(CONFIG.format(kind=kind, path=path))
    return CliRunner().invoke(app, ["db", "check", "--config", str(config), *words])


def faults(path: Path, *, kind: str = "sqlite") -> list[dict[str, str]]:
    result = check(path, "-o", "json", kind=kind)
    document: dict[str, Any] = json.loads(result.stdout)
    [store] = document["stores"]
    found: list[dict[str, str]] = store["faults"]
    assert document["sound"] is (not found)
    assert result.exit_code == (Exit.DAMAGED if found else Exit.DONE)
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")
    }


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        assert connection.execute(statement).rowcount > 0, statement
    connection.commit()
    connection.close()


def test_a_sound_database(database: Path) -> None:
    before = files(database.parent)
    result = check(database)
    assert result.exit_code == 0, result.output
    # The key of a request, the one that is due, and that of retention.
    assert result.stdout.endswith(" journal entries, 3 records, sound\n")
    assert f"{database}: 7 tasks, " in result.stdout
    assert faults(database) == []
    assert files(database.parent) == before


def test_a_sound_folder(folder: Path) -> None:
    before = files(folder)
    result = check(folder, kind="json-file")
    assert result.exit_code == 0, result.output
    assert f"{folder}: 7 tasks, " in result.stdout
    assert result.stdout.endswith(" journal entries, 3 records, sound\n")
    assert files(folder) == before


FIRST = "(SELECT min(key) FROM tasks)"
LONGEST = "(SELECT place >> 24 FROM events GROUP BY 1 ORDER BY count(*) DESC LIMIT 1)"
DAMAGE: dict[str, tuple[str, str, str]] = {
    "no-scope": (
        "UPDATE tasks SET scope = 99 WHERE key = " + FIRST,
        "reference",
        "1 tasks of an unknown scope",
    ),
    "no-task": ("DELETE FROM tasks WHERE key = " + FIRST, "reference", "snapshots of no task"),
    "no-record": ("DELETE FROM records WHERE id = 'due'", "reference", "1 tags of no record"),
    "no-tag": ("DELETE FROM record_tags", "reference", "1 tags that find no record"),
    "no-due-scope": ("DELETE FROM due_scopes", "reference", "2 due records that no claim finds"),
    "record-task": (
        "UPDATE records SET task = 99 WHERE kind = 'key.1'",
        "reference",
        "1 records of no task",
    ),
    "count": ("UPDATE counts SET n = n + 1", "count", "is said to have"),
    "state": ("UPDATE tasks SET state = 6 WHERE state = 5", "task", "it is listed as"),
    "snapshot": (
        "UPDATE snapshots SET body = CAST('{' || substr(body, 9) AS BLOB)",
        "task",
        "the snapshot cannot be read",
    ),
    "zeros": (
        "UPDATE snapshots SET body = zeroblob(length(body))",
        "task",
        "the snapshot of task id-000002 is damaged",
    ),
    "other": (
        "UPDATE snapshots SET body = CAST(replace(CAST(body AS TEXT), 'say done', 'say DONE') "
        "AS BLOB) WHERE CAST(body AS TEXT) LIKE '%say done%'",
        "task",
        "is not what the journal gives",
    ),
    "entry": (
        "UPDATE events SET body = zeroblob(length(body))",
        "task",
        "cannot be read",
    ),
    "ended": (
        "DELETE FROM snapshots WHERE task = " + FIRST,
        "task",
        "its snapshot holds 0 of",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_inside_a_database(database: Path, case: str) -> None:
    statement, kind, what = DAMAGE[case]
    change(database, statement)
    found = faults(database)
    assert any(fault["kind"] == kind and what in fault["what"] for fault in found), found
    assert all(fault["remedy"] for fault in found)
    result = check(database)
    assert what in result.stdout
    assert "problem" in result.stdout


def test_a_hole_in_a_journal(database: Path) -> None:
    # The pieces of a long answer are rows of their own, here with one missing in the middle.
    connection = sqlite3.connect(database)
    places = [place for (place,) in connection.execute("SELECT place FROM events ORDER BY place")]
    tasks = [place >> 24 for place in places]
    long = max(set(tasks), key=tasks.count)
    middle = [place for place in places if place >> 24 == long][1]
    connection.close()
    change(database, f"DELETE FROM events WHERE place = {middle}")
    [fault] = faults(database)
    assert fault["what"].startswith("the journal has a hole: entry ")
    assert fault["task_id"]


@pytest.mark.parametrize("page", [1, 3, 7])
def test_pages_of_zeros(database: Path, page: int) -> None:
    with database.open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))
    found = faults(database)
    assert {"kind": "page", "what": f"page {page + 1} is empty"}.items() <= found[0].items()


def test_a_database_that_is_cut_off(database: Path) -> None:
    with database.open("r+b") as file:
        file.truncate(20_000)
    [fault] = faults(database)
    assert fault["kind"] == "file"
    assert "it has 20000 bytes" in fault["what"]


def test_a_file_that_is_no_store_cannot_be_checked(tmp_path: Path) -> None:
    other = tmp_path / "data" / "other.db"
    other.parent.mkdir()
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    result = check(other)
    assert result.exit_code == Exit.FAILED
    assert "another program" in result.stderr
    missing = check(tmp_path / "data" / "none.db")
    assert missing.exit_code == Exit.WRONG_USE
    assert "there is no store" in missing.stderr


def test_a_database_in_use_is_checked_beside_the_gateway(database: Path) -> None:
    async def run() -> Result:
        store = SqliteStore(database)
        await store.open()
        try:
            return await asyncio.to_thread(check, database)
        finally:
            await store.close()

    result = asyncio.run(run())
    assert result.exit_code == 0, result.output


def test_a_folder_in_use_cannot_be_checked(folder: Path) -> None:
    async def run() -> Result:
        store = DURABLE["json-file"](folder.parent)
        await store.open()
        try:
            return await asyncio.to_thread(check, folder, kind="json-file")
        finally:
            await store.close()

    result = asyncio.run(run())
    assert result.exit_code == Exit.FAILED
    assert "already" in result.stderr


def cut_record(folder: Path) -> None:
    path = min(folder.glob("*.json"))
    path.write_bytes(path.read_bytes()[:200])


def change_record(folder: Path) -> None:
    for path in folder.glob("*.json"):
        text = path.read_text()
        head, own = text.split('"trunkline":')
        if '"snapshot":{' in own and "done" in own:
            start, snapshot = own.split('"snapshot":{')
            replaced = snapshot.replace("done", "DONE")
            path.write_text(f'{head}"trunkline":{start}"snapshot":{{{replaced}')
            return
    raise AssertionError("no record has a snapshot")


def damage_log(folder: Path) -> None:
    (folder / "changes-0000000000000001.log").write_bytes(b"00000000 []\n00000000 []\n")


def damage_notes(folder: Path) -> None:
    (folder / "notes.jsonl").write_bytes(b"none\n")


def damage_records(folder: Path) -> None:
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind"', b'"kin', 1))


def change_task_of_record(folder: Path) -> None:
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"taskId":"', b'"taskId":"other'))


@pytest.mark.parametrize(
    ("damage", "kind", "what"),
    [
        (cut_record, "record", "Task record "),
        (change_record, "task", "is not what the journal gives"),
        (damage_log, "log", "is damaged at byte 0"),
        (damage_notes, "record", "is damaged in line 1"),
        (damage_records, "record", "records.jsonl is damaged in line 2"),
        (change_task_of_record, "reference", "is of no task"),
    ],
    ids=["record", "snapshot", "log", "notes", "records", "record-task"],
)
def test_damage_inside_a_folder(
    folder: Path, damage: Callable[[Path], None], kind: str, what: str
) -> None:
    damage(folder)
    before = files(folder)
    found = faults(folder, kind="json-file")
    assert [fault["kind"] for fault in found] == [kind]
    assert what in found[0]["what"]
    assert files(folder) == before
    assert check(folder, kind="json-file").exit_code == Exit.DAMAGED


def test_a_start_and_a_check_agree(database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(8192)
        file.write(bytes(4096))
    assert faults(database)
    with pytest.raises(StoreUnusable, match="trunkline db check"):
        asyncio.run(SqliteStore(database).open())
