"""A folder of the release before records: its keys, direct answers and notes become records.

`folders/before_records` was written by two processes of that release. The first one was closed, and
the second one was killed while a task ran, another one waited, and an agent worked on a request
that may need no task.
"""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.disk import Disk
from tests.runtime.world import SCOPE, World, world
from tests.unit.stores.jsonfiles import names, store_on

from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState, text_of
from trunkline.ports.caller_records import (
    ANSWER,
    KEY,
    NOTE,
    answer_id,
    caller_tag,
    decode_used_key,
    note_key,
    request_key,
)
from trunkline.ports.records import Delete, Record
from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile.check import check
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import must_change, opened

KEPT = Path(__file__).parent / "folders" / "before_records"
FINISHED, PAUSED = "first-000002", "first-000003"
RUNNING, QUEUED = "fourth-000002", "fourth-000003"
START_MS = 1_750_000_000_000
BOB = Scope("test/agent", "", "bob")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(KEPT, tmp_path / "tasks")


async def records(store: Store) -> list[Record]:
    return [
        record for kind in (KEY, ANSWER, NOTE) for record in await store.records(kind, limit=99)
    ]


async def dump(folder: Path) -> list[Record]:
    async with opened(lambda _: store_on(folder), "") as store:
        return await records(store)


async def test_keys_of_tasks_become_records_that_go_with_them(folder: Path) -> None:
    tasks = {"finished": FINISHED, "paused": PAUSED, "running": RUNNING, "queued": QUEUED}
    async with opened(lambda _: store_on(folder), "") as store:
        for key, task_id in tasks.items():
            record = await store.record(request_key(SCOPE, f"key:{key}"))
            assert record is not None
            assert (record.version, record.due_ms) == (1, None)
            assert decode_used_key(record.body).task_id == task_id
        assert await store.prune("test/agent", limit=9) == 1
        assert await store.record(request_key(SCOPE, "key:finished")) is None


async def test_keys_of_direct_answers_become_keys(folder: Path) -> None:
    async with opened(lambda _: store_on(folder), "") as store:
        keys = {
            key: await store.record(request_key(SCOPE, f"key:{key}"))
            for key in ("answered", "answered-2", "begun")
        }
    found = {key: decode_used_key(record.body) for key, record in keys.items() if record}
    assert [each.task_id for each in found.values()] == [
        "second-000002",
        "third-000002",
        "third-000003",
    ]
    answer = found["answered-2"].answer
    assert isinstance(answer, msgspec.Raw)
    assert msgspec.json.decode(answer)["parts"] == [{"text": "once more"}]
    assert found["begun"].answer is msgspec.UNSET
    assert [record and record.due_ms for record in keys.values()] == [
        START_MS,
        START_MS + 2000,
        START_MS + 2000,
    ]


async def test_answers_become_records_of_their_callers(folder: Path) -> None:
    async with opened(lambda _: store_on(folder), "") as store:
        mine = await store.records(ANSWER, tag=caller_tag(SCOPE, "c3"), limit=9)
        theirs = await store.records(ANSWER, tag=caller_tag(BOB), limit=9)
    # The first answer had expired before the process was killed.
    assert [(record.key.id, record.due_ms) for record in mine] == [
        (answer_id(START_MS + 1000, 10, ""), START_MS + 1000),
        (answer_id(START_MS + 2000, 12, ""), START_MS + 2000),
    ]
    (_, answer) = msgspec.json.decode(mine[0].body)
    assert answer["parts"] == [{"text": "again"}]
    assert [record.body for record in theirs] == [b'[{"messageId":"x"},{"messageId":"y"}]']


async def test_notes_become_records(folder: Path) -> None:
    async with opened(lambda _: store_on(folder), "") as store:
        notes = {record.key: record.body for record in await store.records(NOTE, limit=9)}
    assert notes == {
        note_key(SCOPE, "c2", "thread"): b"thread-2",
        note_key(Scope("test/other", "tenant", "bob"), "", "n"): "of another agent ✓".encode(),
    }


async def test_the_old_files_go_when_the_records_have_theirs(folder: Path) -> None:
    before = await dump(folder)
    assert len(before) == 12
    assert names(folder) == {
        "records.jsonl",
        *[f"{name}.json" for name in ("Zmlyc3QtMDAwMDAy", "Zmlyc3QtMDAwMDAz")],
        *[f"{name}.json" for name in ("Zm91cnRoLTAwMDAwMg", "Zm91cnRoLTAwMDAwMw")],
    }
    assert await dump(folder) == before


async def test_a_start_that_is_killed_at_any_step_is_repeated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await dump(shutil.copytree(KEPT, tmp_path / "whole"))
    disk = Disk(folder, tmp_path / "copies")
    with monkeypatch.context() as patch:
        disk.watch(patch)
        async with opened(lambda _: store_on(folder), "") as store:
            assert await records(store) == expected
    assert len(disk.cases) > 10
    for copy, _ in disk.cases:
        assert await dump(copy) == expected
        assert not {name for name in names(copy) if name.startswith(("notes", "exchanges"))}


async def test_what_is_deleted_later_does_not_come_back(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the process is killed while the old log is still there."""
    disk = Disk(folder, tmp_path / "copies")
    with monkeypatch.context() as patch:
        async with opened(lambda _: store_on(folder), "") as store:
            disk.watch(patch)
            expected = [await records(store)]
            await must_change(store, Delete(key=note_key(SCOPE, "c2", "thread")))
            disk.committed += 1
            expected.append(await records(store))
            assert await store.prune("test/agent", limit=9) == 1
            disk.committed += 1
            expected.append(await records(store))
    assert [len(each) for each in expected] == [12, 11, 10]
    for copy, committed in disk.cases:
        assert await dump(copy) in expected[committed : committed + 2]
    assert await dump(folder) == expected[-1]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


async def test_a_check_reads_the_old_files_and_leaves_them(folder: Path) -> None:
    before = contents(folder)
    findings = await check(folder, clock=FakeClock(), adopts=SCOPE)
    assert findings.faults == []
    assert (findings.tasks, findings.records) == (4, 12)
    assert contents(folder) == before


def edit(folder: Path, pattern: str, change: Callable[[bytes], bytes]) -> None:
    (path,) = folder.glob(pattern)
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("notes.jsonl", b'{"n":9}', b"{n", "notes.jsonl is damaged in line 1"),
        ("notes.jsonl", b'"name":"old"', b'"name"', "notes.jsonl is damaged in line 3"),
        ("exchanges-*.jsonl", b'"n":10', b'"n":"', ".jsonl is damaged in line 2"),
    ],
)
async def test_damage_is_named_with_the_line(
    folder: Path, file: str, old: bytes, new: bytes, what: str
) -> None:
    edit(folder, file, lambda data: data.replace(old, new, 1))
    with pytest.raises(StoreUnusable, match="Restore the file from a backup") as refused:
        await store_on(folder).open()
    assert what in refused.value.message


async def test_a_line_that_was_cut_off_is_no_line(folder: Path) -> None:
    edit(folder, "exchanges-*.jsonl", lambda data: data + b'{"type":"exchange","n":2')
    (folder / "exchanges-0.jsonl.tmp").write_bytes(b"{")
    assert len(await dump(folder)) == 12


def log_more(folder: Path, *changes: dict[str, Any]) -> None:
    """As a commit of the killed process."""
    (path,) = folder.glob("changes-*.log")
    line = json.dumps(changes).encode()
    with path.open("ab") as log:
        log.write(b"%08x %s\n" % (zlib.crc32(line), line))


def key_note(n: int, key: str, text: str) -> dict[str, Any]:
    scope = {"agent": "test/agent", "tenant": "", "principal": "alice"}
    name = f"idempotency-key key:{key}"
    note = {"scope": scope, "contextId": "", "name": name, "text": text, "atMs": START_MS}
    return {"type": "note", "n": n, **note}


async def test_the_key_of_a_task_outlasts_the_note_with_the_same_key(folder: Path) -> None:
    """A request without a task at first had both."""
    log_more(folder, key_note(22, "running", '{"digest":"","task_id":"x","context_id":""}'))
    log_more(folder, key_note(23, "queued", ""))
    async with opened(lambda _: store_on(folder), "") as store:
        for key, task_id in (("running", RUNNING), ("queued", QUEUED)):
            record = await store.record(request_key(SCOPE, f"key:{key}"))
            assert record is not None
            assert decode_used_key(record.body).task_id == task_id


async def test_a_task_that_was_deleted_leaves_no_key(folder: Path) -> None:
    """Neither one from a record nor one from the log."""
    for n, task_id in ((22, FINISHED), (23, QUEUED)):
        log_more(folder, {"type": "delete", "n": n, "taskId": task_id})
    async with opened(lambda _: store_on(folder), "") as store:
        for key in ("finished", "queued"):
            assert await store.record(request_key(SCOPE, f"key:{key}")) is None
        assert await store.record(request_key(SCOPE, "key:paused")) is not None


@pytest.fixture
def served(folder: Path) -> dict[str, Any]:
    clock = FakeClock(START_MS + 10_000)
    return {"store": store_on(folder, clock=clock), "clock": clock, "node": "new"}


async def test_the_tasks_are_served(served: dict[str, Any]) -> None:
    async with world(**served) as w:
        assert await w.state(FINISHED) is TaskState.COMPLETED
        again = await w.send("say done", key="finished", context="c1", id="m-finished")
        assert again.id == FINISHED
        assert await w.state(RUNNING) is TaskState.FAILED
        queued = await w.ended(QUEUED)
        assert queued.status.state is TaskState.COMPLETED
        assert (await w.submit("hang", key="running", context="c4", id="m-running")).id == RUNNING
        await w.send("say that one", task=PAUSED, context="c2")
        assert (await w.ended(PAUSED)).status.state is TaskState.COMPLETED


async def test_the_direct_answers_are_served(served: dict[str, Any]) -> None:
    async with world(**served, direct=True, agent_style="hybrid") as w:
        for key, text in (("answered", "hello"), ("answered-2", "once more")):
            words = {"answered": "say hello", "answered-2": "say once more"}[key]
            answer = await w.ask(words, key=key, context="c3", id=f"m-{key}")
            assert text_of(answer.parts) == text
        assert await turns(w) == 0
        begun = await w.send("hang", key="begun", context="c5", id="m-begun")
        assert begun.status.state is TaskState.FAILED
        assert await turns(w) == 0


async def turns(w: World) -> int:
    """How often the agent was asked with one of these messages."""
    return len([turn for turn in w.scripted.turns if turn.message.message_id != "m-queued"])
