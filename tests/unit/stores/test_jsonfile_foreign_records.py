"""A record that is not what it must be keeps the store shut, and says why (I-11)."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.stores.jsonfiles import file_of, store_on, write_record

from trunkline.model.errors import StoreUnusable

Record = dict[str, Any]


def status_update(state: str) -> Record:
    return {
        "kind": "status-update",
        "taskId": "t",
        "contextId": "c",
        "status": {"state": state},
        "final": state == "completed",
    }


GOOD: Record = {
    "schemaVersion": 2,
    "task": {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}},
    "binding": {
        "schemaVersion": 1,
        "agentId": "main",
        "channel": "a2a",
        "accountId": "default",
        "matchedBy": "default",
        "sessionKey": "agent:main:a2a:c",
        "mainSessionKey": "agent:main:main",
        "storePath": "/sessions",
        "peer": {"kind": "direct", "id": "c", "source": "context-id"},
        "createdAt": "2026-01-01T00:00:00.000Z",
        "updatedAt": "2026-01-01T00:00:00.000Z",
    },
    "currentSequence": 2,
    "journal": [
        {"sequence": 1, "event": status_update("working")},
        {"sequence": 2, "event": status_update("completed")},
    ],
}


def put(*path: str | int, value: Any) -> Callable[[Record], None]:
    def change(record: Any) -> None:
        for step in path[:-1]:
            record = record[step]
        record[path[-1]] = value

    return change


def drop(*path: str | int) -> Callable[[Record], None]:
    def change(record: Any) -> None:
        for step in path[:-1]:
            record = record[step]
        del record[path[-1]]

    return change


async def test_i11_good_record_is_loaded(tmp_path: Path) -> None:
    write_record(tmp_path, GOOD)
    store = store_on(tmp_path)
    await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (put("task", "status", value=None), "is missing a valid task snapshot"),
        (put("task", "kind", value="message"), "is missing a valid task snapshot"),
        (drop("task", "contextId"), "is missing a valid task snapshot"),
        (
            put("task", "status", "state", value="sleeping"),
            "is missing a valid task snapshot (task.status.state: unknown value",
        ),
        (put("binding", value=[]), "contains an invalid binding"),
        (put("binding", "schemaVersion", value=2), "contains an invalid binding"),
        (put("binding", "peer", value="c"), "contains an invalid binding"),
        (drop("binding", "sessionKey"), "contains an invalid binding"),
        (drop("schemaVersion"), "is missing schemaVersion 1 or 2"),
        (put("schemaVersion", value=3), "is missing schemaVersion 1 or 2"),
        (put("schemaVersion", value=True), "is missing schemaVersion 1 or 2"),
        (put("currentSequence", value=-1), "contains an invalid currentSequence"),
        (put("currentSequence", value="2"), "contains an invalid currentSequence"),
        (drop("currentSequence"), "contains an invalid currentSequence"),
        (put("journal", value={}), "contains an invalid journal"),
        (put("journal", 0, value=1), "contains an invalid journal entry"),
        (put("journal", 0, "sequence", value=0), "contains an invalid journal sequence"),
        (put("journal", 0, "sequence", value="1"), "contains an invalid journal sequence"),
        (put("journal", 0, "sequence", value=2), "contains out-of-order journal entries"),
        (put("journal", 0, "event", value="x"), "contains an invalid journal event"),
        (
            put("journal", 1, "event", "status", value={}),
            "contains an invalid journal event (",
        ),
        (
            put("journal", 0, "event", "kind", value="task"),
            "contains an invalid journal event kind",
        ),
        (put("currentSequence", value=1), "currentSequence trails the journal"),
        (put("trunkline", value={}), "contains an invalid trunkline member"),
    ],
)
async def test_i11_load_errors_name_file_fault_and_remedy(
    tmp_path: Path, change: Callable[[Record], None], fault: str
) -> None:
    record = copy.deepcopy(GOOD)
    change(record)
    path = file_of(tmp_path, "t")
    path.write_text(json.dumps(record))
    with pytest.raises(StoreUnusable) as refused:
        await store_on(tmp_path).open()
    assert str(refused.value).startswith(f"Task record {path} {fault}")
    assert "Restore the file from a backup, or move it out of the folder" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", '"x"', '{"schemaVersion":2', "\x00"])
async def test_i11_file_without_an_object_is_refused(tmp_path: Path, text: str) -> None:
    path = file_of(tmp_path, "t")
    path.write_text(text)
    with pytest.raises(StoreUnusable) as refused:
        await store_on(tmp_path).open()
    assert str(refused.value).startswith(f"Task record {path} is missing an object payload")


async def test_record_under_the_name_of_another_task_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path, GOOD).rename(file_of(tmp_path, "u"))
    with pytest.raises(StoreUnusable, match=r"holds a task whose file is dA\.json"):
        await store_on(tmp_path).open()


async def test_refused_open_lets_go_of_the_folder(tmp_path: Path) -> None:
    path = file_of(tmp_path, "t")
    path.write_text("{}")
    with pytest.raises(StoreUnusable):
        await store_on(tmp_path).open()
    path.unlink()
    store = store_on(tmp_path)
    await store.open()
    await store.close()
