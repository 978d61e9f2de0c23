"""`/api/v1/agents`: who may do what, lists, versions, secrets and wrong input."""

import asyncio
import json
from typing import Any

import pytest
from tests.hub.registry_world import ECHO, HubWorld, hub_world


async def handles(world: HubWorld, query: str = "", *, by: str = "operator") -> list[str]:
    answer = await world.call("GET", "/agents", by=by, query=query)
    assert answer.status == 200, answer.body
    return [each["handle"] for each in answer.json()["items"]]


async def three(world: HubWorld) -> dict[str, Any]:
    """An agent of each visibility, and a draft."""
    return {
        slug: await world.create(slug=slug, **values)
        for slug, values in {
            "public": {},
            "unlisted": {"visibility": "unlisted"},
            "private": {"visibility": "private"},
            "draft": {"status": "draft"},
        }.items()
    }


async def test_h_05_an_agent_has_its_values_and_defaults() -> None:
    async with hub_world() as world:
        agent = await world.create(
            name="Rust expert",
            tagline="Knows lifetimes",
            description="Answers questions.\nAlso long ones.",
            skills=[{"id": "ask", "name": "Ask", "tags": ["rust"], "inputModes": ["text/plain"]}],
        )
        assert agent["id"].startswith("agt_")
        wanted = {
            "handle": "acme/echo",
            "owner": "acme",
            "slug": "echo",
            "name": "Rust expert",
            "tagline": "Knows lifetimes",
            "description": "Answers questions.\nAlso long ones.",
            "status": "published",
            "visibility": "public",
            "source": "registry",
            "version": 1,
            "online": True,
            "isolated": True,
            "dailyBudgetQueries": 1000,
            "concurrencyCap": 5,
            "profile": "standard",
            "backend": {"kind": "echo"},
            "settings": {},
            "problem": "",
            "updatedBy": "user:operator",
            "cardPath": "/api/a2a/v1/agents/acme/echo/agent-card.json",
        }
        assert {key: agent[key] for key in wanted} == wanted
        assert (agent["queriesToday"], agent["queriesAllTime"]) == (0, 0)
        card = (await world.card("acme/echo")).json()
        assert (card["name"], card["skills"][0]["id"]) == ("Rust expert", "ask")
        again = (await world.call("GET", "/agents/by-handle/ACME/Echo")).json()
        assert again == agent
        assert (await world.call("GET", f"/agents/{agent['id']}")).json() == agent


async def test_without_a_status_an_agent_is_a_draft() -> None:
    async with hub_world() as world:
        body = {"owner": "acme", "slug": "later", "backend": {"kind": "echo"}}
        answer = await world.call("POST", "/agents", body, by="operator")
        assert answer.json()["status"] == "draft"
        assert (await world.card("acme/later")).status == 404


@pytest.mark.parametrize(
    ("by", "listed", "known"),
    [
        ("", ["public"], ["public", "unlisted"]),
        ("carol", ["public"], ["public", "unlisted"]),
        ("acme", ["draft", "private", "public", "unlisted"], "all"),
        ("operator", ["draft", "private", "public", "unlisted"], "all"),
    ],
)
async def test_callers_see_what_they_may_see(
    by: str, listed: list[str], known: list[str] | str
) -> None:
    async with hub_world() as world:
        agents = await three(world)
        assert await handles(world, by=by) == [f"acme/{slug}" for slug in listed]
        unknown = await world.call("GET", "/agents/agt_unknown", by=by)
        assert unknown.status == 404
        for slug, agent in agents.items():
            found = await world.call("GET", f"/agents/{agent['id']}", by=by)
            by_handle = await world.call("GET", f"/agents/by-handle/acme/{slug}", by=by)
            assert by_handle.body == found.body
            if known == "all" or slug in known:
                assert found.status == 200
            else:
                assert (found.status, found.body) == (404, unknown.body)


async def test_a_grant_shows_a_private_agent_and_not_how_it_is_run() -> None:
    async with hub_world() as world:
        agent = await world.create(visibility="private")
        assert await handles(world, by="dave") == ["acme/echo"]
        seen = (await world.call("GET", f"/agents/{agent['id']}", by="dave")).json()
        hidden = {"backend", "settings", "problem", "limits", "profile", "updatedBy", "createdAt"}
        assert hidden.isdisjoint(seen)
        assert seen["visibility"] == "private"


@pytest.mark.parametrize("by", ["", "wrong", "carol", "dave", "acme", "operator"])
async def test_only_owners_and_operators_change_agents(by: str) -> None:
    async with hub_world(hub={"owner_backends": ["echo"]}) as world:
        agents = await three(world)
        for slug, agent in agents.items():
            path = f"/agents/{agent['id']}"
            answers = [
                await world.call("PATCH", path, {"tagline": "changed"}, by=by),
                await world.call("DELETE", path, by=by),
            ]
            may_know = slug in ("public", "unlisted")
            wanted = {
                "": [401, 401],
                "wrong": [401, 401],
                "carol": [403, 403] if may_know else [404, 404],
                "dave": [403, 403] if may_know else [404, 404],
                "acme": [200, 204],
                "operator": [200, 204],
            }[by]
            assert [answer.status for answer in answers] == wanted
        created = await world.call("POST", "/agents", ECHO | {"slug": "new"}, by=by)
        wanted_status = {"": 401, "wrong": 401, "acme": 201, "operator": 400}.get(by, 403)
        assert created.status == wanted_status
        other = await world.call("POST", "/agents", ECHO | {"owner": "other"}, by=by)
        assert other.status == {"": 401, "wrong": 401, "operator": 201}.get(by, 403)


async def test_owners_choose_among_the_backends_that_the_operator_allows() -> None:
    async with hub_world(hub={"owner_backends": ["echo"]}) as world:
        command = {"kind": "command", "command": ["/bin/cat"]}
        refused = await world.call("POST", "/agents", ECHO | {"backend": command}, by="acme")
        assert (refused.status, b"backend.kind" in refused.body) == (400, True)
        agent = await world.create(backend=command, status="draft")
        path = f"/agents/{agent['id']}"
        # What the operator chose may stay, and the owner changes the rest.
        assert (await world.call("PATCH", path, {"name": "Mine"}, by="acme")).status == 200
        assert (await world.call("PATCH", path, {"backend": command}, by="acme")).status == 400
        stored = {"settings": {"store": {"kind": "memory"}}}
        refused = await world.call("PATCH", path, stored, by="acme")
        assert (refused.status, b"settings.store" in refused.body) == (400, True)
        wait = {"settings": {"reply_wait_s": 5.0}}
        assert (await world.call("PATCH", path, wait, by="acme")).status == 200
        assert (await world.call("PATCH", path, stored, by="operator")).status == 200


# A backend of each kind that calls an address; URL stands for that.
CALLING: dict[str, dict[str, Any]] = {
    "a2a": {"kind": "a2a", "url": "http://URL"},
    "openai": {"kind": "openai", "base_url": "http://URL", "model": "m", "attempts": 1},
    "openclaw": {"kind": "openclaw", "url": "ws://URL", "token": "t"},
    "openclaw-http": {"kind": "openclaw", "url": "http://URL", "surface": "http"},
}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
@pytest.mark.parametrize("name", CALLING)
async def test_agents_of_owners_call_no_private_address(name: str, host: str) -> None:
    calls = 0

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    place = f"{host}:{server.sockets[0].getsockname()[1]}"
    backend: dict[str, Any] = {
        key: value.replace("URL", place) if isinstance(value, str) else value
        for key, value in CALLING[name].items()
    }
    backend["public_only"] = False
    async with server, hub_world(hub={"owner_backends": [backend["kind"]]}) as world:
        agent = await world.create(by="acme", slug="owned", backend=backend)
        assert agent["backend"]["public_only"] is True
        # A backend that could not connect when it was opened waits before it tries again.
        sent, _ = await asyncio.gather(world.send("acme/owned"), world.clock.advance(5))
        assert (sent.status, b"TASK_STATE_FAILED" in sent.body, calls) == (200, True, 0)
        agent = await world.create(by="operator", slug="internal", backend=backend)
        assert agent["backend"]["public_only"] is False


async def test_owners_use_no_backend_without_the_setting() -> None:
    async with hub_world() as world:
        refused = await world.call("POST", "/agents", ECHO, by="acme")
        assert (refused.status, b"hub.owner_backends" in refused.body) == (400, True)


async def test_lists_are_paged_searched_and_narrowed() -> None:
    async with hub_world() as world:
        for number in range(7):
            await world.create(slug=f"n{number}", tagline=f"Number {number}")
        await world.create(owner="Zoo", slug="lion", skills=[{"id": "roar", "tags": ["Savanna"]}])
        found: list[str] = []
        token = ""
        while True:
            answer = await world.call("GET", "/agents", query=f"pageSize=3&pageToken={token}")
            page = answer.json()
            assert len(page["items"]) <= 3
            found += [each["handle"] for each in page["items"]]
            token = page["nextPageToken"]
            if not token:
                break
        assert found == [*(f"acme/n{number}" for number in range(7)), "Zoo/lion"]
        assert await handles(world, "q=number+3") == ["acme/n3"]
        assert await handles(world, "q=savanna") == ["Zoo/lion"]
        assert await handles(world, "owner=zoo") == ["Zoo/lion"]
        assert await handles(world, "mine=true", by="acme") == [f"acme/n{n}" for n in range(7)]
        assert await handles(world, "mine=true", by="carol") == []
        assert await handles(world, "status=draft") == []
        wrong = await world.call("GET", "/agents", query="pageToken=%25%25")
        assert (wrong.status, b"pageToken" in wrong.body) == (400, True)


async def test_two_editors_do_not_overwrite_each_other() -> None:
    async with hub_world() as world:
        agent = await world.create()
        path = f"/agents/{agent['id']}"
        first = await world.call("PATCH", path, {"tagline": "one", "version": 1})
        assert (first.status, first.json()["version"]) == (200, 2)
        second = await world.call("PATCH", path, {"tagline": "two", "version": 1})
        assert (second.status, b"version 2" in second.body) == (409, True)
        assert (await world.call("DELETE", path, query="version=1")).status == 409
        # Without a version the members of both changes stay.
        both = [{"tagline": "three"}, {"name": "Three"}]
        await asyncio.gather(*(world.call("PATCH", path, each) for each in both))
        now = (await world.call("GET", path)).json()
        assert (now["tagline"], now["name"], now["version"]) == ("three", "Three", 4)
        assert (await world.call("DELETE", path, query="version=4")).status == 204


async def test_of_two_that_create_an_agent_at_once_one_is_refused() -> None:
    async with hub_world() as world:
        bodies = [ECHO | {"owner": owner} for owner in ("acme", "ACME")]
        done = await asyncio.gather(*(world.call("POST", "/agents", body) for body in bodies))
        assert sorted(answer.status for answer in done) == [201, 409]


async def test_h_05_a_deleted_handle_is_restored_with_its_id() -> None:
    async with hub_world() as world:
        agent = await world.create()
        path = f"/agents/{agent['id']}"
        assert (await world.call("DELETE", path)).status == 204
        assert await handles(world) == []
        assert await handles(world, "status=deleted") == ["acme/echo"]
        assert (await world.call("GET", path, by="carol")).status == 404
        again = await world.create(name="Again")
        assert (again["id"], again["name"], again["status"]) == (agent["id"], "Again", "published")
        await world.call("DELETE", path)
        restored = (await world.call("PATCH", path, {"status": "published"})).json()
        assert (restored["name"], restored["status"]) == ("Again", "published")
        assert (await world.send("acme/echo")).status == 200


async def test_secrets_never_come_back() -> None:
    async with hub_world() as world:
        backend = {
            "kind": "a2a",
            "url": "https://upstream.example/rpc",
            "headers": {"X-Team": "header-secret"},
            "credentials": {"kind": "bearer", "token": "token-secret"},
        }
        agent = await world.create(backend=backend, status="draft")
        path = f"/agents/{agent['id']}"
        answers = [
            json.dumps(agent),
            (await world.call("GET", path)).body.decode(),
            (await world.call("GET", "/agents")).body.decode(),
            (await world.call("PATCH", path, {"name": "Up"})).body.decode(),
            repr(world.registry.rows()),
        ]
        assert not [text for text in answers if "secret" in text.replace('"secret"', "")]
        shown = (await world.call("GET", path)).json()["backend"]
        assert shown["credentials"] == {"kind": "bearer", "token": "***"}
        assert shown["headers"] == {"X-Team": "***"}
        # A client that sends back what it read must not store the mask as a secret.
        refused = await world.call("PATCH", path, {"backend": shown})
        assert (refused.status, b"backend.headers.X-Team" in refused.body) == (400, True)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"slug": "Echo"}, "slug"),
    ({"slug": "-a"}, "slug"),
    ({"slug": "a/b"}, "slug"),
    ({"slug": ".."}, "slug"),
    ({"slug": "a.b"}, "slug"),
    ({"slug": "a\u0000b"}, "slug"),
    ({"slug": "\u0430cme"}, "slug"),
    ({"slug": "a" * 65}, "slug"),
    ({"slug": "%2e%2e"}, "slug"),
    ({"slug": "a\n"}, "slug"),
    ({"owner": "a c"}, "owner"),
    ({"owner": "acme/x"}, "owner"),
    ({"owner": "*"}, "owner"),
    ({"name": "  "}, "name"),
    ({"name": "a\u202eb"}, "name"),
    ({"name": "x" * 81}, "name"),
    ({"tagline": "x" * 161}, "tagline"),
    ({"tagline": "two\nlines"}, "tagline"),
    ({"description": "\u00fc" * 2049}, "description"),
    ({"description": "x" * 4097}, "description"),
    ({"status": "deleted"}, "status"),
    ({"visibility": "secret"}, "visibility"),
    ({"profile": "none"}, "profile"),
    ({"dailyBudgetQueries": 100_001}, "dailyBudgetQueries"),
    ({"dailyBudgetQueries": -1}, "dailyBudgetQueries"),
    ({"concurrencyCap": 21}, "concurrencyCap"),
    ({"concurrencyCap": 0}, "concurrencyCap"),
    ({"limits": {"concurrencyCap": 21}}, "concurrencyCap"),
    ({"skills": [{"id": "a"}, {"id": "a"}]}, "skills[1].id"),
    ({"skills": [{"id": ""}]}, "skills[0].id"),
    ({"backend": {"kind": "ech"}}, "backend.kind"),
    ({"backend": {}}, "backend"),
    ({"backend": {"kind": "a2a"}}, "backend.url"),
    ({"backend": {"kind": "echo", "more": 1}}, "backend.more"),
    ({"backend": {"kind": "echo", "more": "x" * 70_000}}, "backend"),
    ({"settings": {"default": True}}, "settings.default"),
    ({"settings": {"jsonrpc_path": "/x"}}, "settings.jsonrpc_path"),
    ({"settings": {"no_such_key": 1}}, "settings.no_such_key"),
    ({"settings": {"retention_s": -1}}, "settings.retention_s"),
]


@pytest.mark.parametrize(("values", "field"), WRONG, ids=[repr(v)[:40] for v, _ in WRONG])
async def test_wrong_values_name_the_field_and_change_nothing(
    values: dict[str, Any], field: str
) -> None:
    async with hub_world() as world:
        answer = await world.call("POST", "/agents", ECHO | {"owner": "acme"} | values)
        assert (answer.status, field in answer.json()["error"]["message"]) == (400, True)
        assert world.registry.rows() == []
        if "slug" in values or "owner" in values:
            return
        agent = await world.create()
        path = f"/agents/{agent['id']}"
        answer = await world.call("PATCH", path, values)
        assert (answer.status, field in answer.json()["error"]["message"]) == (400, True)
        assert (await world.call("GET", path)).json() == agent


async def test_a_budget_of_zero_is_taken() -> None:
    async with hub_world() as world:
        assert (await world.create(dailyBudgetQueries=0))["dailyBudgetQueries"] == 0


async def test_a_change_of_limits_keeps_the_others() -> None:
    async with hub_world() as world:
        agent = await world.create(limits={"ratePerCaller": 3}, concurrencyCap=2)
        assert agent["limits"]["ratePerCaller"] == 3
        changed = await world.call(
            "PATCH", f"/agents/{agent['id']}", {"limits": {"dailyBudgetQueries": 9}}
        )
        limits = changed.json()["limits"]
        assert (limits["ratePerCaller"], limits["concurrencyCap"]) == (3, 2)
        assert limits["dailyBudgetQueries"] == 9
        runtime = next(iter(world.gateway.runtimes))
        assert runtime.agents["acme/echo"].profile.max_concurrency == 2


async def test_an_agent_that_cannot_be_published_says_why_and_is_not_served() -> None:
    async with hub_world() as world:
        backend = {"kind": "python", "target": "no_such_module_of_ours"}
        agent = await world.create(backend=backend)
        assert "no_such_module_of_ours" in agent["problem"]
        assert agent["online"] is False
        assert (await world.card("acme/echo")).status == 404
        path = f"/agents/{agent['id']}"
        mended = (await world.call("PATCH", path, {"backend": {"kind": "echo"}})).json()
        assert (mended["problem"], mended["online"]) == ("", True)
        # A new backend that cannot be opened leaves the one that is served.
        broken = (await world.call("PATCH", path, {"backend": backend})).json()
        assert "no_such_module_of_ours" in broken["problem"]
        assert (await world.send("acme/echo")).status == 200
        # With the earlier backend it is as it was.
        whole = (await world.call("PATCH", path, {"backend": {"kind": "echo"}})).json()
        assert whole["problem"] == ""


async def test_owners_do_not_differ_in_case_alone() -> None:
    async with hub_world() as world:
        agent = await world.create(owner="MRIIOT", slug="rust-expert")
        for owner in ("mriiot", "Mriiot"):
            refused = await world.call("POST", "/agents", ECHO | {"owner": owner})
            assert (refused.status, b"There is an owner MRIIOT" in refused.body) == (409, True)
        # Deleted agents keep the name, because they can be restored.
        await world.call("DELETE", f"/agents/{agent['id']}")
        assert (await world.call("POST", "/agents", ECHO | {"owner": "mriiot"})).status == 409
        await world.create(owner="MRIIOT")
        await world.create(owner="MRII")
        await world.create(owner="mriiot2")
        assert (await world.card("MRIIOT/echo")).status == 200
        assert (await world.card("mriiot/echo")).status == 404
