"""O-9: task handles, and where they are kept."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    TARGET_JSON,
    World,
    card,
    document,
    supported,
    target,
    task,
)

from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState
from trunkline.remote.target import Target
from trunkline.remote.tool import FileHandles, HandleRecord, Handles, MemoryHandles, open_handles
from trunkline.remote.tool.config import TaskHandleSettings
from trunkline.remote.tool.handles import FORGET_AFTER_MS, Expired, Live, TaskHandles, Unknown
from trunkline.testing import FakeClock, SequentialIds

WORKING = TaskState.WORKING
TARGET = Target(url=SUPPORT, alias="support", headers={"Authorization": "Bearer s3cret"})

Make = Callable[[], Handles]


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return MemoryHandles
    return lambda: FileHandles(tmp_path / "state" / "handles.db")


def registry(
    handles: Handles, clock: FakeClock, *, ttl_ms: int = 1000, max_entries: int = 10
) -> TaskHandles:
    settings = TaskHandleSettings(ttl_ms=ttl_ms, max_entries=max_entries)
    return TaskHandles(handles, settings, clock, SequentialIds())


async def test_o9_a_handle_leads_to_its_task(make: Make) -> None:
    clock = FakeClock()
    handles = registry(make(), clock)
    handle = await handles.issue(TARGET, "task-1", "ctx-1")
    assert handle == "rah_id-000001"
    now = clock.now_ms()
    assert await handles.look_up(handle) == Live(
        HandleRecord(
            handle=handle,
            target_url=SUPPORT,
            card_path="/.well-known/agent-card.json",
            transports=("JSONRPC", "HTTP+JSON"),
            target_alias="support",
            task_id="task-1",
            context_id="ctx-1",
            created_at_ms=now,
            last_accessed_at_ms=now,
            expires_at_ms=now + 1000,
        )
    )
    assert await handles.look_up("rah_other") == Unknown()


async def test_o9_looking_up_is_a_use_and_does_not_prolong(make: Make) -> None:
    clock = FakeClock()
    handles = registry(make(), clock)
    handle = await handles.issue(TARGET, "task-1", "")
    await clock.advance(0.4)
    found = await handles.look_up(handle)
    assert isinstance(found, Live)
    assert found.record.last_accessed_at_ms == clock.now_ms()
    await clock.advance(0.6)
    assert isinstance(await handles.look_up(handle), Expired)


async def test_o9_a_refresh_prolongs_and_learns_the_context(make: Make) -> None:
    clock = FakeClock()
    handles = registry(make(), clock)
    handle = await handles.issue(TARGET, "task-1", "")
    found = await handles.look_up(handle)
    assert isinstance(found, Live)
    await clock.advance(0.9)
    await handles.refresh(found.record, context_id="ctx-1")
    await clock.advance(0.9)
    found = await handles.look_up(handle)
    assert isinstance(found, Live)
    assert found.record.context_id == "ctx-1"


async def test_o9_expiry_is_told_until_it_is_forgotten(make: Make) -> None:
    clock = FakeClock()
    handles = registry(make(), clock)
    handle = await handles.issue(TARGET, "task-1", "")
    await clock.advance(0.999)
    assert isinstance(await handles.look_up(handle), Live)
    await clock.advance(0.001)  # expired when expiresAt <= now
    for _ in range(3):
        assert isinstance(await handles.look_up(handle), Expired)
        await handles.issue(TARGET, "other", "")
    await clock.advance(FORGET_AFTER_MS / 1000)
    assert await handles.look_up(handle) == Unknown()


async def test_o9_the_one_not_used_for_longest_goes_first(make: Make) -> None:
    clock = FakeClock()
    handles = registry(make(), clock, ttl_ms=10_000, max_entries=2)
    first = await handles.issue(TARGET, "task-1", "")
    await clock.advance(0.1)
    second = await handles.issue(TARGET, "task-2", "")
    await clock.advance(0.1)
    await handles.look_up(first)
    await clock.advance(0.1)
    third = await handles.issue(TARGET, "task-3", "")
    found = [type(await handles.look_up(one)) for one in (first, second, third)]
    assert found == [Live, Unknown, Live]


async def test_o9_many_at_the_same_instant_keep_the_latest(make: Make) -> None:
    handles = registry(make(), FakeClock(), max_entries=1)
    await handles.issue(TARGET, "task-1", "")
    latest = await handles.issue(TARGET, "task-2", "")
    assert isinstance(await handles.look_up(latest), Live)


async def test_o9_the_signing_key_is_long_and_stays(make: Make) -> None:
    handles = make()
    key = await handles.signing_key()
    assert len(key) == 32
    assert await handles.signing_key() == key
    await handles.close()


async def test_item2_a_file_survives_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "handles.db", FakeClock()
    before = FileHandles(path)
    handle = await registry(before, clock).issue(TARGET, "task-1", "ctx-1")
    key = await before.signing_key()
    await before.close()
    after = FileHandles(path)
    found = await registry(after, clock).look_up(handle)
    assert isinstance(found, Live)
    assert found.record.task_id == "task-1"
    assert await after.signing_key() == key


async def test_item2_processes_share_a_file_without_losing_a_handle(tmp_path: Path) -> None:
    path, clock = tmp_path / "handles.db", FakeClock()
    settings = TaskHandleSettings(max_entries=100)
    sides = [
        TaskHandles(FileHandles(path), settings, clock, SequentialIds(name)) for name in "abcd"
    ]
    made = await asyncio.gather(*[side.issue(TARGET, "t", "") for side in sides for _ in range(5)])
    assert len(set(made)) == 20
    assert {type(await sides[0].look_up(handle)) for handle in made} == {Live}
    keys = await asyncio.gather(*[side.store.signing_key() for side in sides])
    assert len(set(keys)) == 1


async def test_item2_the_file_is_for_its_owner_and_holds_no_credentials(tmp_path: Path) -> None:
    path = tmp_path / "handles.db"
    await registry(FileHandles(path), FakeClock()).issue(TARGET, "task-1", "")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert b"s3cret" not in path.read_bytes()


async def test_item2_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "handles.db"
    path.write_bytes(b"not a database at all, but long enough to be one" * 100)
    with pytest.raises(StoreUnusable, match=r"handles\.db"):
        await FileHandles(path).get("rah_x")


async def test_item2_a_broken_file_costs_the_handle_and_not_the_result(tmp_path: Path) -> None:
    path = tmp_path / "handles.db"
    path.write_bytes(b"not a database at all, but long enough to be one" * 100)
    world = World(handles=FileHandles(path))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", task(WORKING))
    world.peers.says(SUPPORT, "get", task(WORKING))
    result = await world(action="send", parts=HELLO)
    found = result["summary"]["continuation"]
    assert "task_handle" not in found["task"]
    assert (await world(action="status", continuation=found))["ok"]


def test_item2_a_setting_restores_handles_that_end_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "handles.db"
    assert open_handles(path, durable=True).is_durable
    assert not open_handles(path, durable=False).is_durable
    assert not open_handles(None, durable=True).is_durable


async def test_item2_a_continuation_works_after_a_restart_of_the_tool(tmp_path: Path) -> None:
    path = tmp_path / "handles.db"
    before = World(handles=FileHandles(path))
    before.peers.says(SUPPORT, "card", card())
    before.peers.says(SUPPORT, "send", task(TaskState.INPUT_REQUIRED))
    found = (await before(action="send", parts=HELLO))["summary"]["continuation"]
    after = World(handles=FileHandles(path), peers=before.peers)
    after.peers.says(SUPPORT, "send", task(TaskState.COMPLETED))
    result = await after(action="send", parts=HELLO, continuation=found)
    assert result["summary"]["continuation"]["task"] == {
        **found["task"],
        "status": "completed",
        "can_resume_send": False,
        "can_send": False,
        "can_cancel": False,
        "can_watch": False,
    }


async def test_o9_each_flat_call_makes_a_new_handle() -> None:
    world = supported(get=task(WORKING))
    world.peers.says(SUPPORT, "get", task(WORKING))
    made = [await world(action="status", task_id="task-1") for _ in range(2)]
    handles = {one["summary"]["continuation"]["task"]["task_handle"] for one in made}
    assert len(handles) == 2


async def test_o9_a_new_task_in_reply_gets_a_handle_of_its_own() -> None:
    world = supported(send=task(WORKING))
    first = (await world(action="send", parts=HELLO))["summary"]["continuation"]
    world.peers.says(SUPPORT, "send", task(WORKING, id="task-2"))
    second = (await world(action="send", parts=HELLO, continuation=first))["summary"]
    assert second["continuation"]["task"]["task_id"] == "task-2"
    assert second["continuation"]["task"]["task_handle"] != first["task"]["task_handle"]


@pytest.mark.parametrize("durable", [False, True])
async def test_o9_unknown_details(durable: bool, tmp_path: Path) -> None:
    world = World(handles=open_handles(tmp_path / "handles.db", durable=durable))
    result = await world(action="status", task_handle="rah_x")
    assert result["error"] == {
        "code": "UNKNOWN_TASK_HANDLE",
        "message": 'task handle "rah_x" is unknown',
        "details": {
            "taskHandle": "rah_x",
            "retryHint": "Retry with explicit target plus taskId, or resend the original request "
            "after a restart to obtain a new handle.",
            "restartInvalidatesHandles": not durable,
            "suggested_action": "send",
        },
    }


async def test_o9_expired_details_as_in_the_readme() -> None:
    config = document(target(default=True), taskHandles={"ttlMs": 1000})
    world = World(config)
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", task(WORKING))
    world.peers.says(SUPPORT, "get", task(WORKING))
    sent = await world(action="send", parts=HELLO)
    handle = sent["summary"]["continuation"]["task"]["task_handle"]
    await world.clock.advance(1)
    results = [await world(action="status", task_handle=handle) for _ in range(2)]
    assert results[0] == results[1]
    assert results[0]["error"] == {
        "code": "EXPIRED_TASK_HANDLE",
        "message": f'task handle "{handle}" has expired',
        "details": {
            "taskHandle": handle,
            "retryHint": "Retry with the same nested continuation so the plugin can fall back to "
            "the persisted target plus taskId, or resend the original request after a restart to "
            "obtain a new handle.",
            "restartInvalidatesHandles": True,
            "expiresAt": "2025-06-15T15:06:41.000Z",
            "task_id": "task-1",
            "context_id": "ctx-1",
            "continuation": {
                "target": TARGET_JSON,
                "task": {
                    "task_id": "task-1",
                    "task_handle": handle,
                    "can_resume_send": True,
                    "can_send": True,
                    "can_status": True,
                    "can_cancel": True,
                    "can_watch": True,
                },
                "conversation": {"context_id": "ctx-1", "can_send": True},
            },
            "suggested_actions": ["status", "send"],
            "hint": "Retry with the same nested continuation, or use flat target_alias + task_id "
            "only as manual compatibility.",
        },
    }
    more: dict[str, Any] = results[0]["error"]["details"]["continuation"]
    assert (await world(action="status", continuation=more))["ok"]
