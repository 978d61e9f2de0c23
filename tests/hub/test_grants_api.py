"""Grants over HTTP: private agents for those whom their owners name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.hub.registry_world import HubWorld, hub_world

CONFIGURED = {"local/echo": {"name": "Echo", "description": "Repeats", "backend": {"kind": "echo"}}}


@asynccontextmanager
async def world() -> AsyncIterator[tuple[HubWorld, str, str]]:
    """With a private agent of acme and the key of a service."""
    async with hub_world(agents=CONFIGURED) as it:
        agent = await it.create(visibility="private")
        answer = await it.call("POST", "/tokens", {"name": "ci", "open": True})
        yield it, f"/agents/{agent['id']}/grants", answer.json()["token"]


async def status(it: HubWorld, token: str, handle: str = "acme/echo", **options: Any) -> int:
    return (await it.send(handle, by=token, **options)).status


async def test_a_grant_counts_from_the_next_request_on_until_it_is_taken() -> None:
    async with world() as (it, path, token):
        unknown = await it.send("acme/nothing", by=token)
        before = await it.send("acme/echo", by=token)
        assert (before.status, before.body) == (404, unknown.body)
        given = await it.call("PUT", f"{path}/token:ci", {}, by="acme")
        assert given.status == 200
        assert given.json()["grantedBy"] == "user:acme"
        assert await status(it, token) == 200
        assert (await it.card("acme/echo", by=token)).status == 200
        listed = (await it.call("GET", path, by="acme")).json()
        assert [each["principal"] for each in listed["items"]] == ["token:ci"]
        assert (await it.call("DELETE", f"{path}/token:ci", by="acme")).status == 204
        after = await it.send("acme/echo", by=token)
        assert (after.status, after.body) == (404, unknown.body)
        # Again changes nothing.
        assert (await it.call("DELETE", f"{path}/token:ci", by="acme")).status == 204
        assert (await it.call("GET", path, by="acme")).json()["items"] == []


async def test_a_grant_may_be_for_some_operations() -> None:
    async with world() as (it, path, token):
        await it.call("PUT", f"{path}/token:ci", {"methods": ["GetTask"]}, by="acme")
        assert await status(it, token) == 403
        read = await it.send("acme/echo", by=token, method="GetTask")
        assert read.json()["error"]["code"] == -32001


async def test_a_grant_does_not_widen_a_token_that_is_limited() -> None:
    async with world() as (it, path, _):
        limited = await it.call(
            "POST", "/tokens", {"name": "few", "agents": ["other/one"], "scopes": ["call"]}
        )
        await it.call("PUT", f"{path}/token:few", {}, by="acme")
        assert await status(it, limited.json()["token"]) == 404


@pytest.mark.parametrize("caller", ["carol", "dave", "reader"])
async def test_only_owners_and_operators_see_and_change_grants(caller: str) -> None:
    async with world() as (it, path, _):
        unknown = await it.call("GET", "/agents/agt_unknown/grants", by=caller)
        for method, where, body in (
            ("GET", path, None),
            ("PUT", f"{path}/user:carol", {}),
            ("DELETE", f"{path}/user:carol", None),
        ):
            answer = await it.call(method, where, body, by=caller)
            assert (answer.status, answer.body) == (404, unknown.body)
        assert (await it.call("GET", path, by="")).status == 401
        assert (await it.call("PUT", f"{path}/user:carol", {}, by="operator")).status == 200


async def test_operators_grant_agents_of_the_configuration() -> None:
    async with world() as (it, _, token):
        assert await status(it, token, "local/echo") == 403
        found = (await it.call("GET", "/agents/by-handle/local/echo")).json()
        path = f"/agents/{found['id']}/grants/token:ci"
        assert (await it.call("PUT", path, {}, by="acme")).status == 404
        assert (await it.call("PUT", path, {})).status == 200
        assert await status(it, token, "local/echo") == 200


async def test_bad_grants_are_refused() -> None:
    async with world() as (it, path, _):
        for principal, body in (
            ("token:ci", {"methods": []}),
            ("token:ci", {"methods": ["message/send"]}),
            ("token:ci", {"operations": ["GetTask"]}),
            ("%40anonymous", {}),
            ("a%20b", {}),
            ("%C3%A9", {}),
        ):
            answer = await it.call("PUT", f"{path}/{principal}", body, by="acme")
            assert answer.status == 400
        assert (await it.call("GET", path, by="acme")).json()["items"] == []


async def test_grants_have_pages() -> None:
    async with world() as (it, path, _):
        for name in "abcde":
            await it.call("PUT", f"{path}/user:{name}", {}, by="acme")
        first = (await it.call("GET", path, by="acme", query="pageSize=3")).json()
        token = first["nextPageToken"]
        rest = await it.call("GET", path, by="acme", query=f"pageSize=3&pageToken={token}")
        items = first["items"] + rest.json()["items"]
        assert [each["principal"] for each in items] == [f"user:{name}" for name in "abcde"]
        assert rest.json()["nextPageToken"] == ""
