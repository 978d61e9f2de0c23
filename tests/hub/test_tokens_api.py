"""Tokens over HTTP: who gets which, and what a request with one is answered."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Http
from tests.hub.registry_world import (
    RPC,
    HubWorld,
    connection,
    hub_world,
    request,
    rpc_body,
)

REALM = 'Bearer realm="trunkline"'
INVALID = f'{REALM}, error="invalid_token"'
SCOPE = f'{REALM}, error="insufficient_scope"'


@asynccontextmanager
async def world() -> AsyncIterator[HubWorld]:
    """With an open agent and a private one."""
    async with hub_world() as it:
        await it.create()
        await it.create(slug="secret", visibility="private")
        yield it


async def created(it: HubWorld, *, by: str = "operator", **values: Any) -> Any:
    answer = await it.call("POST", "/tokens", {"name": "ci", **values}, by=by)
    assert answer.status == 201, answer.body
    return answer.json()


async def state(it: HubWorld, token: str, **options: Any) -> int:
    return (await it.send("acme/echo", by=token, **options)).status


async def test_a_key_of_a_service_calls_the_agents_that_it_is_for() -> None:
    async with world() as it:
        key = await created(it, agents=["acme/echo"], expiresInSeconds=60)
        assert key["token"].startswith(key["prefix"])
        answer = await it.send("acme/echo", by=key["token"])
        assert answer.status == 200
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        # A private agent without a grant is like one that does not exist.
        secret = await it.send("acme/secret", by=key["token"])
        unknown = await it.send("acme/nothing", by=key["token"])
        assert (secret.status, secret.body) == (404, unknown.body)
        assert "www-authenticate" not in secret.headers
        await it.clock.advance(60)
        assert await state(it, key["token"]) == 401


async def test_operations_beyond_the_scope_are_refused_as_rfc_6750_says() -> None:
    async with world() as it:
        key = await created(it, agents=["acme/*"], scopes=["read"])
        refused = await it.send("acme/echo", by=key["token"])
        assert refused.status == 403
        assert refused.headers["www-authenticate"] == SCOPE
        # It may read: there is no such task.
        read = await it.send("acme/echo", by=key["token"], method="GetTask")
        assert read.json()["error"]["code"] == -32001
        one = await created(it, name="one", agents=["acme/*"], methods=["SendMessage"])
        assert await state(it, one["token"]) == 200
        assert (await it.send("acme/echo", by=one["token"], method="GetTask")).status == 403


async def test_an_open_key_calls_every_open_agent_and_no_private_one() -> None:
    async with world() as it:
        key = await created(it, open=True)
        assert await state(it, key["token"]) == 200
        assert (await it.send("acme/secret", by=key["token"])).status == 404


WRONG = {
    "unknown": "tl_key_" + "0" * 40,
    "another style": "cw_sess_" + "0" * 32,
    "another form": "tl_key_123",
    "100 KB": "tl_key_" + "0" * 10_000,
    "not ASCII": "tl_key_\u00e9" + "0" * 39,
    "JWT": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
}


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG)
async def test_wrong_tokens_get_one_answer(token: str) -> None:
    async with world() as it:
        unknown = await it.send("acme/echo", by=WRONG["unknown"])
        refused = await it.send("acme/echo", by=token.encode().decode("latin-1"))
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == INVALID
        assert refused.body == unknown.body
        api = await it.call("GET", "/tokens", by=token.encode().decode("latin-1"))
        assert (api.status, api.headers["www-authenticate"]) == (401, INVALID)


async def test_expired_and_revoked_tokens_are_like_unknown_ones() -> None:
    async with world() as it:
        expired = await created(it, name="a", open=True, expiresInSeconds=1)
        revoked = await created(it, name="b", open=True)
        assert await state(it, expired["token"]) == await state(it, revoked["token"]) == 200
        await it.clock.advance(1)
        assert (await it.call("DELETE", f"/tokens/{revoked['id']}")).status == 204
        unknown = await it.send("acme/echo", by=WRONG["unknown"])
        for key in (expired, revoked):
            answer = await it.send("acme/echo", by=key["token"])
            assert (answer.status, answer.body) == (401, unknown.body)
            assert answer.headers["www-authenticate"] == INVALID


async def test_without_a_credential_the_challenge_has_no_error() -> None:
    async with world() as it:
        for answer in (
            await it.http.send(Http(path=RPC.format("acme/echo"), headers=JSON, body=rpc_body())),
            await it.call("GET", "/tokens", by=""),
        ):
            assert (answer.status, answer.headers["www-authenticate"]) == (401, REALM)
        # The card needs none.
        assert (await it.card("acme/echo")).status == 200


JSON = {"content-type": "application/json"}


async def test_a_revoked_token_is_refused_on_a_connection_that_stays_open() -> None:
    async with world() as it, connection(it) as peer:
        key = await created(it, open=True)
        asked = request("POST", RPC.format("acme/echo"), rpc_body(), by=key["token"])
        for expected in (200, 200):
            peer.send(asked)
            assert (await peer.response())[0] == expected
        assert (await it.call("DELETE", f"/tokens/{key['prefix']}")).status == 204
        peer.send(asked)
        status, headers, _ = await peer.response()
        assert (status, headers["www-authenticate"]) == (401, INVALID)


async def session(it: HubWorld, login: str = "carol", **options: Any) -> Any:
    assert it.gateway.hub is not None
    return await it.gateway.hub.tokens.issue(
        kind="session",
        name="laptop",
        principal=f"user:{login}",
        scopes=("call", "admin"),
        roles=(f"owner:{login}",),
        reaches_open=True,
        expires_in_s=3600,
        **options,
    )


async def test_people_create_keys_of_their_own_and_none_beyond() -> None:
    async with world() as it:
        carol = await session(it)
        key = await created(it, by=carol.token, agents=["acme/echo"])
        assert await state(it, key["token"]) == 200
        tokens = (await it.call("GET", "/tokens", by=carol.token)).json()["items"]
        assert {each["principal"] for each in tokens} == {"user:carol"}
        assert [each["kind"] for each in tokens if each["current"]] == ["session"]
        # The key has no scope to manage.
        for answer in (
            await it.call("GET", "/tokens", by=key["token"]),
            await it.call("POST", "/tokens", {"name": "more"}, by=key["token"]),
            await it.call("DELETE", f"/tokens/{carol.id}", by=key["token"]),
        ):
            assert (answer.status, answer.headers["www-authenticate"]) == (403, SCOPE)
        # A key that manages, but is limited to an agent, creates no key that is not.
        limited = await created(
            it, by=carol.token, agents=["acme/echo"], scopes=["call", "admin"], name="limited"
        )
        answer = await it.call("POST", "/tokens", {"name": "more"}, by=limited["token"])
        assert answer.status == 403
        for wrong in ({"open": True}, {"owner": "acme", "scopes": ["admin"]}):
            answer = await it.call("POST", "/tokens", {"name": "x", **wrong}, by=carol.token)
            assert answer.status == 400


async def test_the_tokens_of_others_are_like_unknown_ones() -> None:
    async with world() as it:
        carol, dave = await session(it), await session(it, "dave")
        unknown = await it.call("DELETE", f"/tokens/tok_{'0' * 24}", by=dave.token)
        for name in (carol.id, carol.prefix):
            answer = await it.call("DELETE", f"/tokens/{name}", by=dave.token)
            assert (answer.status, answer.body) == (404, unknown.body)
            answer = await it.call("POST", f"/tokens/{name}/rotate", {}, by=dave.token)
            assert answer.status == 404
        listed = await it.call("GET", "/tokens", by=dave.token, query="principal=user:carol")
        assert listed.status == 403
        assert await state(it, carol.token) == 200


async def test_the_current_session_is_not_revoked_but_others_are() -> None:
    async with world() as it:
        here, there = await session(it), await session(it)
        assert (await it.call("DELETE", f"/tokens/{here.id}", by=here.token)).status == 409
        assert (await it.call("DELETE", f"/tokens/{there.prefix}", by=here.token)).status == 204
        assert await state(it, there.token) == 401
        assert await state(it, here.token) == 200


async def test_a_key_is_rotated_with_an_overlap() -> None:
    async with world() as it:
        old = await created(it, open=True)
        # A program may rotate its own key.
        answer = await it.call(
            "POST", f"/tokens/{old['id']}/rotate", {"overlapSeconds": 60}, by=old["token"]
        )
        assert answer.status == 200
        new = answer.json()
        assert await state(it, old["token"]) == await state(it, new["token"]) == 200
        await it.clock.advance(60)
        assert await state(it, old["token"]) == 401
        assert await state(it, new["token"]) == 200
        longer = await it.call(
            "POST", f"/tokens/{new['id']}/rotate", {"expiresInSeconds": 9999999}, by=new["token"]
        )
        assert longer.status == 403


async def test_the_list_shows_no_secret_and_has_pages() -> None:
    async with world() as it:
        keys = [await created(it, name=f"k{number}", open=True) for number in range(5)]
        first = (await it.call("GET", "/tokens", query="pageSize=3")).json()
        token = first["nextPageToken"]
        rest = await it.call("GET", "/tokens", query=f"pageSize=3&pageToken={token}")
        assert len(first["items"]) == 3
        assert rest.json()["nextPageToken"] == ""
        items = first["items"] + rest.json()["items"]
        assert {each["id"] for each in items} == {key["id"] for key in keys}
        text = json.dumps(items)
        assert not any(key["token"] in text for key in keys)
        assert items[0]["createdBy"] == "user:operator"
        assert items[0]["status"] == "active"


BAD = [
    {"name": "a b", "open": True},
    {"name": "", "open": True},
    {"name": "x"},
    {"name": "x", "agents": ["acme"]},
    {"name": "x", "agents": ["acme/echo,*"]},
    {"name": "x", "open": True, "scopes": []},
    {"name": "x", "open": True, "scopes": ["root"]},
    {"name": "x", "open": True, "methods": ["message/send"]},
    {"name": "x", "open": True, "expiresInSeconds": 0},
    {"name": "x", "open": True, "expiresInSeconds": 10**12},
    {"name": "x", "open": True, "owner": "acme"},
    {"name": "x", "open": True, "principal": "user:carol"},
]


@pytest.mark.parametrize("body", BAD, ids=json.dumps)
async def test_bad_requests_are_refused(body: dict[str, Any]) -> None:
    async with world() as it:
        answer = await it.call("POST", "/tokens", body)
        assert answer.status == 400
        assert (await it.call("GET", "/tokens")).json()["items"] == []


async def test_two_keys_of_one_name_conflict() -> None:
    async with world() as it:
        await created(it, open=True)
        answer = await it.call("POST", "/tokens", {"name": "ci", "open": True})
        assert answer.status == 409


# The session of a browser.


async def posted(it: HubWorld, token: str, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await it.http.send(
        Http(
            path=RPC.format("acme/echo"),
            headers={"host": "gateway.example", "cookie": f"tl_session={token}", **JSON, **given},
            body=rpc_body(),
        )
    )


async def test_a_cookie_counts_only_from_pages_of_the_gateway() -> None:
    async with world() as it:
        carol = await session(it)
        own = "https://gateway.example"
        assert (await posted(it, carol.token, origin=own)).status == 200
        assert (await posted(it, carol.token, origin=own, sec_fetch_site="same-origin")).status
        for headers in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "https://gateway.example.evil.example"},
            {"sec_fetch_site": "cross-site"},
            {"origin": own, "sec_fetch_site": "cross-site"},
        ):
            assert (await posted(it, carol.token, **headers)).status == 403
        # A wrong credential beside the cookie is not a way around the check.
        answer = await posted(
            it, carol.token, origin="https://evil.example", authorization="Bearer x"
        )
        assert answer.status == 401
        assert (await posted(it, "tl_sess_" + "0" * 32, origin=own)).status == 401


async def test_a_post_with_a_cookie_that_states_no_page_is_refused() -> None:
    async with world() as it:
        carol = await session(it)
        assert (await posted(it, carol.token)).status == 403


async def test_two_authorization_headers_are_refused() -> None:
    async with world() as it, connection(it) as peer:
        key = await created(it, open=True)
        again = (f"Authorization: Bearer {key['token']}",)
        peer.send(
            request("POST", RPC.format("acme/echo"), rpc_body(), by=key["token"], headers=again)
        )
        # The server cannot tell which one a proxy in front has checked.
        assert (await peer.response())[0] == 400


async def test_changes_of_tokens_and_grants_are_rows_of_the_audit() -> None:
    async with world() as it:
        key = await created(it, open=True)
        new = await it.call("POST", f"/tokens/{key['id']}/rotate", {"overlapSeconds": 60})
        await it.call("DELETE", f"/tokens/{key['id']}")
        row = (await it.call("GET", "/agents/by-handle/acme/secret")).json()
        path = f"/agents/{row['id']}/grants/token:ci"
        await it.call("PUT", path, {}, by="acme")
        await it.call("DELETE", path, by="acme")
        await it.clock.advance(5)
        assert it.gateway.hub is not None
        store = it.gateway.hub.changes.store
        text = b"".join(
            [record.body for record in await store.records("audit.1", limit=1000)]
        ).decode()
        for action in ("token.create", "rotate_token", "revoke_token", "grant.give", "grant.take"):
            assert text.count(action) == 1
        assert "user:acme" in text
        for secret in (key["token"], new.json()["token"]):
            assert secret not in text
