"""Recorded tasks as tests in Python and as agents that play them again."""

import ast
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from tests.bindings.cases import states
from tests.bindings.clients import CLIENTS, Address, Client, Stream, message
from tests.hub.registry_world import CALLERS, HubWorld, hub_world
from tests.sockets.peer import serving

from trunkline.app.gateway import build
from trunkline.console.recordings.pytest_files import file_name, literal
from trunkline.console.recordings.recorded_tasks import MAX_BYTES, RecordedTasks
from trunkline.console.recordings.recordings import KIND
from trunkline.model.errors import Conflict, RouteNotFound
from trunkline.model.large_values import SLICE_BYTES
from trunkline.model.principal import ANONYMOUS, OPERATOR, Principal
from trunkline.ports.store import Store
from trunkline.settings import from_document
from trunkline.testing import FakeClock, settle
from trunkline.testing.passing_store import PassingStore

T = TypeVar("T")

BOSS = Principal(id="boss", roles=(OPERATOR,))
SCRIPT = "acme/script"


@asynccontextmanager
async def scripted_world(**tables: Any) -> AsyncIterator[HubWorld]:
    """A hub with a scripted agent that everyone who is signed in may call."""
    async with hub_world(**tables) as world:
        await world.create(slug="script", backend={"kind": "scripted"})
        yield world


def client(world: HubWorld, handle: str = SCRIPT, *, by: str = "carol") -> Client:
    path = f"/api/a2a/v1/agents/{handle}"
    address = Address(jsonrpc=path, rest=path)
    return CLIENTS["jsonrpc-1.0"](world.http, key=by, address=address)


async def record(world: HubWorld, task: str, **more: Any) -> Any:
    answer = await world.call("POST", "/recordings", {"taskId": task, **more})
    assert answer.status == 201, answer.body
    return answer.json()


def shape(events: list[Any]) -> list[Any]:
    """Events without what belongs to one task: ids and times."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            dropped = ("id", "taskId", "contextId", "messageId", "timestamp", "history")
            return {name: plain(each) for name, each in value.items() if name not in dropped}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return [(event.kind, plain(event.value)) for event in events]


PLAYS = {
    "text": "say hello",
    "stream": "stream 5",
    "notes": "note reading; note writing; say done",
    "artifacts": 'artifact data {"a": [1, null]}; chunks log 3; artifact file a.txt text/plain hi',
    "tool": 'tool search {"q": "x"}; summary found it; say ok',
    "fail": "say half; fail out of paper",
    "refuse": "refuse not today",
    "question": "say first; ask which?",
    "sign-in": "auth sign in please",
    "nothing": "parts []",
}


async def events_of(stream: Stream, name: str) -> list[Any]:
    # A stream stays open while its caller signs in.
    return await (stream.until("TASK_STATE_AUTH_REQUIRED") if name == "sign-in" else stream.rest())


@pytest.mark.parametrize("name", PLAYS)
async def test_a_recording_plays_the_same_events_in_the_same_order(name: str) -> None:
    async with scripted_world() as world:
        async with client(world).stream(PLAYS[name]) as stream:
            recorded = await events_of(stream, name)
        made = await record(world, recorded[0].value["id"], slug="again")
        assert (made["handle"], made["agent"], made["turns"]) == ("recording/again", SCRIPT, 1)
        async with client(world, "recording/again", by="operator").stream("anything") as stream:
            played = await events_of(stream, name)
        assert shape(played)[1:] == shape(recorded)[1:]
        assert states(played) == states(recorded)


async def test_turns_come_in_their_order_and_the_last_one_again() -> None:
    async with scripted_world() as world:
        own = client(world)
        task = (await own.run("ask which color?"))["id"]
        await own.run(message("ask which size?", task=task))
        await own.run(message("say a red shirt", task=task))
        made = await record(world, task, slug="shirt")
        assert made["turns"] == 3
        player = client(world, "recording/shirt", by="operator")
        first = await player.run("hello")
        assert first["status"]["message"]["parts"] == [{"text": "which color?"}]
        second = await player.run(message("what?", task=first["id"]))
        assert second["status"]["message"]["parts"] == [{"text": "which size?"}]
        third = await player.run(message("who?", task=first["id"]))
        assert third["artifacts"][0]["parts"] == [{"text": "a red shirt"}]
        assert third["status"]["state"] == "TASK_STATE_COMPLETED"
        # Another task begins anew.
        again = await player.run("hello")
        assert again["status"]["message"]["parts"] == [{"text": "which color?"}]


async def recorded_slowly(world: HubWorld) -> str:
    """A task with a pause of 30 seconds and one of half a second."""
    stream = client(world).stream("note a; delay 30; note b; delay 0.5; say c")
    async with stream as events:
        await events.next()
        await world.clock.wait_until_sleeping()
        await world.clock.advance(30)
        await world.clock.wait_until_sleeping()
        await world.clock.advance(0.5)
        return str((await events.rest())[-1].value["taskId"])


async def test_pauses_are_kept_up_to_the_longest_one() -> None:
    async with scripted_world() as world:
        task = await recorded_slowly(world)
        made = await record(world, task, slug="slow")
        assert made["maxGapMs"] == 2000
        begun = world.clock.now_ms()
        async with client(world, "recording/slow", by="operator").stream("x") as events:
            await events.next()
            for pause_s in (2, 0.5):
                await world.clock.wait_until_sleeping()
                await world.clock.advance(pause_s)
            assert states(await events.rest())[-1] == "COMPLETED"
        assert world.clock.now_ms() - begun == 2500
        await record(world, task, slug="fast", maxGapMs=0)
        done = await client(world, "recording/fast", by="operator").run("x")
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_recording_can_be_canceled_while_it_waits() -> None:
    async with scripted_world() as world:
        await record(world, await recorded_slowly(world), slug="slow")
        player = client(world, "recording/slow", by="operator")
        task = await player.run("x", returnImmediately=True)
        await world.clock.wait_until_sleeping()
        canceled = await player.cancel(task["id"])
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_task_that_was_canceled_says_so_when_it_is_played() -> None:
    async with scripted_world() as world:
        own = client(world)
        task = await own.run("hang", returnImmediately=True)
        await settle()
        await own.cancel(task["id"])
        await record(world, task["id"], slug="stopped")
        done = await client(world, "recording/stopped", by="operator").run("x")
        assert done["status"]["state"] == "TASK_STATE_FAILED"
        assert "was canceled" in done["status"]["message"]["parts"][0]["text"]


async def test_who_may_record_and_who_reaches_a_recording() -> None:
    async with scripted_world() as world:
        task = (await client(world).run("say secret"))["id"]
        for by in ("carol", "acme", "dave"):
            assert (await world.call("POST", "/recordings", {"taskId": task}, by=by)).status == 403
            assert (await world.call("GET", "/recordings", by=by)).status == 403
            assert (await world.call("DELETE", "/recordings/x", by=by)).status == 403
        assert (await world.call("POST", "/recordings", {"taskId": task}, by="")).status == 401
        await record(world, task, slug="mine")
        # It says what a caller was told, so it is as unknown as what is not there.
        for by in ("carol", "dave", ""):
            answer = await world.send("recording/mine", by=by)
            unknown = await world.send("recording/none", by=by)
            assert answer.status == unknown.status
            assert answer.body == unknown.body.replace(b"recording/none", b"recording/mine")
        assert (await world.send("recording/mine", by="operator")).status == 200
        catalog = await world.http.send(catalog_request())
        assert b"recording/mine" not in catalog.body


def catalog_request() -> Any:
    from tests.bindings.asgi import Http

    return Http(method="GET", path="/.well-known/ai-catalog.json")


async def test_the_list_and_the_end_of_recordings() -> None:
    async with scripted_world() as world:
        task = (await client(world).run("say one"))["id"]
        first = await record(world, task)
        assert first["slug"] == task.replace("-", "")[-12:] or first["slug"] in task
        await world.clock.advance(1)
        second = await record(world, task, slug="second", maxGapMs=0)
        assert second == {
            "slug": "second",
            "handle": "recording/second",
            "agent": SCRIPT,
            "taskId": task,
            "turns": 1,
            "events": 4,
            "maxGapMs": 0,
            "createdAt": second["createdAt"],
            "createdBy": "user:operator",
            "durable": True,
            "problem": "",
            "cardPath": "/api/a2a/v1/agents/recording/second/agent-card.json",
            "jsonrpcPath": "/api/a2a/v1/agents/recording/second",
        }
        listed = (await world.call("GET", "/recordings")).json()["items"]
        assert listed == [second, first]
        again = await world.call("POST", "/recordings", {"taskId": task, "slug": "second"})
        assert again.status == 409
        assert (await world.call("DELETE", "/recordings/second")).status == 204
        assert (await world.call("DELETE", "/recordings/second")).status == 404
        assert (await world.send("recording/second", by="operator")).status == 404
        assert (await world.call("GET", "/recordings")).json()["items"] == [first]
        # The slug is free again.
        await record(world, task, slug="second")


@pytest.mark.parametrize("slug", ["Upper", "a/b", "-a", "..", "a" * 64, "a b"])
async def test_a_slug_that_is_none_is_refused(slug: str) -> None:
    async with scripted_world() as world:
        answer = await world.call("POST", "/recordings", {"taskId": "t", "slug": slug})
        assert answer.status == 400


async def test_a_task_at_work_is_not_recorded() -> None:
    async with scripted_world() as world:
        task = (await client(world).run("wait here", returnImmediately=True))["id"]
        answer = await world.call("POST", "/recordings", {"taskId": task})
        assert answer.status == 409
        assert b"still at work" in answer.body
        await client(world).cancel(task)


async def test_unknown_and_foreign_tasks_are_answered_alike() -> None:
    async with scripted_world() as world:
        task = (await client(world).run("say secret"))["id"]
        nothing = "0" * len(task)
        for by in ("acme", "dave", "reader"):
            answer = await world.call("GET", f"/tasks/{task}/test", by=by)
            unknown = await world.call("GET", f"/tasks/{nothing}/test", by=by)
            assert (answer.status, answer.body) == (404, unknown.body)
        assert (await world.call("GET", f"/tasks/{task}/test", by="")).status == 401
        assert (await world.call("GET", f"/tasks/{task}/test", by="carol")).status == 200
        assert (await world.call("GET", f"/tasks/{task}/test")).status == 200
        answer = await world.call("POST", "/recordings", {"taskId": nothing})
        assert answer.status == 404


async def test_recordings_outlive_the_process(tmp_path: Path) -> None:
    store = {"kind": "sqlite", "path": str(tmp_path / "hub.db")}
    async with scripted_world(store=store) as world:
        task = (await client(world).run("say kept"))["id"]
        kept = await record(world, task, slug="kept")
        await record(world, task, slug="gone")
        await world.call("DELETE", "/recordings/gone")
    async with hub_world(store=store) as world:
        assert (await world.call("GET", "/recordings")).json()["items"] == [kept]
        done = await client(world, "recording/kept", by="operator").run("x")
        assert done["artifacts"][0]["parts"] == [{"text": "kept"}]


async def test_a_record_that_cannot_be_read_stops_no_gateway(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from trunkline.ports.records import Key, Put

    store = {"kind": "sqlite", "path": str(tmp_path / "hub.db")}
    async with scripted_world(store=store) as world:
        task = (await client(world).run("say kept"))["id"]
        await record(world, task, slug="kept")
        main = await world.gateway.runtimes.main_store()
        await main.change(Put(key=Key(KIND, "", "broken"), body=b"{"))
    async with hub_world(store=store) as world:
        assert "recording broken cannot be read" in caplog.text
        [item] = (await world.call("GET", "/recordings")).json()["items"]
        assert item["slug"] == "kept"


async def test_without_a_hub() -> None:
    document = {
        "store": {"kind": "memory"},
        "auth": {"anonymous": "loopback"},
        "agents": {"acme/script": {"name": "Script", "backend": {"kind": "scripted"}}},
    }
    gateway = build(
        from_document(document, environment={}), base_url="http://127.0.0.1:1", clock=FakeClock()
    )
    await gateway.open()
    try:
        from tests.bindings.asgi import Asgi

        path = "/api/a2a/v1/agents/acme/script"
        own = CLIENTS["jsonrpc-1.0"](
            Asgi(gateway.application), key="", address=Address(jsonrpc=path, rest=path)
        )
        task = (await own.run("say hello"))["id"]
        recordings = gateway.recordings.recordings
        made = await recordings.create(task, slug="", max_gap_ms=0, by=BOSS)
        assert made.durable
        path = made.jsonrpc_path
        player = CLIENTS["rest-1.0"](
            Asgi(gateway.application), key="", address=Address(jsonrpc=path, rest=path)
        )
        done = await player.run("x")
        assert done["artifacts"][0]["parts"] == [{"text": "hello"}]
        with pytest.raises(Conflict):
            await recordings.create(task, slug=made.slug, max_gap_ms=0, by=BOSS)
        with pytest.raises(RouteNotFound):
            await recordings.create("none", slug="", max_gap_ms=0, by=ANONYMOUS)
        await recordings.delete(made.slug)
        with pytest.raises(RouteNotFound):
            await recordings.delete(made.slug)
        assert [*recordings.list()] == []
    finally:
        await gateway.close()
    await settle()


# Tests in Python.

EVIL = [
    '"""\nimport os; os.abort()\n"""',
    "'''\nraise SystemExit(9)",
    "\\",
    "\\'; raise SystemExit(9) #",
    "{0} {task} %s",
    "\u202e\u2066 reversed",
    "\x00\x1b[2J\r\n",
    "# -*- coding: utf-7 -*-",
    "\u2028\u2029\x0c",
    "é 漢字 🎉",
]


def run_file(path: Path, url: str, token: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "A2A_URL": url, "A2A_TOKEN": token, "A2A_TIMEOUT": "20"}
    # The options of this repository are for its own tests.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", str(path.parent), str(path)],
        env=environment,
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


async def saved(world: HubWorld, task: str, folder: Path) -> Path:
    answer = await world.call("GET", f"/tasks/{task}/test", by="carol")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/x-python")
    name = file_name(task)
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    path = folder / name
    path.write_bytes(answer.body)
    return path


async def test_the_file_passes_against_the_agent_and_fails_against_another(tmp_path: Path) -> None:
    async with scripted_world() as world:
        own = client(world)
        task = (await own.run("ask which color?"))["id"]
        await own.run(message("artifact text a red; artifact text b shirt; ask sure?", task=task))
        await own.run(message("say done", *[{"text": f"say {text}"} for text in EVIL], task=task))
        path = await saved(world, task, tmp_path)
        async with serving(world.gateway.application.serve) as server:
            base = f"http://127.0.0.1:{server.port}/api/a2a/v1/agents"
            good, bad = await asyncio.gather(
                asyncio.to_thread(run_file, path, f"{base}/{SCRIPT}", "carol"),
                asyncio.to_thread(run_file, path, f"{base}/acme/none", "carol"),
            )
        assert good.returncode == 0, good.stdout + good.stderr
        assert bad.returncode == 1, bad.stdout + bad.stderr
        # The steps are those of the recorded task, in order.
        steps = steps_of(path)
        assert [action for action, _ in steps] == ["send", "expect"] * 3
        assert [value["state"] for action, value in steps if action == "expect"] == [
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_COMPLETED",
        ]
        assert steps[1][1]["answer"] == "which color?"


def steps_of(path: Path) -> list[Any]:
    tree = ast.parse(path.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STEPS":
            found: list[Any] = ast.literal_eval(node.value)
            return found
    raise AssertionError("no steps")


async def test_a_canceled_task_and_messages_that_were_queued(tmp_path: Path) -> None:
    async with scripted_world() as world:
        own = client(world)
        task = (await own.run("wait here", returnImmediately=True))["id"]
        await own.run(message("hang", task=task, id="second"), returnImmediately=True)
        await settle()
        await own.cancel(task)
        steps = steps_of(await saved(world, task, tmp_path))
        assert [action for action, _ in steps] == ["send", "send", "cancel", "expect"]
        assert [value["waits"] for action, value in steps if action == "send"] == [False, False]


@pytest.mark.parametrize("text", EVIL)
async def test_hostile_texts_are_literals(text: str, tmp_path: Path) -> None:
    async with scripted_world() as world:
        hostile = {
            "data": {text: [text, {"a": 1.5, "b": None, "c": True}]},
            "metadata": {text: text},
        }
        sent = message(f"parts {json.dumps([{'text': text}])}", hostile, metadata={text: text})
        task = (await client(world).run(sent))["id"]
        path = await saved(world, task, tmp_path)
        body = path.read_bytes()
        assert body.isascii()
        assert b"\x00" not in body
        assert b"\x1b" not in body
        steps = steps_of(path)
        assert steps[0][1]["message"]["parts"][1] == hostile
        assert steps[0][1]["message"]["metadata"] == {text: text}
        assert steps[1][1]["answer"] == text
        # The module holds what the template holds, and nothing runs when it is imported.
        compiled = compile(body, str(path), "exec")
        names: dict[str, Any] = {"__name__": "recorded"}
        exec(compiled, names)
        assert names["TASK"] == task


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 10**30, [], {}, None, [1, "a"]])
def test_literals(value: Any) -> None:
    assert eval(literal(value)) == value


def test_a_literal_of_no_json_value() -> None:
    with pytest.raises(TypeError):
        literal(object())


@pytest.mark.parametrize(
    "task", ["../../etc/passwd", 'a"; x', "é", "", "a" * 300, "\r\nSet-Cookie: x"]
)
def test_names_of_files_are_harmless(task: str) -> None:
    name = file_name(task)
    assert name.startswith("test_recorded_")
    assert name.replace("_", "").replace(".", "").isalnum()
    assert name.isascii()
    assert len(name) < 120


async def test_large_texts_are_whole_in_the_file_and_when_they_are_played(tmp_path: Path) -> None:
    text = "x" * 600_000
    store = {"kind": "sqlite", "path": str(tmp_path / "hub.db")}
    async with scripted_world(store=store) as world:
        task = (await client(world).run(f"say {text}"))["id"]
        steps = steps_of(await saved(world, task, tmp_path))
        assert steps[0][1]["message"]["parts"] == [{"text": f"say {text}"}]
        assert steps[1][1]["answer"] == text
        await record(world, task, slug="large")
        done = await client(world, "recording/large", by="operator").run("x")
        assert done["artifacts"][0]["parts"] == [{"text": text}]


async def test_a_task_that_is_too_large_is_refused() -> None:
    async with scripted_world() as world:
        own = client(world)
        task = (await own.run(f"stream 100 of {100_000}"))["id"]
        answer = await world.call("GET", f"/tasks/{task}/test", by="carol")
        assert answer.status == 409
        assert b"too much" in answer.body


async def test_texts_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    class CountingStore(PassingStore):
        keeps_large_values = True
        slices = 0

        async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
            found = await super()._pass_on(call)
            if isinstance(call, partial) and call.func.__name__ == "value_slices":
                self.slices += len(cast(tuple[bytes, ...], found))
            return found

    store = {"kind": "sqlite", "path": str(tmp_path / "hub.db")}
    async with scripted_world(store=store) as world:
        task = (await client(world).run("say " + "x" * (MAX_BYTES // 2)))["id"]
        main = world.gateway.runtimes.main
        assert main is not None
        counting = CountingStore(main.store)
        tasks = RecordedTasks(stores=lambda: [cast(Store, counting)], may_read=lambda *_: True)
        # The question and its answer are two texts, too large together.
        with pytest.raises(Conflict, match="texts of more than"):
            await tasks.find(task, by=ANONYMOUS)
        assert 0 < counting.slices * SLICE_BYTES <= MAX_BYTES


def test_the_callers_of_these_tests() -> None:
    # Carol reaches open agents alone, so a recording must be unknown to her.
    assert CALLERS["carol"].reaches_open
    assert not CALLERS["carol"].grants
