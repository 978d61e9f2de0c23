"""H-20: a program exchanges its code for a session, once."""

import asyncio
from typing import Any

import httpx
import pytest
from tests.hub.sign_in_world import (
    ME,
    TOKEN,
    VERIFIER,
    Browsers,
    SignInGateway,
    program_query,
    query_of,
    sign_in_gateway,
)

from trunkline.api.input import MAX_FORM_BYTES
from trunkline.hub.sign_in_codes import CODE_S
from trunkline.model.timestamps import format_timestamp


async def code_of(world: SignInGateway, browsers: Browsers, login: str = "ada") -> str:
    browser = await browsers.at(world.url)
    done = await browser.sign_in(login, **program_query())
    return query_of(done.headers["location"])["code"]


async def exchange(world: SignInGateway, code: str, verifier: str = VERIFIER) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        body = {"code": code, "code_verifier": verifier}
        return await client.post(world.url + TOKEN, json=body)


async def status_of(world: SignInGateway, token: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        headers = {"Authorization": f"Bearer {token}"}
        return (await client.get(world.url + ME, headers=headers)).status_code


async def test_h20_the_code_and_its_verifier_give_a_session(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada", display_name="Ada")
        answer = await exchange(world, await code_of(world, browsers))
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        told = answer.json()
        token = told["session"].pop("token")
        ends_ms = world.clock.now_ms() + 30 * 86_400_000
        assert told == {
            "user": {"login": "ada", "displayName": "Ada", "roles": ["owner:ada"]},
            "session": {"expiresAt": format_timestamp(ends_ms)},
        }
        assert len(token) == len("tl_sess_") + 32
        assert await status_of(world, token) == 200


async def test_the_same_as_a_form(browsers: Browsers) -> None:
    async with sign_in_gateway() as world, httpx.AsyncClient(trust_env=False) as client:
        await world.add("ada")
        form = {
            "grant_type": "authorization_code",
            "code": await code_of(world, browsers),
            "code_verifier": VERIFIER,
            "client_id": "any",
        }
        answer = await client.post(world.url + TOKEN, data=form)
        assert answer.status_code == 200
        told = answer.json()
        assert (told["token_type"], told["expires_in"]) == ("Bearer", 30 * 86_400)
        assert await status_of(world, told["access_token"]) == 200
        again = await client.post(world.url + TOKEN, data=form)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        assert await status_of(world, told["access_token"]) == 401
        for name in ("code", "code_verifier"):
            lacking = {key: value for key, value in form.items() if key != name}
            answer = await client.post(world.url + TOKEN, data=lacking)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_replayed_code_revokes_what_it_gave(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        code = await code_of(world, browsers)
        token = (await exchange(world, code)).json()["session"]["token"]
        assert await status_of(world, token) == 200
        again = await exchange(world, code)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        assert await status_of(world, token) == 401


async def test_of_many_at_once_at_most_one_gets_a_session(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        code = await code_of(world, browsers)
        answers = await asyncio.gather(*(exchange(world, code) for _ in range(8)))
        good = [answer for answer in answers if answer.status_code == 200]
        assert len(good) <= 1
        # A replay was among them, so even that one has no session any more.
        for answer in good:
            assert await status_of(world, answer.json()["session"]["token"]) == 401
        tokens = await world.hub.tokens.list(principal="user:ada")
        now_ms = world.clock.now_ms()
        assert [each for each in tokens if each.token.is_active(now_ms)] == []


@pytest.mark.parametrize(
    ("code", "verifier"),
    [
        ("", VERIFIER),
        ("x" * 43, VERIFIER),
        ("x" * 5000, VERIFIER),
        (None, "w" * 43),
        (None, ""),
        (None, "v" * 42),
        (None, "é" * 43),
        (None, "v" * 5000),
    ],
)
async def test_a_wrong_code_or_verifier(
    browsers: Browsers, code: str | None, verifier: str
) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        given = await code_of(world, browsers) if code is None else code
        answer = await exchange(world, given, verifier)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        assert await world.hub.tokens.list(principal="user:ada") == []


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"code": 5}', b"{", b"\xff"])
async def test_bodies_that_are_something_else(body: bytes) -> None:
    async with sign_in_gateway() as world, httpx.AsyncClient(trust_env=False) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post(world.url + TOKEN, content=body, headers=headers)
        assert answer.status_code == 400


async def test_a_body_that_is_too_large_is_refused(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        answer = await exchange(world, "x" * MAX_FORM_BYTES)
        assert answer.status_code == 413
        browser = await browsers.at(world.url)
        answer = await browser.fill_in(await browser.start(), "ada", "x" * MAX_FORM_BYTES)
        assert answer.status_code == 413
        assert f"larger than {MAX_FORM_BYTES} bytes" in answer.text


async def test_a_code_ends(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        code = await code_of(world, browsers)
        await world.clock.advance(CODE_S)
        assert (await exchange(world, code)).status_code == 400


async def test_a_user_who_was_disabled_meanwhile_gets_nothing(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        code = await code_of(world, browsers)
        await world.hub.sign_in.users.set_disabled("ada", is_disabled=True)
        answer = await exchange(world, code)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        assert await world.hub.tokens.list(principal="user:ada") == []


async def test_the_code_of_the_password_page_is_no_code_of_a_program(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        sent = await browser.fill_in(await browser.start(), "ada")
        code = query_of(sent.headers["location"])["code"]
        assert (await exchange(world, code)).status_code == 400


async def test_without_a_sign_in_there_is_no_exchange() -> None:
    async with sign_in_gateway(sign_in={"passwords": False}) as world:
        answer = await exchange(world, "x" * 43)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0


async def test_a_session_has_the_rights_of_its_user(browsers: Browsers) -> None:
    agents: dict[str, Any] = {"acme/echo": {"name": "Echo", "backend": {"kind": "echo"}}}
    async with sign_in_gateway(agents=agents, owner_backends=["echo"]) as world:
        await world.add("ada")
        await world.add("root-of-all", is_admin=True)
        found = {}
        async with httpx.AsyncClient(trust_env=False) as client:
            for login in ("ada", "root-of-all"):
                code = await code_of(world, browsers, login)
                token = (await exchange(world, code)).json()["session"]["token"]
                headers = {"Authorization": f"Bearer {token}"}
                for owner in ("ada", "other"):
                    body = {"owner": owner, "slug": f"x-{login}", "backend": {"kind": "echo"}}
                    url = f"{world.url}/api/v1/agents"
                    answer = await client.post(url, json=body, headers=headers)
                    found[login, owner] = answer.status_code
        assert found == {
            ("ada", "ada"): 201,
            ("ada", "other"): 403,
            ("root-of-all", "ada"): 201,
            ("root-of-all", "other"): 201,
        }
