"""`trunkline db`: on real files, as an operator has them."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app
from trunkline.clock import SystemClock
from trunkline.model.events import Entry
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.caller_records import ANSWER, put_answer
from trunkline.ports.records import Put
from trunkline.ports.store import Append, Creation, Scope, StoredTask, TaskQuery
from trunkline.runtime.registry import snapshot_of
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import must_get, must_put, opened

AGENT = '[agents."{handle}"]\nname = "A"\nbackend = {{ kind = "echo" }}\n{keys}\n'
ECHO = Scope("acme/echo", "", "alice")
OTHER = Scope("acme/other", "", "bob")
DAY_MS = 86_400_000


def db(*words: str) -> Result:
    return CliRunner().invoke(app, ["db", *words])


def config(folder: Path, **agents: str) -> str:
    """A file with these agents of acme, each with some keys of its profile."""
    file = folder / "trunkline.toml"
    text = '[store]\npath = "x.db"\n'
    for slug, keys in agents.items():
        text += AGENT.format(handle=f"acme/{slug}", keys=keys)
    file.write_text(text)
    return str(file)


def task(task_id: str, state: TaskState, *, days: float = 0, scope: Scope = ECHO) -> Append:
    """A task whose status is that many days old."""
    now_ms = SystemClock().now_ms() - int(days * DAY_MS)
    message = Message(message_id="m", role=Role.USER, parts=(Part(text="hello"),))
    submitted = TaskStatus(state=TaskState.SUBMITTED, timestamp="2026-01-31T10:00:00.000Z")
    entries = [Entry.of(1, Task(id=task_id, context_id="c", status=submitted, history=(message,)))]
    if state is not TaskState.SUBMITTED:
        status = TaskStatus(state=state, timestamp="2026-01-31T10:00:00.000Z")
        event = TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=status)
        entries.append(Entry.of(2, event))
    return Append(
        task_id=task_id,
        expected_seq=0,
        entries=tuple(entries),
        state=state,
        status_ms=now_ms,
        creation=Creation(scope, "c", now_ms),
    )


def fill(folder: Path, *tasks: Append) -> None:
    async def put() -> None:
        async with opened(lambda _: SqliteStore(folder / "x.db"), "") as store:
            await must_put(store, *tasks)

    asyncio.run(put())


def stored(folder: Path, scope: Scope = ECHO) -> dict[str, StoredTask]:
    async def read() -> dict[str, StoredTask]:
        async with opened(lambda _: SqliteStore(folder / "x.db"), "") as store:
            page = await store.list(TaskQuery(scope=scope))
            return {each.task_id: each for each in page.tasks}

    return asyncio.run(read())


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)


def test_prune_follows_each_agents_own_retention(tmp_path: Path) -> None:
    file = config(tmp_path, echo="", other="retention_s = 0.0\nretention_max_tasks = 1")
    fill(
        tmp_path,
        task("old", TaskState.COMPLETED, days=8),
        task("young", TaskState.FAILED, days=6),
        task("older", TaskState.CANCELED, days=9, scope=OTHER),
        task("latest", TaskState.REJECTED, days=8, scope=OTHER),
        task("paused", TaskState.INPUT_REQUIRED, days=99, scope=OTHER),
    )
    result = db("prune", "--config", file, "--dry-run")
    assert result.stdout == (
        "acme/echo: would delete 1 ended task, 1 left\n"
        "acme/other: would delete 1 ended task, 1 left\n"
    )
    assert len(stored(tmp_path)) == 2
    result = db("prune", "--config", file)
    assert (result.exit_code, result.stdout) == (
        0,
        "acme/echo: deleted 1 ended task, 1 left\nacme/other: deleted 1 ended task, 1 left\n",
    )
    assert set(stored(tmp_path)) == {"young"}
    assert set(stored(tmp_path, OTHER)) == {"latest", "paused"}


def test_prune_by_the_bounds_of_the_command_and_for_one_agent(tmp_path: Path) -> None:
    file = config(tmp_path, echo="", other="")
    fill(
        tmp_path,
        *(task(f"t{n}", TaskState.COMPLETED, days=n) for n in range(5)),
        task("theirs", TaskState.COMPLETED, days=9, scope=OTHER),
    )
    both = ("prune", "--config", file, "--agent", "acme/echo")
    assert db(*both, "--older-than", "84h").stdout == "acme/echo: deleted 1 ended task, 4 left\n"
    assert db(*both, "--keep", "1").stdout == "acme/echo: deleted 3 ended tasks, 1 left\n"
    assert set(stored(tmp_path)) == {"t0"}
    assert set(stored(tmp_path, OTHER)) == {"theirs"}


def test_prune_leaves_an_agent_that_keeps_all_and_one_that_is_not_published(
    tmp_path: Path,
) -> None:
    file = config(tmp_path, echo='profile = "openclaw-inbound"')
    fill(
        tmp_path,
        task("a", TaskState.COMPLETED, days=99),
        task("b", TaskState.COMPLETED, days=99, scope=OTHER),
    )
    result = db("prune", "--config", file)
    assert result.stdout == "".join(
        f"{handle}: keeps all 1 ended task; use --older-than or --keep to delete some\n"
        for handle in ("acme/echo", "acme/other")
    )
    assert db("prune", "--config", file, "--older-than", "7d").stdout == (
        "acme/echo: deleted 1 ended task, 0 left\nacme/other: deleted 1 ended task, 0 left\n"
    )


def test_prune_without_a_file_takes_the_store_of_the_flags(tmp_path: Path) -> None:
    fill(tmp_path, task("a", TaskState.COMPLETED, days=1))
    place = f"sqlite:///{tmp_path / 'x.db'}"
    assert db("prune", "--db", place, "--keep", "0").stdout == (
        "acme/echo: deleted 1 ended task, 0 left\n"
    )
    assert db("prune", "--db", place).stdout == "there are no tasks\n"


def test_prune_forgets_old_answers_that_made_no_task(tmp_path: Path) -> None:
    file = config(tmp_path, echo="", other="retention_s = 0.0\nretention_max_tasks = 1")

    def answer(scope: Scope, days: int) -> Put:
        return replace(put_answer(scope, "c", f"{days}", b"[]"), due_in_ms=-days * DAY_MS)

    async def remember() -> None:
        async with opened(lambda _: SqliteStore(tmp_path / "x.db"), "") as store:
            for days in (9, 8, 6):
                await store.change(answer(ECHO, days))
            await store.change(answer(OTHER, 99))

    async def left(scope: Scope) -> list[str]:
        async with opened(lambda _: SqliteStore(tmp_path / "x.db"), "") as store:
            found = await store.records(ANSWER, scope=scope.agent, limit=9)
            return [record.key.id for record in found]

    asyncio.run(remember())
    # Neither has a task.
    result = db("prune", "--config", file, "--dry-run")
    assert result.stdout == (
        "acme/echo: would delete 0 ended tasks, 0 left\n"
        "acme/echo: would delete 2 answers without a task\n"
        "acme/other: would delete 0 ended tasks, 0 left\n"
    )
    assert len(asyncio.run(left(ECHO))) == 3
    result = db("prune", "--config", file)
    assert (result.exit_code, result.stdout) == (
        0,
        "acme/echo: deleted 0 ended tasks, 0 left\n"
        "acme/echo: deleted 2 answers without a task\n"
        "acme/other: deleted 0 ended tasks, 0 left\n",
    )
    assert asyncio.run(left(ECHO)) == ["6"]
    assert asyncio.run(left(OTHER)) == ["99"]
    db("prune", "--config", file, "--keep", "0")
    assert asyncio.run(left(ECHO)) == ["6"]
    db("prune", "--config", file, "--agent", "acme/echo", "--older-than", "5d")
    assert asyncio.run(left(ECHO)) == []
    assert asyncio.run(left(OTHER)) == ["99"]


@pytest.mark.parametrize("command", ["prune", "settle"])
def test_a_store_in_use_is_refused_with_the_remedy(command: str, tmp_path: Path) -> None:
    file = config(tmp_path, echo="")

    async def while_open() -> Result:
        async with opened(lambda _: SqliteStore(tmp_path / "x.db"), ""):
            return await asyncio.to_thread(db, command, "--config", file)

    result = asyncio.run(while_open())
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: The store {tmp_path}/x.db is in use by process ")
    assert "Stop that process" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--older-than", "7w"), "--older-than 7w: expected a number with a unit, such as 90s,"),
        (("--older-than", "-1d"), "--older-than -1d: expected a number with a unit"),
        (("--agent", "acme/none"), "--agent acme/none: has no tasks here. Agents that have: acme/"),
        (("--db", "memory:"), "the store is memory, which is gone when the gateway stops."),
        (("--db", "sqlite:///nowhere.db"), "there is no store at "),
    ],
)
def test_prune_says_what_is_wrong(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    fill(tmp_path, task("a", TaskState.COMPLETED))
    result = db("prune", "--config", config(tmp_path, echo=""), *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {expected}")


def test_settle_fails_what_no_restart_takes_up(tmp_path: Path) -> None:
    file = config(tmp_path, echo='profile = "openclaw-inbound"', other="")
    fill(
        tmp_path,
        task("running", TaskState.WORKING),
        task("waiting", TaskState.SUBMITTED),
        task("paused", TaskState.INPUT_REQUIRED),
        task("done", TaskState.COMPLETED),
        # The next start sees to this one.
        task("theirs", TaskState.WORKING, scope=OTHER),
    )
    before = stored(tmp_path)
    result = db("settle", "--config", file, "--dry-run")
    lines = result.stdout.splitlines()
    assert [line.partition(" since ")[0] for line in lines] == [
        "acme/echo: waiting submitted",
        "acme/echo: running working",
        "would fail 2 orphaned tasks",
    ]
    assert stored(tmp_path) == before
    result = db("settle", "--config", file)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "failed 2 orphaned tasks"
    after = stored(tmp_path)
    for task_id, was in (("running", "working"), ("waiting", "submitted")):
        assert after[task_id].state is TaskState.FAILED
        text = f"This task was left {was} by a restart, and an operator ended it."
        assert text.encode() in snapshot_of(after[task_id]).task
    assert after["paused"] == before["paused"]
    assert stored(tmp_path, OTHER)["theirs"].state is TaskState.WORKING
    assert db("settle", "--config", file).stdout == "failed 0 orphaned tasks\n"


def test_settle_takes_a_reason_and_an_agent_that_is_no_longer_published(tmp_path: Path) -> None:
    file = config(tmp_path, other="")
    fill(tmp_path, task("a", TaskState.WORKING), task("b", TaskState.WORKING, scope=OTHER))
    assert db("settle", "--config", file).stdout == "failed 0 orphaned tasks\n"
    words = ("--agent", "acme/echo", "--reason", "The machine is gone.")
    result = db("settle", "--config", file, *words)
    assert result.stdout.endswith("failed 1 orphaned task\n")
    assert b"The machine is gone." in snapshot_of(stored(tmp_path)["a"]).task
    assert stored(tmp_path, OTHER)["b"].state is TaskState.WORKING


def test_settle_fails_more_than_a_page(tmp_path: Path) -> None:
    file = config(tmp_path, echo='on_restart = ["leave_orphaned"]')
    fill(tmp_path, *(task(f"t{n}", TaskState.WORKING) for n in range(250)))
    assert db("settle", "--config", file).stdout.endswith("failed 250 orphaned tasks\n")
    assert {each.state for each in stored(tmp_path).values()} == {TaskState.FAILED}


def test_an_agent_of_a_python_target_has_the_profile_of_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text(
        '[store]\npath = "x.db"\n[agents."acme/*"]\nretention_s = 60.0\n'
        'backend = { kind = "python", target = "agents.py" }\n'
    )
    fill(tmp_path, task("a", TaskState.COMPLETED, days=1))
    # The code itself is not loaded.
    (tmp_path / "agents.py").write_text("raise RuntimeError")
    result = db("prune", "--config", str(file))
    assert result.stdout == "acme/echo: deleted 1 ended task, 0 left\n"


def test_settle_ends_what_an_openclaw_account_left_in_its_json_files(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    file = tmp_path / "openclaw.json"
    account = {
        "publicBaseUrl": "https://agents.example.com",
        "taskStore": {"kind": "json-file", "path": str(folder)},
    }
    file.write_text(json.dumps({"channels": {"a2a": {"accounts": {"default": account}}}}))
    scope = Scope("openclaw/default", "", "alice")

    def store() -> JsonFileStore:
        return JsonFileStore(folder, clock=SystemClock(), adopts=scope)

    async def leave() -> None:
        async with opened(lambda _: store(), "") as kept:
            await must_put(kept, task("left", TaskState.WORKING, scope=scope))

    async def state() -> TaskState:
        async with opened(lambda _: store(), "") as kept:
            return (await must_get(kept, "left", scope)).state

    asyncio.run(leave())
    words = ("--openclaw-config", str(file))
    assert db("prune", *words).stdout == (
        "openclaw/default: keeps all 0 ended tasks; use --older-than or --keep to delete some\n"
    )
    assert db("settle", *words).stdout.endswith("failed 1 orphaned task\n")
    assert asyncio.run(state()) is TaskState.FAILED
    assert db("prune", *words, "--keep", "0").stdout == (
        "openclaw/default: deleted 1 ended task, 0 left\n"
    )


def test_what_was_done_as_a_document(tmp_path: Path) -> None:
    fill(
        tmp_path,
        task("old", TaskState.COMPLETED, days=9),
        task("new", TaskState.COMPLETED),
        task("lost", TaskState.WORKING, scope=OTHER),
    )
    file = config(tmp_path, echo="retention_s = 86400", other='on_restart = ["leave_orphaned"]')
    pruned = json.loads(db("prune", "-c", file, "--dry-run", "-o", "json").stdout)
    assert pruned["dryRun"] is True
    assert pruned["agents"][0] == {
        "agent": "acme/echo",
        "deletes": True,
        "deletedTasks": 1,
        "deletedAnswers": 0,
        "leftTasks": 1,
    }
    settled = json.loads(db("settle", "-c", file, "-o", "json").stdout)
    assert settled["dryRun"] is False
    [failed] = settled["failed"]
    assert (failed["agent"], failed["task"]) == ("acme/other", "lost")
    assert failed["state"] == "TASK_STATE_WORKING"
    assert failed["since"].endswith("Z")
