"""The registry in every store, over restarts, with broken records and with many agents."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.registry_world import HubWorld, made

from trunkline.background import next_pass
from trunkline.hub.agent_tables import Tables, sealed
from trunkline.hub.agents import AgentRow, put
from trunkline.hub.registry import RETRY_S
from trunkline.ports.records import Key, Put
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing import FakeClock, settle


@asynccontextmanager
async def started(store: dict[str, Any], **tables: Any) -> AsyncIterator[HubWorld]:
    clock = FakeClock()
    # By the clock of the database, which a test on a slow machine may take long for.
    cluster = {"beat_s": 20.0, "lease_s": 60.0} if store["kind"] == "postgres" else {}
    gateway = made(clock, store=store, cluster=cluster, **tables)
    await gateway.open()
    try:
        yield HubWorld(gateway, clock)
    finally:
        await gateway.close()
        await settle()


@pytest.fixture(params=["sqlite", "json-file", pytest.param("postgres", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    match request.param:
        case "postgres":
            url: str = request.getfixturevalue("cleared_postgres_url")
            request.getfixturevalue("monkeypatch").setitem(
                PostgresStore.__init__.__kwdefaults__, "allow_unsafe", True
            )
            return {"kind": "postgres", "url": url, "path": str(tmp_path)}
        case "json-file":
            return {"kind": "json-file", "path": str(tmp_path / "tasks")}
        case _:
            return {"kind": "sqlite", "path": str(tmp_path / "own.db"), "synchronous": "normal"}


async def test_agents_are_there_after_a_restart_as_they_were(store: dict[str, Any]) -> None:
    async with started(store) as world:
        one = await world.create(tagline="stays", limits={"ratePerCaller": 9})
        await world.create(slug="draft", status="draft")
        await world.create(slug="hidden", visibility="private")
        assert (await world.send("acme/echo")).status == 200
    async with started(store) as world:
        again = (await world.call("GET", f"/agents/{one['id']}")).json()
        own = {"online", "queriesToday", "queriesAllTime", "lastQueryAt"}
        assert {k: v for k, v in again.items() if k not in own} == {
            k: v for k, v in one.items() if k not in own
        }
        assert (await world.send("acme/echo")).status == 200
        assert (await world.card("acme/draft")).status == 404
        assert (await world.card("acme/hidden")).status == 404
        assert (await world.card("acme/hidden", by="acme")).status == 200
        if store["kind"] != "postgres":
            # Several nodes wait for each other, by a clock that stands still here.
            deleted = await world.call("DELETE", f"/agents/{one['id']}")
            assert deleted.status == 204
            assert (await world.card("acme/echo")).status == 404


def row(slug: str, backend: dict[str, Any]) -> AgentRow:
    return AgentRow(
        id=f"agt_{slug}",
        owner="acme",
        slug=slug,
        name=slug,
        status="published",
        tables=sealed(Tables(backend)),
        shown_backend=backend,
        kind=backend["kind"],
        created_ms=1,
        updated_ms=1,
        updated_by="user:acme",
    )


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, Any]:
    return {"kind": "sqlite", "path": str(tmp_path / "own.db"), "synchronous": "normal"}


async def filled(kept: dict[str, Any], *rows: AgentRow) -> None:
    async with started(kept) as world:
        store = world.registry.changes.store
        await store.change(*(put(each, expected=0) for each in rows))


async def test_a_broken_agent_stops_no_start_and_comes_when_it_is_mended(
    kept: dict[str, Any], tmp_path: Path
) -> None:
    broken = {"kind": "python", "target": str(tmp_path / "later_agent.py")}
    await filled(kept, row("broken", broken), row("good", {"kind": "echo"}))
    async with started(kept) as world:
        assert (await world.card("acme/good")).status == 200
        assert (await world.card("acme/broken")).status == 404
        listed = (await world.call("GET", "/agents")).json()["items"]
        problems = {each["slug"]: each["problem"] for each in listed}
        assert problems["good"] == ""
        assert "later_agent.py" in problems["broken"]
        assert {each["slug"]: each["online"] for each in listed} == {"broken": False, "good": True}
        (tmp_path / "later_agent.py").write_text(
            "from trunkline import agent\n\n@agent\nasync def later(turn):\n    return 'hi'\n"
        )
        await world.clock.advance(RETRY_S)
        await until(lambda: world.gateway.directory.find("acme/broken") is not None)
        assert (await world.card("acme/broken")).status == 200
        shown = (await world.call("GET", "/agents/by-handle/acme/broken")).json()
        assert shown["problem"] == ""


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000_000):
        if condition():
            return
        await next_pass()
    raise AssertionError("it never holds")


async def test_an_agent_of_the_file_wins_over_one_of_the_registry_at_the_start(
    kept: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await filled(kept, row("echo", {"kind": "echo"}))
    agents = {"Acme/echo": {"name": "Of the file", "backend": {"kind": "echo"}}}
    with caplog.at_level(logging.ERROR):
        async with started(kept, agents=agents) as world:
            assert (await world.card("Acme/echo")).json()["name"] == "Of the file"
            assert (await world.card("acme/echo")).status == 404
            (found,) = (await world.call("GET", "/agents", query="mine=true")).json()["items"]
            assert "the configuration has an agent Acme/echo" in found["problem"]
    assert "not published as it should be" in caplog.text


async def test_a_record_that_cannot_be_read_hides_one_agent(
    kept: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await filled(kept, row("echo", {"kind": "echo"}))
    async with started(kept) as world:
        odd = Put(key=Key("agent.1", "acme", "odd"), body=b'{"status": "of a later release"}')
        await world.registry.changes.store.change(odd)
    async with started(kept) as world:
        assert (await world.send("acme/echo")).status == 200
        assert [each.slug for each in world.registry.rows()] == ["echo"]
    assert "cannot be read" in caplog.text


async def test_a_thousand_agents_are_all_served(kept: dict[str, Any]) -> None:
    await filled(kept, *(row(f"n{number:04}", {"kind": "echo"}) for number in range(1000)))
    async with started(kept) as world:
        for number in (0, 1, 499, 998, 999):
            assert (await world.card(f"acme/n{number:04}")).status == 200
            assert (await world.send(f"acme/n{number:04}")).status == 200
        seen: list[str] = []
        token = ""
        while True:
            query = f"pageSize=200&pageToken={token}"
            page = (await world.call("GET", "/agents", query=query, by="")).json()
            seen += [each["slug"] for each in page["items"]]
            token = page["nextPageToken"]
            if not token:
                break
        assert seen == [f"n{number:04}" for number in range(1000)]
        one = await world.create(slug="more")
        assert (await world.card("acme/more")).status == 200
        await world.call("DELETE", f"/agents/{one['id']}")
        assert (await world.card("acme/more")).status == 404


async def test_an_agent_that_the_rules_refuse_by_now_can_be_unpublished(
    kept: dict[str, Any],
) -> None:
    await filled(kept, row("odd", {"kind": "of-an-earlier-release"}))
    async with started(kept) as world:
        (found,) = (await world.call("GET", "/agents")).json()["items"]
        assert "of-an-earlier-release" in found["problem"]
        path = f"/agents/{found['id']}"
        assert (await world.call("PATCH", path, {"tagline": "new"})).status == 400
        draft = await world.call("PATCH", path, {"status": "draft"})
        assert (draft.status, draft.json()["problem"]) == (200, "")
        assert (await world.call("PATCH", path, {"status": "published"})).status == 400
        assert (await world.call("DELETE", path)).status == 204


async def test_a_failure_is_logged_once_however_often_it_is_tried_again(
    kept: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await filled(kept, row("odd", {"kind": "of-an-earlier-release"}))
    async with started(kept) as world:
        for _ in range(3):
            await world.clock.advance(RETRY_S)
        assert caplog.text.count("not published as it should be") == 1
        (found,) = (await world.call("GET", "/agents")).json()["items"]
        assert "of-an-earlier-release" in found["problem"]
