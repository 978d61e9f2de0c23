"""The token endpoint: a key is exchanged for an access token (RFC 6749, 4.4)."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.bindings.asgi import Answer, Http
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.api.input import MAX_FORM_BYTES

FORM = "application/x-www-form-urlencoded"
GRANT = {"grant_type": "client_credentials"}


@asynccontextmanager
async def world() -> AsyncIterator[tuple[HubWorld, Any]]:
    async with hub_world() as it:
        await it.create()
        answer = await it.call("POST", "/tokens", {"name": "ci", "open": True})
        yield it, answer.json()


async def asked(
    it: HubWorld, fields: dict[str, str] | str, *, basic: str = "", **headers: str
) -> Answer:
    given = {"content-type": FORM, **headers}
    if basic:
        given["authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    body = fields if isinstance(fields, str) else urlencode(fields)
    return await it.http.send(
        Http(path="/api/v1/auth/oauth/token", headers=given, body=body.encode())
    )


def posted(key: Any, **more: str) -> dict[str, str]:
    return {**GRANT, "client_id": key["id"], "client_secret": key["token"], **more}


async def test_the_client_may_be_in_the_form_or_in_basic() -> None:
    async with world() as (it, key):
        for answer in (
            await asked(it, posted(key)),
            await asked(it, GRANT, basic=f"{key['id']}:{key['token']}"),
            await asked(it, GRANT, basic=f"{quote(key['id'])}:{quote(key['token'])}"),
        ):
            assert answer.status == 200
            assert answer.headers["cache-control"] == "no-store"
            given = answer.json()
            assert given["token_type"] == "Bearer"
            assert (given["expires_in"], given["scope"]) == (3600, "call")
            assert (await it.send("acme/echo", by=given["access_token"])).status == 200
            assert "client_secret" not in answer.body.decode()


async def test_an_access_token_ends_after_an_hour_and_with_its_key() -> None:
    async with world() as (it, key):
        first = (await asked(it, posted(key))).json()["access_token"]
        it.clock.jump(3599)
        assert (await it.send("acme/echo", by=first)).status == 200
        it.clock.jump(1)
        assert (await it.send("acme/echo", by=first)).status == 401
        second = (await asked(it, posted(key))).json()["access_token"]
        assert (await it.send("acme/echo", by=second)).status == 200
        await it.call("DELETE", f"/tokens/{key['id']}")
        assert (await it.send("acme/echo", by=second)).status == 401
        assert error(await asked(it, posted(key))) == (401, "invalid_client")


async def test_a_scope_narrows_and_never_widens() -> None:
    async with world() as (it, key):
        given = (await asked(it, posted(key, scope="read"))).json()
        assert given["scope"] == "read"
        refused = await it.send("acme/echo", by=given["access_token"])
        assert refused.status == 403
        for scope in ("admin", "call admin", "nonsense", "read  call"):
            assert error(await asked(it, posted(key, scope=scope))) == (400, "invalid_scope")


async def test_an_access_token_is_not_exchanged_again() -> None:
    async with world() as (it, key):
        access = (await asked(it, posted(key))).json()["access_token"]
        listed = (await it.call("GET", "/tokens")).json()["items"]
        (own,) = [each for each in listed if each["kind"] == "access"]
        again = {**GRANT, "client_id": own["id"], "client_secret": access}
        assert error(await asked(it, again)) == (400, "unauthorized_client")


async def test_wrong_clients_get_one_answer() -> None:
    async with world() as (it, key):
        other = (await it.call("POST", "/tokens", {"name": "o", "open": True})).json()
        bodies = set()
        for answer in (
            await asked(it, {**posted(key), "client_secret": "tl_key_" + "0" * 40}),
            await asked(it, {**posted(key), "client_secret": other["token"]}),
            await asked(it, {**posted(key), "client_id": "tok_" + "0" * 24}),
            await asked(it, {**posted(key), "client_secret": "x"}),
            await asked(it, GRANT),
            await asked(it, GRANT, basic=f"{key['id']}:wrong"),
            await asked(it, GRANT, basic="nothing"),
            await asked(it, GRANT, authorization=f"Bearer {key['token']}"),
            await asked(it, GRANT, authorization="Basic !!!"),
        ):
            assert error(answer) == (401, "invalid_client")
            assert answer.headers["www-authenticate"] == 'Basic realm="trunkline"'
            bodies.add(answer.body)
        assert len(bodies) == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("", "invalid_request"),
        ("grant_type=", "invalid_request"),
        ("grant_type=password&username=a&password=b", "unsupported_grant_type"),
        ("grant_type=client_credentials&grant_type=client_credentials", "invalid_request"),
        ("grant_type=%FF", "invalid_request"),
    ],
)
async def test_bad_requests_have_the_errors_of_rfc_6749(fields: str, code: str) -> None:
    async with world() as (it, _):
        answer = await asked(it, fields)
        assert error(answer) == (400, code)
        assert answer.headers["cache-control"] == "no-store"


async def test_a_form_that_is_too_large_is_refused_whole() -> None:
    async with world() as (it, key):
        fields = urlencode(posted(key))
        most = fields + "&more=" + "x" * (MAX_FORM_BYTES - len(fields) - len("&more="))
        assert (await asked(it, most)).status == 200
        for form, status in ((most + "x", 413), (fields + "&x" * 1000, 400)):
            answer = await asked(it, form)
            assert error(answer) == (status, "invalid_request")
            assert "send" in answer.json()["error_description"]


async def test_a_client_that_authenticates_in_two_ways_is_refused() -> None:
    async with world() as (it, key):
        answer = await asked(it, posted(key), basic=f"{key['id']}:{key['token']}")
        assert error(answer) == (400, "invalid_request")


async def test_another_media_type_is_refused() -> None:
    async with world() as (it, key):
        answer = await it.http.send(
            Http(
                path="/api/v1/auth/oauth/token",
                headers={"content-type": "text/plain"},
                body=urlencode(posted(key)).encode(),
            )
        )
        assert error(answer) == (400, "invalid_request")


def error(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json()["error"]
