"""A crash before every single step on the disk, a restart, and a look at what is left."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.crash.disk import Disk
from tests.unit.stores.jsonfiles import store_on

from trunkline.model.values import TaskState
from trunkline.ports.caller_records import ANSWER, answer_id, caller_tag, put_answer, request_key
from trunkline.ports.records import Add, Defer, Delete, Group, Put
from trunkline.ports.store import Scope, Snapshot, Store, TaskQuery
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    create,
    follow,
    key,
    must_put,
    put,
    with_groups,
)

Op = Callable[[Store], Awaitable[object]]


def puts(*appends: Any) -> Op:
    return lambda store: must_put(store, *appends)


def changes(*made: Any) -> Op:
    return lambda store: store.change(*made)


def answer(scope: Scope, context_id: str, at_ms: int, messages: bytes) -> Put:
    made = put_answer(scope, context_id, answer_id(at_ms, 0, "t"), messages)
    return replace(made, due_in_ms=at_ms - FakeClock().now_ms())


def deletes(**options: int) -> Op:
    return lambda store: store.delete_due(ANSWER, "agent", **options)


def claims(limit: int = 9) -> Op:
    return lambda store: store.claim_due({"check.1": limit}, lease_ms=60_000)


# Committed with a task: one record that goes with it, one that stays, and a group without effect.
GROUPS = (
    Group((Put(key=key("mine"), body=b"\xff", tags=("tag",), goes_with_task=True, expected=0),)),
    Group((Put(key=key("x"), expected=7), Put(key=key("never"))), is_required=False),
    Group((Add(key=key("n"), amount=2, at_most=3), Put(key=key("due"), due_in_ms=0))),
)

PAUSED = TaskState.INPUT_REQUIRED
# Each one is one commit.
OPS: list[Op] = [
    puts(create("a", key="k1")),
    puts(create("b", scope=BOB), create("c", count=2, snapshot=Snapshot(1, b'{"id":"c"}'))),
    puts(follow("a", 1), follow("b", 1, state=COMPLETED, status_ms=5, key="k2", scope=BOB)),
    puts(follow("c", 2, state=PAUSED, snapshot=Snapshot(3, b'{"id":"c"}', b"[]"))),
    changes(answer(ALICE, "x", 1, b"[1]")),
    changes(answer(ALICE, "y", 2, b"no JSON\n")),
    puts(follow("a", 2, state=COMPLETED, status_ms=1), follow("c", 3)),
    lambda store: store.prune_journal("c", up_to=2),
    changes(answer(ALICE, "x", 3, b"[3]")),
    lambda store: store.prune("agent", before_ms=3, limit=9),
    deletes(before_ms=3, limit=1),
    changes(answer(ALICE, "x", 4, b"[4]")),
    deletes(before_ms=4, limit=9),
    puts(create("a", key="k1", scope=BOB), follow("c", 4, state=COMPLETED)),
    lambda store: store.prune("agent", before_ms=10, limit=9),
    puts(follow("a", 1, state=COMPLETED), follow("c", 5, count=0, snapshot=Snapshot(5, b"{}"))),
    puts(create("b", key="k2")),
    changes(answer(BOB, "x", 5, b"[5]")),
    deletes(before_ms=5, limit=9),
    changes(Put(key=key("a"), body=b'{"n":1}', tags=("tag", "other"))),
    lambda store: put(store, with_groups(create("r", status_ms=20), *GROUPS)),
    claims(),
    changes(Defer(key=key("due"), in_ms=1, expected=2), Put(key=key("a"), body=b"2", due_in_ms=9)),
    puts(
        with_groups(
            follow("r", 1, state=COMPLETED, status_ms=20),
            Group((Delete(key=key("due"), expected=2), Put(key=key("b"), due_in_ms=0))),
        )
    ),
    claims(),
    lambda store: store.prune("agent", before_ms=21, limit=9),
    changes(Put(key=key("mine"), body=b"again", expected=0), Delete(key=key("b"))),
]


async def dump(store: Store) -> list[object]:
    """All that can be read."""
    found: list[object] = []
    for scope in (ALICE, BOB):
        page = await store.list(TaskQuery(scope=scope, with_artifacts=True))
        found.append(page.total)
        for task in page.tasks:
            found += [task, await store.entries(task.task_id, after=0, limit=99)]
        found += [await store.record(request_key(scope, key)) for key in ("k1", "k2")]
        found += await store.records(ANSWER, tag=caller_tag(scope), limit=9)
        found += await store.records(ANSWER, tag=caller_tag(scope, "x"), limit=2)
    found += await store.records("check.1", limit=99)
    found += await store.records("check.1", tag="tag", limit=99)
    return found


@pytest.mark.parametrize("log_bytes", [0, 1 << 20], ids=["many-logs", "one-log"])
async def test_json_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_bytes: int) -> None:
    disk = Disk(tmp_path / "store", tmp_path / "copies")
    model, store = MemoryStore(FakeClock()), store_on(tmp_path / "store", log_bytes=log_bytes)
    await model.open()
    await store.open()
    expected = [await dump(model)]
    with monkeypatch.context() as patch:
        disk.watch(patch)
        for op in OPS:
            await op(model)
            expected.append(await dump(model))
            await op(store)
            disk.committed += 1
            assert await dump(store) == expected[-1]
        await store.close()
    assert len(disk.cases) > 60
    for copy, committed in disk.cases:
        left = store_on(copy, log_bytes=log_bytes, adopts=Scope("", "", ""))
        await left.open()
        found = await dump(left)
        # The operation that was under way happened or did not, but not by halves.
        assert found in expected[committed : committed + 2]
        await left.close()
        again = store_on(copy)
        await again.open()
        assert await dump(again) == found
        await again.close()
