"""The routes of tasks: whose they are, what they say, and how they are read."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Asgi, Http
from tests.console.task_world import console_world, get, ids, message_of, sent
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.app.gateway import build
from trunkline.background import next_pass
from trunkline.console.tasks import tasks_api
from trunkline.model.events import Entry
from trunkline.model.values import TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.ports.store import Append, Creation, Scope, Store
from trunkline.runtime.runtime import Runtime
from trunkline.settings import from_document
from trunkline.testing import FakeClock, settle
from trunkline.testing.stores.kit import must_put

ROUTES = ("", "/events", "/events/1", "/timeline", "/export")
WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


def runtime_of(world: HubWorld, handle: str) -> Runtime:
    return next(each for each in world.gateway.runtimes if handle in each.agents)


@pytest.mark.parametrize("route", ROUTES)
async def test_own_foreign_and_unknown_tasks_of_every_caller(tmp_path: Path, route: str) -> None:
    async with console_world(tmp_path) as world:
        tasks = {}
        for by, agent in (("dave", "echo"), ("operator", "echo"), ("operator", "other")):
            tasks[by, agent] = (await sent(world, agent, "hello", by=by))["id"]
        for (owner, agent), task_id in tasks.items():
            unknown_id = task_id[:-4] + "ffff"
            for by in ("operator", "acme", "carol", "dave", "reader"):
                answer = await world.call("GET", f"/tasks/{task_id}{route}", by=by)
                unknown = await world.call("GET", f"/tasks/{unknown_id}{route}", by=by)
                assert unknown.status == 404
                if by in (owner, "operator"):
                    assert answer.status == 200, (by, owner, agent, answer.body)
                else:
                    assert answer == unknown, (by, owner, agent)
            for by in ("", "nobody"):
                answer = await world.call("GET", f"/tasks/{task_id}{route}", by=by)
                unknown = await world.call("GET", f"/tasks/{unknown_id}{route}", by=by)
                assert answer.status == 401
                assert answer == unknown


async def test_everyone_lists_their_own_tasks_over_all_stores(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        for number, (agent, by) in enumerate(
            [("echo", "dave"), ("other", "operator"), ("echo", "operator"), ("echo", "dave")]
        ):
            await sent(world, agent, f"{number}", by=by)
            await world.clock.advance(1)
        assert await ids(world, by="operator") == ["3", "2", "1", "0"]
        assert await ids(world, by="dave") == ["3", "0"]
        assert await ids(world, by="carol") == []
        # Others' tasks are not even counted.
        page = await get(world, "/tasks", by="dave")
        assert (page["total"], page["nextPageToken"]) == (2, "")
        for query in ("principal=user:operator", "principal=user:dave&agent=acme/other"):
            page = await get(world, "/tasks", by="dave", query=query)
            assert page == {"items": [], "nextPageToken": "", "total": 0}
        assert await ids(world, by="dave", query="principal=user:dave") == ["3", "0"]
        assert await ids(world, by="operator", query="principal=user:dave") == ["3", "0"]


async def test_a_caller_lists_tasks_of_agents_that_it_may_read(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        # Of callers whose grants were changed since.
        for agent, owner in (("echo", "user:dave"), ("ask", "user:dave"), ("ask", "user:acme")):
            store = runtime_of(world, f"acme/{agent}").store
            await put_task(store, Scope(f"acme/{agent}", "", owner), f"{agent}-{owner}")
        assert await listed(world, by="dave") == ["echo-user:dave"]
        assert await listed(world, by="acme") == ["ask-user:acme"]
        answer = await world.call("GET", "/tasks/ask-user:dave", by="dave")
        assert answer == await world.call("GET", "/tasks/unknown", by="dave")
        # A grant that names the operation is enough.
        store = runtime_of(world, "acme/echo").store
        await put_task(store, Scope("acme/echo", "", "user:reader"), "read-only")
        assert await listed(world, by="reader") == ["read-only"]


async def listed(world: HubWorld, *, by: str, query: str = "") -> list[str]:
    return [each["id"] for each in (await get(world, "/tasks", by=by, query=query))["items"]]


async def put_task(
    store: Store,
    scope: Scope,
    task_id: str,
    *,
    count: int = 0,
    state: TaskState = COMPLETED,
    context_id: str = "c",
    status_ms: int = 1000,
) -> None:
    """A task with so many entries of a status, without a snapshot unless it has ended."""
    first = b'{"id":"%b","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}'
    entries = [Entry(1, "task.1", first % task_id.encode())]
    update = TaskStatusUpdateEvent(
        task_id=task_id, context_id=context_id, status=TaskStatus(state=WORKING)
    )
    entries += [Entry.of(2 + number, update) for number in range(count)]
    last = TaskStatusUpdateEvent(
        task_id=task_id, context_id=context_id, status=TaskStatus(state=state)
    )
    entries.append(Entry.of(2 + count, last))
    await must_put(
        store,
        Append(
            task_id=task_id,
            expected_seq=0,
            entries=tuple(entries),
            state=state,
            status_ms=status_ms,
            creation=Creation(scope, context_id, status_ms),
        ),
    )


async def test_filters_narrow_the_list(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        store = runtime_of(world, "acme/echo").store
        mine, other = (Scope("acme/echo", "", "user:dave"), Scope("acme/ask", "t", "user:carol"))
        await put_task(store, mine, "a", context_id="c1", status_ms=1000)
        await put_task(store, mine, "b", context_id="c2", status_ms=2000, state=WORKING)
        await put_task(store, other, "c", context_id="c1", status_ms=3000)
        for query, expected in {
            "": ["c", "b", "a"],
            "contextId=c1": ["c", "a"],
            "contextId=c1&agent=acme/echo": ["a"],
            "agent=acme/none": [],
            "state=TASK_STATE_WORKING": ["b"],
            "state=TASK_STATE_WORKING,TASK_STATE_COMPLETED": ["c", "b", "a"],
            "state=TASK_STATE_FAILED": [],
            "tenant=t": ["c"],
            "since=1970-01-01T00:00:02Z": ["c", "b"],
            "since=1970-01-01T01:00:02%2B01:00&principal=user:dave": ["b"],
        }.items():
            assert await listed(world, by="operator", query=query) == expected, query
        for query in ("state=working", "since=yesterday", "since=2026-01-01", "pageSize=201"):
            answer = await world.call("GET", "/tasks", by="operator", query=query)
            assert answer.status == 400, query


async def test_pages_cover_10_000_tasks_in_two_stores(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        for handle, count in (("acme/echo", 7000), ("acme/other", 3000)):
            store = runtime_of(world, handle).store
            for start in range(0, count, 1000):
                await asyncio.gather(
                    *[
                        put_task(
                            store, Scope(handle, "", "user:operator"), f"{handle}.{n}", status_ms=n
                        )
                        for n in range(start, start + 1000)
                    ]
                )
        seen: list[str] = []
        token = ""
        while True:
            query = f"pageSize=200&pageToken={token}"
            page = await get(world, "/tasks", by="operator", query=query)
            assert page["total"] == 10_000
            seen += [each["id"] for each in page["items"]]
            token = page["nextPageToken"]
            if not token:
                break
        assert len(seen) == len({*seen}) == 10_000
        # Of each store the latest first.
        numbers = [int(each.rpartition(".")[2]) for each in seen]
        assert numbers == sorted(numbers, reverse=True)


async def test_a_page_token_of_someone_else_shows_nothing_of_theirs(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        for number in range(4):
            await sent(world, "echo", f"boss {number}", by="operator")
            await sent(world, "echo", f"dave {number}", by="dave")
            await world.clock.advance(1)
        page = await get(world, "/tasks", by="operator", query="pageSize=3")
        token = page["nextPageToken"]
        texts = await ids(world, by="dave", query=f"pageSize=3&pageToken={token}")
        assert [text for text in texts if text.startswith("boss")] == []
        answer = await world.call("GET", "/tasks", by="dave", query=f"pageToken={token}&agent=x")
        assert (answer.status, "other filters" in message_of(answer)) == (400, True)


async def test_a_task_has_its_json_and_its_place_in_the_journal(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "echo", "hello", by="dave")
        found = await get(world, f"/tasks/{task['id']}", by="dave")
        assert found["task"]["id"] == task["id"]
        assert found["task"]["artifacts"] == task["artifacts"]
        assert found["task"]["status"] == task["status"]
        assert (found["firstSeq"], found["lastSeq"]) == (1, 4)
        assert (found["queuePosition"], found["calls"], found["largeTexts"]) == (None, [], [])
        assert (found["agent"], found["principal"]) == ("acme/echo", "user:dave")
        assert (found["state"], found["text"]) == ("TASK_STATE_COMPLETED", "hello")


async def test_a_task_in_the_queue_has_its_place_and_what_was_asked(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        one = world.http.send(rest_send("wait", "first", context="c"))
        two = world.http.send(rest_send("wait", "second", context="c"))
        await asyncio.gather(one, two)
        page = await get(world, "/tasks", by="operator", query="contextId=c")
        by_text = {each["text"]: each for each in page["items"]}
        assert by_text["first"]["state"] == "TASK_STATE_WORKING"
        assert by_text["second"]["state"] == "TASK_STATE_SUBMITTED"
        found = await get(world, f"/tasks/{by_text['second']['id']}", by="operator")
        assert found["queuePosition"] == 1
        await world.clock.advance(7)
        timeline = await get(world, f"/tasks/{by_text['second']['id']}/timeline", by="operator")
        (turn,) = timeline["turns"]
        assert (turn["startedAt"], turn["endedAt"], turn["outcome"]) == (None, None, None)


def rest_send(agent: str, text: str, *, context: str, by: str = "operator") -> Http:
    message = {
        "messageId": text,
        "role": "ROLE_USER",
        "contextId": context,
        "parts": [{"text": text}],
    }
    body = {"message": message, "configuration": {"returnImmediately": True}}
    return Http(
        path=f"/api/a2a/v1/agents/acme/{agent}",
        headers={"Authorization": f"Bearer {by}", "Content-Type": "application/json"},
        body=json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}
        ).encode(),
    )


async def test_every_event_has_its_time_and_pages_have_no_gaps(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "stream", "1000", by="operator")
        path = f"/tasks/{task['id']}/events"
        whole = await get(world, path, by="operator", query="limit=2000")
        items = whole["items"]
        assert [each["seq"] for each in items] == [*range(1, 1004)]
        assert {each["at"] for each in items} == {items[0]["at"]}
        assert items[0]["at"] is not None
        assert (whole["nextAfter"], whole["prunedTo"]) == (None, 0)
        read: list[Any] = []
        after: int | None = 0
        while after is not None:
            page = await get(world, path, by="operator", query=f"limit=97&after={after}")
            read += page["items"]
            after = page["nextAfter"]
        assert read == items
        assert [each["event"] for each in items] == [None] * len(items)
        full = await get(world, path, by="operator", query="limit=2&after=1&detail=full")
        status, chunk = full["items"]
        assert status["event"]["status"]["state"] == "TASK_STATE_WORKING"
        assert (chunk["name"], chunk["artifactId"], chunk["text"]) == (
            "artifactUpdate",
            chunk["event"]["artifact"]["artifactId"],
            "0 ",
        )
        behind = await get(world, path, by="operator", query="after=5000")
        assert (behind["items"], behind["nextAfter"]) == ([], None)
        one = await get(world, f"{path}/2", by="operator")
        assert one == status


async def test_times_are_those_of_the_commits(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "ask", "begin", by="operator")
        await world.clock.advance(90)
        message = {"messageId": "m2", "role": "ROLE_USER", "parts": [{"text": "answer"}]}
        body = {"message": message | {"taskId": task["id"]}}
        answer = await world.http.send(
            Http(
                path="/api/a2a/v1/agents/acme/ask",
                headers={"Authorization": "Bearer operator", "Content-Type": "application/json"},
                body=json.dumps(
                    {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}
                ).encode(),
            )
        )
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        found = await get(world, f"/tasks/{task['id']}/timeline", by="operator")
        (gap,) = found["gaps"]
        assert gap["ms"] == 90_000
        first, second = found["turns"]
        assert (first["outcome"], second["outcome"]) == (
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_COMPLETED",
        )
        assert (first["endedAt"], second["queuedAt"]) == (gap["from"], gap["to"])
        assert (first["messageId"], second["messageId"]) == ("m", "m2")
        states = [each["state"].removeprefix("TASK_STATE_") for each in found["states"]]
        assert states == [
            "SUBMITTED",
            "WORKING",
            "INPUT_REQUIRED",
            "SUBMITTED",
            "WORKING",
            "COMPLETED",
        ]
        # Asked for again after more entries, it is continued.
        assert await get(world, f"/tasks/{task['id']}/timeline", by="operator") == found


async def test_a_pruned_journal_says_up_to_where(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "echo", "hello", by="operator")
        store = runtime_of(world, "acme/echo").store
        await store.prune_journal(task["id"], up_to=2)
        path = f"/tasks/{task['id']}"
        page = await get(world, f"{path}/events", by="operator")
        assert ([each["seq"] for each in page["items"]], page["prunedTo"]) == ([3, 4], 2)
        assert (await get(world, path, by="operator"))["firstSeq"] == 3
        assert (await get(world, f"{path}/export", by="operator"))["prunedTo"] == 2
        assert (await get(world, f"{path}/timeline", by="operator"))["states"][-1]["to"] is None
        gone = await world.call("GET", f"{path}/events/2", by="operator")
        assert gone.status == 404
        await store.prune_journal(task["id"], up_to=4)
        page = await get(world, f"{path}/events", by="operator")
        assert (page["items"], page["prunedTo"]) == ([], 4)
        assert (await get(world, path, by="operator"))["lastSeq"] == 4
        assert (await get(world, f"{path}/export", by="operator"))["events"] == []


@pytest.mark.parametrize("seq", ["0", "5", "-1", "x", "1.0", "9" * 30, "\u0661"])
async def test_there_is_no_such_entry(tmp_path: Path, seq: str) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "echo", "hello", by="operator")
        answer = await world.call("GET", f"/tasks/{task['id']}/events/{seq}", by="operator")
        assert (answer.status, "no such entry" in message_of(answer)) == (404, True)


async def test_large_texts_are_previews_in_views_and_whole_in_files(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "large", "x", by="operator")
        (part,) = task["artifacts"][0]["parts"]
        text = part["text"]
        assert len(text) > 400_000
        path = f"/tasks/{task['id']}"
        found = await get(world, path, by="operator")
        assert found["task"]["artifacts"][0]["parts"][0]["text"] == text[:200]
        (large,) = found["largeTexts"]
        assert (large["preview"], large["size"]) == (text[:200], len(json_text(text)))
        assert found["text"] == text[:200]
        page = await get(world, f"{path}/events", by="operator", query="detail=full")
        artifact = page["items"][2]
        assert artifact["text"] == text[:120]
        assert artifact["event"]["artifact"]["parts"][0]["text"] == text[:200]
        one = await get(world, f"{path}/events/3", by="operator")
        assert one["event"]["artifact"]["parts"][0]["text"] == text
        assert (
            one["size"]
            == artifact["size"]
            == len(json_text(text))
            + len(json.dumps(one["event"] | {"artifact": emptied(one)}, separators=(",", ":")))
        )
        exported = await get(world, f"{path}/export", by="operator")
        assert exported["task"] == task
        assert exported["events"][2] == one
        assert (await ids(world, by="operator"))[0] == text[:200]


def json_text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()[1:-1]


def emptied(event: Any) -> Any:
    artifact = dict(event["event"]["artifact"])
    artifact["parts"] = [{"text": ""}]
    return artifact


async def test_an_export_is_a_file_with_everything(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "stream", "450", by="operator")
        answer = await world.call("GET", f"/tasks/{task['id']}/export", by="operator")
        name = f'attachment; filename="task-{task["id"]}.json"'
        assert answer.headers["content-disposition"] == name
        assert answer.headers["cache-control"] == "no-store"
        found = answer.json()
        assert found["format"] == "trunkline-task.1"
        assert found["task"] == task
        path = f"/tasks/{task['id']}/events"
        events = await get(world, path, by="operator", query="limit=2000&detail=full")
        assert found["events"] == events["items"]
        assert found["principal"] == "user:operator"


async def test_an_export_of_a_task_that_goes_on_ends(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        await world.http.send(rest_send("wait", "first", context="c"))
        (item,) = (await get(world, "/tasks", by="operator"))["items"]
        found = await get(world, f"/tasks/{item['id']}/export", by="operator")
        assert found["task"]["status"]["state"] == "TASK_STATE_WORKING"
        assert [each["seq"] for each in found["events"]] == [1, 2]


@pytest.mark.no_cover
async def test_others_are_served_while_a_long_journal_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps of a few hundred entries, every other request gets its turn."""
    async with console_world(tmp_path) as world:
        store = runtime_of(world, "acme/echo").store
        scope, now_ms = Scope("acme/echo", "", "user:operator"), world.clock.now_ms()
        await put_task(store, scope, "long", count=100_000, status_ms=now_ms)
        steps = 0
        original = next_pass

        async def counted() -> None:
            nonlocal steps
            steps += 1
            await original()

        monkeypatch.setattr(tasks_api, "next_pass", counted)
        for route in ("/timeline", "/export"):
            steps = 0
            answer = await world.call("GET", f"/tasks/long{route}", by="operator")
            assert answer.status == 200
            assert steps >= 100_000 / tasks_api._STEP
        # The second time nothing is read again.
        steps = 0
        found = await get(world, "/tasks/long/timeline", by="operator")
        assert steps == 0
        assert found["turns"][0]["lastSeq"] == 100_002


async def test_calls_of_a_task_in_both_directions(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        task = await sent(world, "caller", "go", by="operator")
        assert task["artifacts"][0]["parts"][0]["text"] == "from the caller"
        page = await get(world, "/tasks", by="operator", query="agent=acme/echo")
        (callee,) = page["items"]
        made = await get(world, f"/tasks/{task['id']}", by="operator")
        answered = await get(world, f"/tasks/{callee['id']}", by="operator")
        assert made["calls"] == answered["calls"]
        (call,) = (await get(world, f"/tasks/{callee['id']}/timeline", by="operator"))["calls"]
        assert call["id"] == made["calls"][0]
        assert (call["taskId"], call["callerTaskId"]) == (callee["id"], task["id"])
        assert (call["agent"], call["callee"]) == ("acme/caller", "acme/echo")
        exported = await get(world, f"/tasks/{task['id']}/export", by="operator")
        assert exported["calls"] == [call]


async def test_a_gateway_without_a_hub_has_the_tasks_of_its_anonymous_callers(
    tmp_path: Path,
) -> None:
    document = {
        "store": {"kind": "memory"},
        "agents": {"acme/echo": {"name": "e", "backend": {"kind": "echo"}}},
        "auth": {"keys": {"boss": {"key": "boss-has-a-long-enough-key"}}, "anonymous": "loopback"},
    }
    clock = FakeClock()
    gateway = build(
        from_document(document, environment={}), base_url="http://127.0.0.1:1", clock=clock
    )
    await gateway.open()
    http = Asgi(gateway.application)

    async def call(path: str, key: str = "", body: bytes = b"") -> Answer:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers["Content-Type"] = "application/json"
        method = "POST" if body else "GET"
        return await http.send(Http(method=method, path=path, headers=headers, body=body))

    try:
        tasks = {}
        for key in ("", "boss-has-a-long-enough-key"):
            body = rest_send("echo", "hello", context="c").body
            assert isinstance(body, bytes)
            answer = await call("/api/a2a/v1/agents/acme/echo", key, body)
            tasks[key] = answer.json()["result"]["task"]["id"]
            (item,) = (await call("/api/v1/tasks", key)).json()["items"]
            assert item["id"] == tasks[key]
            assert item["principal"] == ("boss" if key else "@anonymous")
        # A key manages nothing, so it sees its own tasks alone.
        for key, other in ((k, t) for k in tasks for o, t in tasks.items() if o != k):
            for route in ROUTES:
                foreign = await call(f"/api/v1/tasks/{other}{route}", key)
                assert foreign.status == 404
                assert foreign == await call(f"/api/v1/tasks/unknown{route}", key)
    finally:
        await gateway.close()
    await settle()


async def test_what_cannot_be_read_is_no_task_of_someone_else(tmp_path: Path) -> None:
    async with hub_world() as world:
        for path in ("/tasks/%00", "/tasks/a%2Fb", "/tasks/" + "x" * 300, "/tasks/ü"):
            answer = await world.call("GET", path)
            assert answer.status == 404, path
