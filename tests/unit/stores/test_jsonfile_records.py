"""What is in a record: the task as A2A 0.3 tells it, and its journal (I-11)."""

from pathlib import Path
from typing import Any

from tests.runtime.world import World
from tests.unit.stores.jsonfiles import file_of, names, read_record, store_on

from trunkline.ports.store import Scope, Snapshot
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    create,
    entries,
    follow,
    must_get,
    must_put,
    opened,
)


async def played(folder: Path, *turns: str, preset_name: str = "standard") -> dict[str, Any]:
    """The record of a task with one turn after the other."""
    w = World(store=store_on(folder), preset_name=preset_name)
    await w.open()
    task = await w.send(turns[0])
    for turn in turns[1:]:
        await w.send(turn, task=task.id)
    await w.close()
    return read_record(folder, task.id)


async def test_i11_record_has_the_members_of_schema_2(tmp_path: Path) -> None:
    record = await played(tmp_path, "say hello")
    assert list(record) == [
        "schemaVersion",
        "task",
        "binding",
        "currentSequence",
        "journal",
        "trunkline",
    ]
    assert record["schemaVersion"] == 2
    task = record["task"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "say hello"}]
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "hello"}]


async def test_i11_journal_holds_updates_only_and_counts_on_across_turns(tmp_path: Path) -> None:
    record = await played(tmp_path, "say hm; ask size?", "say XL")
    journal = record["journal"]
    assert [entry["sequence"] for entry in journal] == list(range(1, len(journal) + 1))
    assert record["currentSequence"] == len(journal)
    kinds = [entry["event"]["kind"] for entry in journal]
    assert set(kinds) == {"status-update", "artifact-update"}
    states = [e["event"]["status"]["state"] for e in journal if "status" in e["event"]]
    # Neither the task itself nor the second message is an event of its own.
    assert states == ["working", "input-required", "working", "completed"]
    own = [entry["kind"] for entry in record["trunkline"]["entries"]]
    assert own.count("message.1") == 1
    assert len(own) == len(journal) + 2


async def test_i11_journal_of_an_openclaw_begins_with_submitted(tmp_path: Path) -> None:
    record = await played(tmp_path, "say hm; ask size?", "say XL", preset_name="openclaw-inbound")
    journal = record["journal"]
    assert [entry["sequence"] for entry in journal] == list(range(1, len(journal) + 1))
    states = [e["event"]["status"]["state"] for e in journal if "status" in e["event"]]
    turn = ["submitted", "working"]
    assert states == [*turn, "input-required", *turn, "completed"]


async def test_i11_binding_says_which_session_the_task_belongs_to(tmp_path: Path) -> None:
    record = await played(tmp_path, "say hello")
    context = record["task"]["contextId"]
    assert record["binding"] == {
        "schemaVersion": 1,
        "agentId": "agent",
        "channel": "a2a",
        "accountId": "agent",
        "matchedBy": "default",
        "sessionKey": f"agent:agent:a2a:{context}",
        "mainSessionKey": "agent:agent:main",
        "storePath": str(tmp_path),
        "peer": {"kind": "direct", "id": context, "source": "context-id"},
        "createdAt": "2025-06-15T15:06:40.000Z",
        "updatedAt": "2025-06-15T15:06:40.000Z",
    }


async def test_i11_snapshot_alone_leaves_journal_and_sequence_as_they_are(tmp_path: Path) -> None:
    before = await played(tmp_path, "say hello")
    task_id = before["task"]["id"]
    scope = Scope(**before["trunkline"]["scope"])
    async with opened(lambda _: store_on(tmp_path), "") as store:
        task = await must_get(store, task_id, scope)
        assert task.snapshot is not None
        append = follow(task_id, task.last_seq, count=0, snapshot=task.snapshot, state=COMPLETED)
        await must_put(store, append)
    after = read_record(tmp_path, task_id)
    assert after["trunkline"]["n"] == before["trunkline"]["n"] + 1
    for member in ("task", "binding", "journal", "currentSequence"):
        assert after[member] == before[member]


async def test_record_is_written_when_the_task_comes_to_rest(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("busy"), create("done"), follow("done", 1, state=COMPLETED))
        # In line behind the record.
        await must_put(store, create("paused", state=COMPLETED))
        await must_get(store, "paused")
        while not file_of(tmp_path, "done").exists():
            await must_get(store, "done")
        assert not file_of(tmp_path, "busy").exists()
    assert names(tmp_path) == {file_of(tmp_path, t).name for t in ("busy", "done", "paused")}


async def test_pruned_tasks_take_their_files_along(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, create("old", state=COMPLETED, status_ms=1), create("new"))
    assert file_of(tmp_path, "old").exists()
    async with opened(lambda _: store_on(tmp_path), "") as store:
        assert await store.prune("agent", before_ms=5, limit=9) == 1
    assert names(tmp_path) == {file_of(tmp_path, "new").name}


async def test_pruned_journal_goes_from_both_sides_of_the_record(tmp_path: Path) -> None:
    record = await played(tmp_path, "stream 5")
    task_id, scope = record["task"]["id"], Scope(**record["trunkline"]["scope"])
    async with opened(lambda _: store_on(tmp_path), "") as store:
        last_seq = (await must_get(store, task_id, scope)).last_seq
        await store.prune_journal(task_id, up_to=last_seq - 2)
    after = read_record(tmp_path, task_id)
    assert after["journal"] == record["journal"][-2:]
    assert after["currentSequence"] == record["currentSequence"]
    async with opened(lambda _: store_on(tmp_path), "") as store:
        kept = await store.entries(task_id, after=0, limit=9)
        assert [entry.seq for entry in kept] == [last_seq - 1, last_seq]


async def test_bytes_that_are_no_json_come_back_as_they_went_in(tmp_path: Path) -> None:
    odd = (
        b"",
        b" {}",
        b'{\n"a": 1}',
        b"\xff\x00",
        b'"\xff"',
        b'"base64:e30="',
        b"1e400",
        b'{"a":"\xc3\xa9"}',
    )
    snapshots = {f"t{number}": Snapshot(1, data, data) for number, data in enumerate(odd)}
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for task_id, snapshot in snapshots.items():
            await must_put(store, create(task_id, state=COMPLETED, snapshot=snapshot))
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for task_id, snapshot in snapshots.items():
            assert (await must_get(store, task_id)).snapshot == snapshot
            assert await store.entries(task_id, after=0, limit=9) == entries(0, 1)


async def test_strange_ids_have_files(tmp_path: Path) -> None:
    ids = ("../../etc/passwd", "a/b", "ünï", ".", "x" * 180)
    async with opened(lambda _: store_on(tmp_path), "") as store:
        await must_put(store, *[create(task_id) for task_id in ids])
    assert names(tmp_path) == {file_of(tmp_path, task_id).name for task_id in ids}
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for task_id in ids:
            assert await store.get(ALICE, task_id) is not None
