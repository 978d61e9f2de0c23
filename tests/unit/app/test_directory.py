"""Publishing and withdrawing by the directory of a gateway: settings, stores, cards and errors."""

import asyncio
import gc
import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.bindings.world import HANDLE, KEYS, World, open_world

from trunkline.background import BackgroundTasks
from trunkline.model.errors import (
    AgentExists,
    AgentNotPublished,
    ConfigError,
    StoreInUse,
    Unavailable,
)
from trunkline.ports.directory import Directory
from trunkline.ports.figures import Durations
from trunkline.runtime.agents import PublishedAgent
from trunkline.server.endpoint import Endpoint
from trunkline.server.logs import Redaction
from trunkline.settings.load import agent_from
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import settle

OTHER = "test/other"
TABLE: dict[str, Any] = {"name": "Other", "backend": {"kind": "scripted"}}


def own(handle: str = OTHER) -> str:
    return f"/api/a2a/v1/agents/{handle}"


async def get(world: World, path: str) -> tuple[int, bytes]:
    answer = await world.http.send(Http(method="GET", path=path))
    return answer.status, answer.body


async def send(world: World, text: str, handle: str = OTHER) -> Any:
    return await world.client("jsonrpc-1.0", agent=handle).run(text)


async def test_a_published_agent_has_its_card_answers_and_is_listed() -> None:
    async with open_world() as world:
        directory: Directory = world.gateway.directory
        assert directory.find(OTHER) is None
        await directory.publish(OTHER, TABLE)
        status, card = await get(world, f"{own()}/agent-card.json")
        assert (status, json.loads(card)["name"]) == (200, "Other")
        assert (await send(world, "say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [each.handle for each in directory.list()] == [HANDLE, OTHER]
        found = directory.find(OTHER)
        assert found is not None
        assert (found.jsonrpc_path, found.card.name) == (own(), "Other")
        assert OTHER in world.gateway.settings.agents


async def test_a_withdrawn_agent_is_as_unknown_as_any_other() -> None:
    async with open_world() as world:
        await world.gateway.directory.publish(OTHER, TABLE)
        await send(world, "say hi")
        await get(world, f"{own()}/agent-card.json")
        await world.gateway.directory.withdraw(OTHER, grace_s=0)
        for path in ("", "/agent-card.json", "/tasks", "/message:send"):
            unknown = await get(world, own("test/never") + path)
            assert await get(world, own() + path) == unknown
            assert unknown[0] == 404
        assert world.gateway.directory.find(OTHER) is None
        headers = {"Authorization": f"Bearer {KEYS['alice']}"}
        figures = await world.http.send(Http(method="GET", path="/metrics", headers=headers))
        assert b"trunkline_turns_running" in figures.body
        assert OTHER.encode() not in figures.body


async def test_a_handle_is_replaced_only_on_request() -> None:
    def name() -> str:
        found = directory.find(OTHER)
        assert found is not None
        return found.card.name

    async with open_world() as world:
        directory = world.gateway.directory
        await directory.publish(OTHER, TABLE)
        with pytest.raises(AgentExists, match="is published already"):
            await directory.publish(OTHER, TABLE | {"name": "Newer"})
        assert name() == "Other"
        await directory.publish(OTHER, TABLE | {"name": "Newer"}, replace=True)
        assert name() == "Newer"
        assert b"Newer" in (await get(world, f"{own()}/agent-card.json"))[1]


async def test_of_two_that_publish_a_handle_at_once_one_is_refused() -> None:
    async with open_world() as world:
        directory = world.gateway.directory
        both = [directory.publish(OTHER, TABLE), directory.publish(OTHER, TABLE)]
        done = await asyncio.gather(*both, return_exceptions=True)
        assert [type(each) for each in done] == [type(None), AgentExists]


async def test_withdrawing_an_unknown_agent_is_refused() -> None:
    async with open_world() as world:
        with pytest.raises(AgentNotPublished, match="test/never"):
            await world.gateway.directory.withdraw("test/never", grace_s=0)


@pytest.mark.parametrize(
    ("handle", "table", "says"),
    [
        (OTHER, {"backend": {"kind": "echo"}}, r'agents."test/other".name: missing'),
        (OTHER, TABLE | {"nmae": "x"}, "nmae"),
        (OTHER, TABLE | {"default": True}, 'the agent "test/scripted" is at one of its addresses'),
        (OTHER, TABLE | {"jsonrpc_path": "/metrics"}, "is an address of the gateway itself"),
        (OTHER, TABLE | {"account_id": HANDLE}, "has the account test/scripted already"),
        (OTHER, TABLE | {"unavailable": "moving"}, "cannot be published"),
        ("test/*", {"backend": {"kind": "python", "target": "x.py"}}, "a handle of its own"),
        ("No Handle", TABLE, "expected a handle owner/slug"),
        (OTHER, {"backend": {"kind": "python", "target": "no_such_module_here"}}, "no module"),
    ],
)
async def test_a_wrong_table_changes_nothing_and_names_the_key(
    handle: str, table: dict[str, Any], says: str
) -> None:
    async with open_world() as world:
        before = world.gateway.settings
        with pytest.raises(ConfigError, match=says):
            await world.gateway.directory.publish(handle, table)
        assert world.gateway.settings is before
        assert [each.handle for each in world.gateway.directory.list()] == [HANDLE]
        assert (await send(world, "say hi", HANDLE))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_references_to_the_environment_are_plain_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRUNKLINE_SECRET", "do not tell")
    async with open_world() as world:
        table = TABLE | {"name": "${TRUNKLINE_SECRET}"}
        await world.gateway.directory.publish(OTHER, table)
        assert b"${TRUNKLINE_SECRET}" in (await get(world, f"{own()}/agent-card.json"))[1]
        settings = agent_from(OTHER, table, among=world.gateway.settings)
        assert settings.name == "${TRUNKLINE_SECRET}"


async def test_secrets_of_an_agent_stay_out_of_the_log_for_as_long_as_it_runs() -> None:
    model = {"kind": "openai", "base_url": "http://127.0.0.1:9", "model": "m"}
    table = {"name": "Other", "backend": model | {"api_key": "a-new-secret"}}
    written = io.StringIO()
    handler, root = logging.StreamHandler(written), logging.getLogger()
    handler.addFilter(Redaction())
    # asyncio may warn of a slow machine.
    handler.addFilter(lambda record: record.name == "root")
    root.addHandler(handler)
    try:
        async with open_world() as world:
            directory = world.gateway.directory
            await directory.publish(OTHER, table)
            await directory.publish(OTHER, table | {"name": "Newer"}, replace=True)
            await settle()
            root.warning("a-new-secret")
            with pytest.raises(ConfigError):
                await directory.publish("test/third", table | {"account_id": HANDLE})
            root.warning("a-new-secret")
            await directory.withdraw(OTHER, grace_s=0)
            root.warning("a-new-secret")
    finally:
        root.removeHandler(handler)
    assert written.getvalue().splitlines() == ["***", "***", "a-new-secret"]


async def test_an_agent_with_a_store_of_its_own_opens_and_closes_it(tmp_path: Path) -> None:
    table = TABLE | {"store": {"kind": "sqlite", "path": str(tmp_path / "own.db")}}
    async with open_world() as world:
        directory = world.gateway.directory
        await directory.publish(OTHER, table)
        asked = await send(world, "ask size?")
        assert len([*world.gateway.runtimes]) == 2
        await directory.withdraw(OTHER, grace_s=0)
        assert len([*world.gateway.runtimes]) == 1
        await directory.publish(OTHER, table)
        found = await world.client("jsonrpc-1.0", agent=OTHER).get(asked["id"])
        assert found["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_a_store_that_cannot_be_opened_is_the_trouble_of_its_agent_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.db"
    held = SqliteStore(path, synchronous="normal")
    async with open_world() as world:
        directory = world.gateway.directory
        await held.open()
        with pytest.raises(StoreInUse, match="in use by process"):
            await directory.publish(OTHER, TABLE | {"store": {"kind": "sqlite", "path": str(path)}})
        await held.close()
        assert directory.find(OTHER) is None
        assert len([*world.gateway.runtimes]) == 1
        await directory.publish(OTHER, TABLE)
        assert (await send(world, "say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_agent_moves_to_another_store_when_it_is_replaced(tmp_path: Path) -> None:
    async with open_world() as world:
        directory = world.gateway.directory
        await directory.publish(OTHER, TABLE)
        before = await send(world, "say hi")
        moved = TABLE | {"store": {"kind": "sqlite", "path": str(tmp_path / "own.db")}}
        await directory.publish(OTHER, moved, replace=True)
        assert (await send(world, "say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"
        client = world.client("jsonrpc-1.0", agent=OTHER)
        assert [task["id"] for task in (await client.list())["tasks"]] != [before["id"]]
        # Back again, where the earlier task is.
        await directory.publish(OTHER, TABLE, replace=True)
        assert [task["id"] for task in (await client.list())["tasks"]] == [before["id"]]


async def test_a_handle_that_is_published_while_it_leaves_waits_for_the_end_of_its_turns() -> None:
    tasks = BackgroundTasks("test")
    async with open_world() as world:
        directory = world.gateway.directory
        await directory.publish(OTHER, TABLE)
        gates = world.agent_of(OTHER).gates
        sending = tasks.start(send(world, "wait a; say done"), name="send")
        await gates.reached("a")
        leaving = tasks.start(directory.withdraw(OTHER, grace_s=600), name="leave")
        coming = tasks.start(directory.publish(OTHER, TABLE), name="come")
        # Others do not wait.
        await directory.publish("test/third", TABLE)
        assert not coming.done()
        gates.open("a")
        await coming
        await leaving
        assert (await sending)["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await send(world, "say again"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_stop_does_not_wait_for_agents_that_leave() -> None:
    tasks = BackgroundTasks("test")
    async with open_world() as world:
        directory = world.gateway.directory
        await directory.publish(OTHER, TABLE)
        gates = world.agent_of(OTHER).gates
        sending = tasks.start(send(world, "wait a"), name="send")
        await gates.reached("a")
        leaving = tasks.start(directory.withdraw(OTHER, grace_s=600), name="leave")
        await settle()
        assert directory.find(OTHER) is None
        await world.gateway.runtimes.drain(grace_s=0)
        assert (await sending)["status"]["state"] == "TASK_STATE_FAILED"
        with pytest.raises(Unavailable, match="shutting down"):
            await leaving
        with pytest.raises(Unavailable, match="shutting down"):
            await directory.publish("test/third", TABLE)


async def churn(world: World, count: int) -> None:
    directory = world.gateway.directory
    for n in range(count):
        handle = f"test/agent-{n}"
        await directory.publish(handle, TABLE)
        task = await send(world, "say hi", handle)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        await get(world, f"{own(handle)}/agent-card.json")
        if n % 3 == 0:
            await directory.publish(handle, TABLE | {"name": "Newer"}, replace=True)
        await directory.withdraw(handle, grace_s=0)


def live_objects() -> dict[str, int]:
    gc.collect()
    kinds = (PublishedAgent, Endpoint, Durations)
    objects = gc.get_objects()
    return {kind.__name__: sum(type(each) is kind for each in objects) for kind in kinds}


async def test_agents_that_come_and_go_leave_no_objects_behind() -> None:
    async with open_world() as world:
        await churn(world, 3)
        before, tasks = live_objects(), len(asyncio.all_tasks())
        await churn(world, 60)
        assert live_objects() == before
        assert len(asyncio.all_tasks()) == tasks
        assert len(world.runtime.registry) == 0


@pytest.mark.full
async def test_a_thousand_agents_that_come_and_go_leave_no_memory_behind(tmp_path: Path) -> None:
    async with open_world(database=tmp_path / "tasks.db") as world:
        await churn(world, 200)
        before, all_before = live_objects(), len(gc.get_objects())
        await churn(world, 1000)
        assert live_objects() == before
        # A hundred fewer or more wait for the next collection at any moment.
        assert len(gc.get_objects()) - all_before < 1000
        # Without tasks, because SQLite keeps pages of a larger database in memory.
        directory = world.gateway.directory
        resident = resident_kb()
        for n in range(1000):
            await directory.publish(f"test/agent-{n}", TABLE)
            await directory.withdraw(f"test/agent-{n}", grace_s=0)
        gc.collect()
        assert resident_kb() - resident < 1024


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
