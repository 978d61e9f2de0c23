"""The binding of a record in a folder of JSON files: the session that the agent is really told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Asgi
from tests.inbound.peer import user
from tests.inbound.test_accounts import KEY, RPC, URL, accounts, post, served
from tests.migration.test_json_files import BINDING, V2
from tests.unit.stores.jsonfiles import read_record, write_record

AGENT = """
from trunkline import agent

@agent(name="Claw")
async def claw(turn):
    if turn.text == "ask":
        return turn.ask("which one?")
    return turn.session_key
"""
KEYS = f'[auth.keys.alice]\nkey = "{KEY}"\n'


@asynccontextmanager
async def claw(folder: Path, *, with_keys: bool = False, **keys: Any) -> AsyncIterator[Asgi]:
    (folder / "claw.py").write_text(AGENT)
    (folder / "trunkline.toml").write_text(KEYS if with_keys else "")
    store = {"kind": "json-file", "path": str(folder / "tasks")}
    account = {"publicBaseUrl": URL, "taskStore": store, "agentStyle": "task-generating", **keys}
    options = {"target": f"{folder}/claw.py", "config": folder / "trunkline.toml"}
    async with served(folder, accounts(work=account), **options) as http:
        yield http


async def told(http: Asgi, text: str, *, key: str = "", **ids: str) -> Any:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/send",
        "params": {"message": user(text, **ids)},
    }
    credential = {"x-api-key": key} if key else {}
    return (await http.send(post(RPC, body, **credential))).json()["result"]


def session_of(task: Any) -> str:
    return str(task["status"]["message"]["parts"][0]["text"])


@pytest.mark.parametrize("agent_id", ["zaf", ""])
async def test_i11_the_binding_is_the_session_that_the_agent_was_told(
    tmp_path: Path, agent_id: str
) -> None:
    async with claw(tmp_path, with_keys=True, defaultAgentId=agent_id) as http:
        task = await told(http, "which session is this?", key=KEY, contextId="c-1")
    binding = read_record(tmp_path / "tasks", task["id"])["binding"]
    assert binding["sessionKey"] == session_of(task)
    assert binding["sessionKey"].startswith(f"agent:{agent_id or 'main'}:a2a:")
    assert binding["mainSessionKey"] == f"agent:{agent_id or 'main'}:main"
    assert (binding["agentId"], binding["accountId"]) == (agent_id or "main", "work")
    assert binding["peer"] == {"kind": "direct", "id": "alice", "source": "server-user-name"}


async def test_i11_who_has_no_key_is_bound_by_the_context(tmp_path: Path) -> None:
    async with claw(tmp_path) as http:
        task = await told(http, "which session is this?", contextId="c-1")
    binding = read_record(tmp_path / "tasks", task["id"])["binding"]
    assert binding["sessionKey"] == session_of(task) == "agent:main:a2a:c-1"
    assert binding["peer"] == {"kind": "direct", "id": "c-1", "source": "context-id"}


async def test_i13_a_task_of_the_plugin_goes_on_under_its_stored_session(tmp_path: Path) -> None:
    stored = BINDING | {"sessionKey": "agent:zaf:a2a:default:direct:ctx"}
    waits = V2["task"] | {"status": {"state": "input-required"}}
    write_record(tmp_path / "tasks", V2 | {"task": waits, "binding": stored})
    async with claw(tmp_path) as http:
        task = await told(http, "ask", taskId="t")
        assert task["status"]["state"] == "input-required"
    # Also after it was written by us, and after another start.
    assert read_record(tmp_path / "tasks", "t")["binding"] == stored
    async with claw(tmp_path) as http:
        task = await told(http, "which session is this?", taskId="t")
    assert session_of(task) == "agent:zaf:a2a:default:direct:ctx"


async def test_i13_a_task_keeps_its_session_when_the_agent_is_renamed(tmp_path: Path) -> None:
    async with claw(tmp_path) as http:
        task = await told(http, "ask", contextId="c-1")
    async with claw(tmp_path, defaultAgentId="zaf") as http:
        task = await told(http, "which session is this?", taskId=task["id"])
        assert session_of(task) == "agent:main:a2a:c-1"
        assert session_of(await told(http, "and a new one?", contextId="c-2")) == (
            "agent:zaf:a2a:c-2"
        )


async def test_i11_a_binding_that_an_earlier_release_made_up_is_not_believed(
    tmp_path: Path,
) -> None:
    """It named the account in place of the agent, whatever the agent was told."""
    made_up = BINDING | {"agentId": "work", "accountId": "work", "sessionKey": "agent:work:a2a:ctx"}
    waits = V2["task"] | {"status": {"state": "input-required"}}
    write_record(tmp_path / "tasks", V2 | {"task": waits, "binding": made_up})
    async with claw(tmp_path) as http:
        task = await told(http, "which session is this?", taskId="t")
    assert session_of(task) == "agent:main:a2a:ctx"
