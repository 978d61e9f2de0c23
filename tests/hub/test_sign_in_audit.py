"""The audit of sign-ins: who signed in, and every credential and code that was refused."""

from typing import Any

import httpx
from tests.hub.audit_world import rows_of
from tests.hub.sign_in_world import (
    CALLBACK,
    TOKEN,
    VERIFIER,
    Browser,
    Browsers,
    SignInGateway,
    program_query,
    query_of,
    sign_in_gateway,
)

from trunkline.hub.audit_rows import Line


async def rows(world: SignInGateway) -> list[Line]:
    await world.hub.audit.writer.flush()
    return await rows_of(world.hub.changes.store)


async def refusals(world: SignInGateway) -> list[tuple[str, str, str]]:
    return [
        (row.operation, row.reason, row.source)
        for row in await rows(world)
        if row.kind == "refusal"
    ]


async def at_token_endpoint(world: SignInGateway, **request: Any) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return (await client.post(world.url + TOKEN, **request)).status_code


async def code_for_a_program(browser: Browser) -> str:
    done = await browser.sign_in("ada", **program_query())
    return query_of(done.headers["location"])["code"]


async def test_a_session_is_a_row_with_the_person_who_signed_in(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        await browser.follow(await browser.sign_in("ada"))
        code = {"code": await code_for_a_program(browser), "code_verifier": VERIFIER}
        assert await at_token_endpoint(world, json=code) == 200
        signed_in = [row for row in await rows(world) if row.action == "sign_in"]
        assert [(row.who, row.subject) for row in signed_in] == [("user:ada", "user ada")] * 2


async def test_every_refused_password_code_and_client_is_a_row(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        await browser.fill_in(await browser.start(), "ada", "wrong")
        code = await code_for_a_program(browser)
        for verifier in ("w" * 43, VERIFIER):
            given = {"code": code, "code_verifier": verifier}
            assert await at_token_endpoint(world, json=given) == 400
        client = {"grant_type": "client_credentials", "client_id": "x", "client_secret": "y"}
        assert await at_token_endpoint(world, data=client) == 401
        token = f"POST {TOKEN}"
        assert await refusals(world) == [
            ("POST /api/v1/auth/sign-in", "unauthenticated", "127.0.0.1"),
            (token, "invalid_grant", "127.0.0.1"),
            (token, "invalid_grant", "127.0.0.1"),
            (token, "invalid_client", "127.0.0.1"),
        ]


async def test_a_callback_that_comes_again_is_a_row(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        page = await browser.start()
        flow = browser.http.cookies.get("tl_sign_in") or ""
        query = query_of((await browser.fill_in(page, "ada")).headers["location"])
        assert (await browser.get(CALLBACK, **query)).status_code == 303
        browser.http.cookies.set("tl_sign_in", flow, domain="127.0.0.1", path="/api/v1/auth")
        assert (await browser.get(CALLBACK, **query)).status_code == 400
        assert [each[:2] for each in await refusals(world)] == [
            (f"GET {CALLBACK}", "invalid_grant")
        ]


async def test_what_is_no_attempt_at_anything_is_no_row(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        await browser.start(next="https://evil.example")
        assert await at_token_endpoint(world, data={"grant_type": "other"}) == 400
        assert await refusals(world) == []
