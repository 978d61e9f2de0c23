"""Folders that another program has written: loaded as they are, rewritten at the next write."""

import json
from pathlib import Path
from typing import Any

from tests.runtime.world import World, next_morning, said
from tests.unit.stores.jsonfiles import OWNER, read_record, store_on, write_record

from trunkline.engine.recovery import restart_reason
from trunkline.model.values import TaskArtifactUpdateEvent, TaskState, text_of
from trunkline.ports.store import Scope, TaskQuery
from trunkline.testing.stores.kit import follow, ids, must_get, must_put, opened

STATUS = {"state": "completed", "timestamp": "2026-03-01T10:00:00.000Z"}
HELLO = {
    "kind": "message",
    "messageId": "m-1",
    "role": "user",
    "parts": [{"kind": "text", "text": "hello"}],
}
V1: dict[str, Any] = {
    "schemaVersion": 1,
    "task": {
        "kind": "task",
        "id": "old",
        "contextId": "ctx",
        "status": STATUS,
        "history": [HELLO],
        "artifacts": [
            {"artifactId": "a", "parts": [{"kind": "data", "data": {"n": 1}}], "name": "numbers"}
        ],
    },
}
BINDING = {
    "schemaVersion": 1,
    "agentId": "main",
    "channel": "a2a",
    "accountId": "default",
    "matchedBy": "default",
    "sessionKey": "agent:main:a2a:ctx",
    "mainSessionKey": "agent:main:main",
    "storePath": "/sessions/main.json",
    "peer": {"kind": "direct", "id": "ctx", "source": "context-id"},
    "createdAt": "2026-03-01T09:59:00.000Z",
    "updatedAt": "2026-03-01T10:00:00.000Z",
}
WORKING = {
    "kind": "status-update",
    "taskId": "t",
    "contextId": "ctx",
    "status": {"state": "working", "timestamp": "2026-03-01T09:59:01.000Z"},
    "final": False,
}
# Without `append` and `lastChunk`, and with a member that is nowhere else.
CHUNK = {
    "kind": "artifact-update",
    "taskId": "t",
    "contextId": "ctx",
    "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "so far"}]},
    "vendor": {"x": 1},
}
V2: dict[str, Any] = {
    "schemaVersion": 2,
    "task": {
        "kind": "task",
        "id": "t",
        "contextId": "ctx",
        "status": WORKING["status"],
        "history": [HELLO],
        "artifacts": [CHUNK["artifact"]],
    },
    "binding": BINDING,
    "currentSequence": 2,
    "journal": [{"sequence": 1, "event": WORKING}, {"sequence": 2, "event": CHUNK}],
}


async def test_i11_v1_is_read_with_an_empty_journal_and_left_alone(tmp_path: Path) -> None:
    path = write_record(tmp_path, V1)
    before = path.read_bytes()
    async with opened(lambda _: store_on(tmp_path), "") as store:
        task = await must_get(store, "old", OWNER)
        assert (task.state, task.context_id, task.tail) == (TaskState.COMPLETED, "ctx", ())
        assert task.status_ms == task.created_ms == 1772359200000
        assert task.snapshot is not None
        assert json.loads(task.snapshot.artifacts)[0]["name"] == "numbers"
        assert await store.entries("old", after=0, limit=9) == ()
        assert await store.get(Scope("acme/echo", "", "another"), "old") is None
    assert path.read_bytes() == before


async def test_i11_v1_becomes_v2_at_the_next_write(tmp_path: Path) -> None:
    write_record(tmp_path, {**V1, "binding": BINDING})
    async with opened(lambda _: store_on(tmp_path), "") as store:
        task = await must_get(store, "old", OWNER)
        append = follow("old", task.last_seq, count=0, snapshot=task.snapshot, state=task.state)
        await must_put(store, append)
    record = read_record(tmp_path, "old")
    assert (record["schemaVersion"], record["currentSequence"], record["journal"]) == (2, 0, [])
    assert record["task"] == V1["task"]
    assert record["binding"] == BINDING
    async with opened(lambda _: store_on(tmp_path), "") as store:
        again = await must_get(store, "old", OWNER)
        assert again.snapshot == task.snapshot


async def test_i11_journal_of_another_program_is_kept_and_continued(tmp_path: Path) -> None:
    write_record(tmp_path, V2)
    async with opened(lambda _: store_on(tmp_path), "") as store:
        entries = await store.entries("t", after=0, limit=9)
        assert [entry.seq for entry in entries] == [2, 3]
        chunk = entries[1].public
        assert isinstance(chunk, TaskArtifactUpdateEvent)
        assert (text_of(chunk.artifact.parts), chunk.append) == ("so far", False)
        task = await must_get(store, "t", OWNER)
        assert (task.last_seq, task.tail) == (3, ())

    w = World(store=store_on(tmp_path, adopts=Scope("test/agent", "", "alice")), node="new")
    w.clock = next_morning()
    await w.open()
    ended = await w.ended("t")
    assert (ended.status.state, said(ended)) == (
        TaskState.FAILED,
        restart_reason(TaskState.WORKING),
    )
    await w.close()
    record = read_record(tmp_path, "t")
    # What was there is as it was, down to what nobody here understands.
    assert record["journal"][:2] == V2["journal"]
    assert record["journal"][2]["sequence"] == record["currentSequence"] == 3
    assert record["journal"][2]["event"]["status"]["state"] == "failed"
    assert record["binding"] == BINDING
    assert record["task"]["artifacts"] == V2["task"]["artifacts"]


async def test_unfinished_tasks_of_another_program_are_orphans(tmp_path: Path) -> None:
    write_record(tmp_path, V1)
    write_record(tmp_path, V2)
    async with opened(lambda _: store_on(tmp_path), "") as store:
        page = await store.list(TaskQuery(scope=OWNER))
        assert (ids(page.tasks), page.total) == (["old", "t"], 2)
        assert await store.unfinished() == ((OWNER, "t"),)
        assert (await store.list(TaskQuery(scope=OWNER, limit=1))).next is not None


async def test_they_are_listed_and_continued_by_their_times(tmp_path: Path) -> None:
    for number in (2, 0, 3, 1):
        status = {"state": "submitted", "timestamp": f"2026-03-01T10:00:0{number}.000Z"}
        task = {**V1["task"], "id": f"t{number}", "status": status}
        write_record(tmp_path, {"schemaVersion": 1, "task": task})
    newest_first = ["t3", "t2", "t1", "t0"]
    for rewritten in ("t1", "t3", ""):
        async with opened(lambda _: store_on(tmp_path), "") as store:
            first = await store.list(TaskQuery(scope=OWNER, limit=2))
            rest = await store.list(TaskQuery(scope=OWNER, limit=2, after=first.next))
            assert ids(first.tasks) + ids(rest.tasks) == newest_first
            assert [task_id for _, task_id in await store.unfinished()] == newest_first[::-1]
            if rewritten:
                # The record of another program becomes one of ours.
                written = await must_get(store, rewritten, OWNER)
                again = follow(
                    rewritten,
                    written.last_seq,
                    state=TaskState.SUBMITTED,
                    status_ms=written.status_ms,
                )
                await must_put(store, again)


async def test_task_without_a_time_is_as_old_as_its_file(tmp_path: Path) -> None:
    task = {**V1["task"], "status": {"state": "completed"}}
    path = write_record(tmp_path, {"schemaVersion": 1, "task": task})
    async with opened(lambda _: store_on(tmp_path), "") as store:
        loaded = await must_get(store, "old", OWNER)
        assert loaded.status_ms == path.stat().st_mtime_ns // 1_000_000


async def test_journal_with_a_hole_is_replayed_from_behind_the_hole(tmp_path: Path) -> None:
    write_record(
        tmp_path,
        {
            **V2,
            "currentSequence": 5,
            "journal": [{"sequence": 2, "event": WORKING}, {"sequence": 5, "event": CHUNK}],
        },
    )
    async with opened(lambda _: store_on(tmp_path), "") as store:
        entries = await store.entries("t", after=0, limit=9)
        assert [entry.seq for entry in entries] == [6]
        assert (await must_get(store, "t", OWNER)).last_seq == 6
