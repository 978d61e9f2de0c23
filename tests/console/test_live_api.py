"""News of a gateway as a stream: who hears what, for how long, and what it costs nobody."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Http, Response
from tests.console.task_world import console_world, get, sent, until
from tests.hub.registry_world import CALLERS, HubWorld, hub_world
from tests.hub.test_registry_nodes import pairs as pairs

from trunkline.app import live_nodes
from trunkline.console.live.live_feed import CHECK_S, EVERY_S
from trunkline.model.principal import Grant, Principal
from trunkline.testing import settle


class Stream:
    """The events of a stream so far."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.events: list[tuple[int, str, Any]] = []
        self.comments: list[str] = []
        # The id that came without an event.
        self.place = 0
        self.is_over = False

    async def read(self) -> None:
        data = b""
        async for chunk in self.response.chunks():
            data += chunk
            while b"\n\n" in data:
                frame, _, data = data.partition(b"\n\n")
                self._take(frame.decode())
        self.is_over = True

    def _take(self, frame: str) -> None:
        lines = frame.split("\n")
        self.comments += [line for line in lines if line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
        if "event" not in fields:
            self.place = int(fields.get("id", self.place))
        else:
            data = json.loads(fields["data"])
            self.events.append((int(fields["id"]), fields["event"], data))

    def of(self, name: str) -> list[Any]:
        return [data for _, event, data in self.events if event == name]


@asynccontextmanager
async def watching(
    world: HubWorld, by: str, topics: str = "", *, last_id: int | None = None
) -> AsyncIterator[Stream]:
    headers = {"Authorization": f"Bearer {by}"}
    if last_id is not None:
        headers["Last-Event-ID"] = str(last_id)
    query = f"topics={topics}" if topics else ""
    request = Http(method="GET", path="/api/v1/live", query=query, headers=headers)
    async with world.http.open(request) as response:
        assert response.status == 200, response.status
        assert response.headers["content-type"] == "text/event-stream"
        stream = Stream(response)
        reading = asyncio.get_running_loop().create_task(stream.read())
        await until(lambda: bool(stream.comments) or stream.is_over)
        try:
            yield stream
        finally:
            response.leave()
            await settle()
            reading.cancel()


async def let_out(world: HubWorld) -> None:
    await settle()
    await world.clock.advance(EVERY_S)


def taps(world: HubWorld) -> int:
    return sum(len(runtime.journal.taps) for runtime in world.gateway.runtimes)


async def test_a_task_tells_what_it_became(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world, watching(world, "operator") as stream:
        task = await sent(world, "echo", "hello", by="dave")
        await let_out(world)
        last = stream.of("task")[-1]
        assert last == {
            "id": task["id"],
            "agent": "acme/echo",
            "contextId": task["contextId"],
            "principal": "user:dave",
            "state": "TASK_STATE_COMPLETED",
            "lastSeq": 4,
            "at": last["at"],
        }
        # What is told was committed before.
        found = await get(world, f"/tasks/{task['id']}", by="operator")
        assert found["lastSeq"] == 4


async def test_every_caller_hears_of_its_own(tmp_path: Path) -> None:
    async with (
        console_world(tmp_path) as world,
        watching(world, "operator") as boss,
        watching(world, "dave") as dave,
        watching(world, "carol") as carol,
        watching(world, "operator", "wire,calls") as others,
    ):
        await sent(world, "echo", "of dave", by="dave")
        await sent(world, "other", "of the operator", by="operator")
        world.gateway.live.feed.tell("wire", {"id": "w1"}, key="w1")
        await let_out(world)
        assert {each["principal"] for each in boss.of("task")} == {"user:dave", "user:operator"}
        assert {each["principal"] for each in dave.of("task")} == {"user:dave"}
        assert carol.events == []
        assert (boss.of("wire"), dave.of("wire")) == ([{"id": "w1"}], [])
        assert [event for _, event, _ in others.events] == ["wire"]


async def test_a_stream_of_chunks_is_few_news(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world, watching(world, "operator", "tasks") as stream:
        await sent(world, "stream", "10000", by="operator")
        await let_out(world)
        assert len(stream.events) <= 3
        assert stream.of("task")[-1]["lastSeq"] == 10_003


async def test_agents_and_calls_tell_that_they_changed(tmp_path: Path) -> None:
    async with (
        console_world(tmp_path) as world,
        watching(world, "carol") as carol,
        watching(world, "operator") as boss,
    ):
        await world.create(slug="later")
        await until(lambda: world.gateway.directory.find("acme/later") is not None)
        task = await sent(world, "caller", "go", by="operator")
        await let_out(world)
        assert carol.of("agents") == boss.of("agents") == [{}]
        calls = (await get(world, f"/tasks/{task['id']}", by="operator"))["calls"]
        assert {each["id"] for each in boss.of("call")} == {*calls}
        assert carol.of("call") == []


async def test_a_lost_connection_is_continued_without_a_gap(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        async with watching(world, "operator", "tasks") as stream:
            first = await sent(world, "echo", "one", by="operator")
            await let_out(world)
            last = stream.events[-1][0]
        second = await sent(world, "echo", "two", by="operator")
        third = await sent(world, "echo", "three", by="operator")
        await let_out(world)
        async with watching(world, "operator", "tasks", last_id=last) as stream:
            await let_out(world)
            assert {each["id"] for each in stream.of("task")} == {second["id"], third["id"]}
            assert first["id"] not in {each["id"] for each in stream.of("task")}
        async with watching(world, "operator", last_id=7) as stream:
            await let_out(world)
            assert [event for _, event, _ in stream.events] == ["resync"]
        for text in ("", "x", "-1", "9" * 40):
            headers = {"Authorization": "Bearer operator", "Last-Event-ID": text}
            request = Http(method="GET", path="/api/v1/live", headers=headers)
            async with world.http.open(request) as response:
                assert response.status == 200
                response.leave()


async def test_nobody_pays_while_nobody_listens(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        before = taps(world)
        async with watching(world, "operator"):
            assert taps(world) == before + 2
            async with watching(world, "dave"):
                assert taps(world) == before + 2
        await world.clock.advance(61)
        assert taps(world) == before
        # An agent whose store is opened later is heard, too.
        async with watching(world, "operator", "tasks") as stream:
            table = {
                "name": "Late",
                "backend": {"kind": "echo"},
                "store": {"kind": "sqlite", "path": str(tmp_path / "late.db")},
            }
            await world.gateway.directory.publish("acme/late", table)
            await sent(world, "late", "hello", by="operator")
            await let_out(world)
            assert stream.of("task")[-1]["agent"] == "acme/late"


async def test_a_quiet_stream_has_a_heartbeat_every_15_seconds(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world, watching(world, "operator") as stream:
        for _ in range(60):
            await world.clock.advance(1)
        assert stream.comments.count(": keep-alive") == 4
        # One who hears news needs none.
        for _ in range(20):
            world.gateway.live.feed.tell("agents", {}, key="agents")
            await world.clock.advance(1)
        assert stream.comments.count(": keep-alive") == 4


async def test_a_stream_ends_with_its_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {
        "gone": None,
        "demoted": Principal(id="user:operator"),
        "someone": Principal(id="user:else", roles=("operator",)),
        "granted": Principal(id="user:operator", roles=("operator",), grants=(Grant("a/b"),)),
    }
    for name, principal in changed.items():
        async with (
            console_world(tmp_path) as world,
            watching(world, "operator") as stream,
            watching(world, "dave") as other,
        ):
            with monkeypatch.context() as patch:
                patch.delitem(CALLERS, "operator")
                if principal is not None:
                    patch.setitem(CALLERS, "operator", principal)
                await world.clock.advance(CHECK_S + 1)
                await settle()
                assert (stream.is_over, other.is_over) == (True, False), name


async def test_a_stream_ends_when_its_session_ends_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console_world(tmp_path) as world:
        ends_ms = world.clock.now_ms() + 60_000
        monkeypatch.setitem(CALLERS, "brief", Principal(id="user:brief", ends_ms=ends_ms))
        async with watching(world, "brief") as stream:
            for _ in range(50):
                await world.clock.advance(1)
            assert not stream.is_over
            for _ in range(20):
                await world.clock.advance(1)
            assert stream.is_over


async def test_the_end_of_the_gateway_ends_all_streams(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world, watching(world, "operator") as stream:
        await world.gateway.drain(grace_s=0)
        await until(lambda: stream.is_over)


async def test_streams_of_a_principal_are_limited(tmp_path: Path) -> None:
    async with console_world(tmp_path, server={"max_streams_per_principal": 2}) as world:
        async with watching(world, "operator"), watching(world, "dave"):
            async with watching(world, "operator"):
                answer = await world.call("GET", "/live", by="operator")
                assert answer.status == 429
            # One that was closed makes room for another.
            async with watching(world, "operator"):
                pass
            await settle()
        answer = await world.call("GET", "/live", by="operator", query="topics=nothing")
        assert answer.status == 400


async def test_callers_without_a_credential_hear_nothing() -> None:
    async with hub_world() as world:
        for by in ("", "nobody"):
            assert (await world.call("GET", "/live", by=by)).status == 401


async def test_what_happens_at_one_node_is_told_at_the_others(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        await pair.done(pair.a.create())
        await pair.clock.advance(1)
        await pair.served_at_b()
        before = taps(pair.a)
        async with (
            watching(pair.b, "operator", "tasks") as boss,
            watching(pair.b, "dave", "tasks") as dave,
        ):
            await pair.clock.advance(1)
            assert taps(pair.a) == before + 1
            answer = await pair.done(pair.a.ask("acme/echo", "at a", by="dave"))
            task = answer.json()["result"]["task"]["id"]
            await pair.clock.advance(2)
            await settle()
            assert {each["id"] for each in boss.of("task")} == {task}
            assert boss.of("task")[-1]["state"] == "TASK_STATE_COMPLETED"
            assert dave.of("task") == boss.of("task")
            # Nobody watches at the first node, and both together do not keep it up.
            pair.worlds[0].gateway.live.feed.tell("wire", {"id": "w"}, key="w")
            await pair.clock.advance(2)
            assert boss.of("wire") == []
        for _ in range(130):
            await pair.clock.advance(1)
        assert taps(pair.a) == before
        assert live_nodes.BELIEVES_S + 61 < 130


async def test_both_nodes_hear_each_other_and_nothing_twice(pairs: Callable[..., Any]) -> None:
    async with pairs() as pair:
        await pair.done(pair.a.create())
        await pair.clock.advance(1)
        await pair.served_at_b()
        async with (
            watching(pair.a, "operator", "tasks") as one,
            watching(pair.b, "operator", "tasks") as other,
        ):
            await pair.clock.advance(1)
            for world in (pair.a, pair.b):
                await pair.done(world.ask("acme/echo", "hello", by="dave"))
                await pair.clock.advance(1)
            await pair.clock.advance(1)
            for stream in (one, other):
                ended = [each["id"] for each in stream.of("task") if "COMPLETED" in each["state"]]
                assert len(ended) == len({*ended}) == 2


async def test_a_lost_connection_loses_nothing_before_the_first_news_came(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        async with watching(world, "dave", "tasks") as stream:
            first = stream.place
            await sent(world, "echo", "hello", by="dave")
            await let_out(world)
            assert stream.of("task")
        # Connections that break off behind the opening comment: the client goes on from its id.
        last_id = first
        for _ in range(2):
            async with watching(world, "dave", "tasks", last_id=last_id) as again:
                assert again.place == last_id
                last_id = again.place
        async with watching(world, "dave", "tasks", last_id=last_id) as again:
            await settle()
            assert again.of("task") == stream.of("task")[-1:]
        # What is lost is told, also after such a connection.
        async with watching(world, "dave", "tasks", last_id=1) as again:
            assert again.place == 0
            await settle()
            assert again.of("resync") == [{}]
