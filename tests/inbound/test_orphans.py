"""A folder that the plugin left behind, with a task that nobody works on any more (I-12)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Asgi
from tests.inbound.peer import error_in, events_in, user
from tests.inbound.test_accounts import RPC, URL, accounts, post, served
from tests.migration.test_json_files import V1, V2
from tests.unit.stores.jsonfiles import write_record


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Asgi]:
    folder = tmp_path / "tasks"
    write_record(folder, V2)
    waits = V1["task"] | {"status": {"state": "input-required"}}
    write_record(folder, V1 | {"task": waits})
    store = {"kind": "json-file", "path": str(folder)}
    account = {"publicBaseUrl": URL, "taskStore": store}
    async with served(tmp_path, accounts(default=account)) as http:
        yield http


async def call(http: Asgi, method: str, params: Any) -> Answer:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await http.send(post(RPC, body))


async def task_of(http: Asgi, method: str, params: Any) -> Any:
    return (await call(http, method, params)).json()["result"]


async def test_i12_an_orphan_is_still_there_and_as_it_was(http: Asgi) -> None:
    found = await task_of(http, "tasks/get", {"id": "t", "historyLength": 9})
    assert found["status"]["state"] == "working"
    assert found["artifacts"][0]["parts"] == [{"kind": "text", "text": "so far"}]


async def test_i6_i12_cancel_of_an_orphan(http: Asgi) -> None:
    error = error_in(await call(http, "tasks/cancel", {"id": "t"}))
    assert error == {
        "code": -32004,
        "message": "Unsupported operation: Task cancellation is only available while the task is "
        "live in this process.",
    }


async def test_i12_resubscribe_to_an_orphan_is_a_snapshot_and_the_end(http: Asgi) -> None:
    [event] = events_in(await call(http, "tasks/resubscribe", {"id": "t"}))
    assert '"kind":"task"' in event["data"]
    assert '"state":"working"' in event["data"]


async def test_i12_a_message_is_the_way_out(http: Asgi) -> None:
    sent = {"message": user("go on", id="m-2", taskId="t")}
    task = await task_of(http, "message/send", sent)
    assert (task["id"], task["status"]["state"]) == ("t", "completed")
    texts = [artifact["parts"][0]["text"] for artifact in task["artifacts"]]
    assert texts == ["so far", "go on"]


async def test_i6_a_task_from_before_there_were_bindings_can_be_resumed(http: Asgi) -> None:
    """The original refuses it. A session here is its context, which every task has."""
    sent = {"message": user("go on", id="m-2", taskId="old", contextId="ctx")}
    task = await task_of(http, "message/send", sent)
    assert (task["id"], task["status"]["state"]) == ("old", "completed")
    assert [message["parts"][0]["text"] for message in task["history"]] == [
        "hello",
        "go on",
        "go on",
    ]
