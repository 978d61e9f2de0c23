"""The whole sign-in with a browser, at the gateway's own provider."""

from collections.abc import Awaitable, Callable
from functools import partial

import httpx
import pytest
from tests.hub.sign_in_world import (
    CALLBACK,
    ME,
    PAGE,
    PROGRAM,
    SIGN_OUT,
    START,
    Browsers,
    csrf_in,
    program_query,
    query_of,
    sign_in_gateway,
)

from trunkline.hub.sign_in_codes import CODE_S
from trunkline.hub.sign_in_flow import FLOW_S


async def test_h19_a_browser_signs_in_and_out(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada", display_name="Ada <Lovelace>", is_admin=True)
        browser = await browsers.at(world.url)
        assert (await browser.me()).status_code == 401
        page = await browser.start(next="/api/v1/auth/me?a=b#c")
        assert (page.status_code, page.url.path) == (200, PAGE)
        answer = await browser.fill_in(page, "ada")
        assert answer.status_code == 303
        done = await browser.http.get(answer.url.join(answer.headers["location"]))
        assert done.status_code == 303
        assert done.headers["location"] == "/api/v1/auth/me?a=b#c"
        cookie = done.headers.get_list("set-cookie")[0]
        assert cookie.startswith(f"tl_session={browser.session}; ")
        assert sorted(cookie.split("; ")[1:]) == [
            "HttpOnly",
            "Max-Age=2592000",
            "Path=/",
            "SameSite=lax",
        ]
        assert (await browser.me()).json() == {
            "principal": "user:ada",
            "roles": ["operator", "owner:ada"],
            "user": {
                "login": "ada",
                "displayName": "Ada <Lovelace>",
                "roles": ["operator", "owner:ada"],
            },
            "token": world_token(browser.session),
        }
        shown = await browser.get(PAGE)
        assert "Ada &lt;Lovelace&gt;" in shown.text
        # H-18: the header and the cookie are equal.
        bearer = {"Authorization": f"Bearer {browser.session}"}
        async with httpx.AsyncClient(trust_env=False) as other:
            told = await other.get(browser.at(ME), headers=bearer)
            assert told.json()["principal"] == "user:ada"
            signed_out = await browser.post(SIGN_OUT, {})
            assert (signed_out.status_code, signed_out.headers["location"]) == (303, "sign-in")
            assert browser.session == ""
            assert (await other.get(browser.at(ME), headers=bearer)).status_code == 401
        assert (await browser.me()).status_code == 401
        # Once more, with a cookie that is not valid any more.
        browser.http.cookies.set("tl_session", bearer["Authorization"][7:])
        assert (await browser.post(SIGN_OUT, {})).status_code == 303
        assert (await browser.start()).url.path == PAGE


def world_token(session: str) -> str:
    from trunkline.hub.token_values import digest_of, id_of

    return id_of(digest_of(session.encode()))


async def test_the_page_needs_no_script_and_trusts_nothing(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        page = await browser.start()
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert policy.endswith("form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
        assert "script" not in page.text
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        # The cookie of the flow goes to no other path, and no script reads it.
        started = await browser.get(START)
        assert "Path=/api/v1/auth; " in started.headers["set-cookie"] + "; "
        assert "HttpOnly" in started.headers["set-cookie"]
        # Browsers apply form-action to the redirect to the program as well.
        page = await browser.start(**program_query())
        assert (
            "form-action 'self' http://localhost:45678;" in page.headers["content-security-policy"]
        )
        assert "localhost:45678" in page.text


async def test_a_secure_gateway_has_secure_cookies() -> None:
    from tests.bindings.asgi import Asgi, Http

    from trunkline.app.gateway import build
    from trunkline.settings import from_document
    from trunkline.testing import FakeClock

    document = {"store": {"kind": "memory"}, "hub": {"style": "clawborrator"}}
    gateway = build(
        from_document(document, environment={}),
        base_url="https://gateway.example",
        clock=FakeClock(),
    )
    await gateway.open()
    try:
        answer = await Asgi(gateway.application).send(Http(method="GET", path=START))
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("cw_sign_in=")
        assert "Secure" in cookie
    finally:
        await gateway.close()


@pytest.mark.parametrize(
    ("login", "password"),
    [
        ("ada", "wrong horse"),
        ("nobody", "wrong horse"),
        ("ada", ""),
        ("", ""),
        ("../ada", "correct horse"),
        ("ada\x00", "correct horse"),
        ("gone", "correct horse"),
        ("off", "correct horse"),
        ("ada", "x" * 5000),
    ],
)
async def test_every_wrong_password_gets_the_same_answer(
    browsers: Browsers, login: str, password: str
) -> None:
    async with sign_in_gateway() as world:
        for name in ("ada", "gone", "off"):
            await world.add(name)
        await world.hub.sign_in.users.remove("gone")
        await world.hub.sign_in.users.set_disabled("off", is_disabled=True)
        browser = await browsers.at(world.url)
        page = await browser.start()
        answer = await browser.fill_in(page, login, password)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="trunkline"'
        assert "The login or the password is wrong." in answer.text
        assert browser.session == ""
        # The same page takes the right one.
        assert (await browser.fill_in(answer, "ada")).status_code == 303


async def test_guesses_are_limited_whether_or_not_there_is_such_a_user(
    browsers: Browsers,
) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        page = await browser.start()
        answers = {
            login: [(await browser.fill_in(page, login, "wrong horse")) for _ in range(7)]
            for login in ("ada", "nobody")
        }
        for found in answers.values():
            assert [answer.status_code for answer in found] == [401] * 5 + [429] * 2
            assert int(found[-1].headers["retry-after"]) > 0
        # Not even the right one, until the time is over.
        assert (await browser.fill_in(page, "ada")).status_code == 429
        await world.clock.advance(60)
        assert (await browser.fill_in(page, "ada")).status_code == 303


async def test_a_form_of_another_site_signs_nobody_in(browsers: Browsers) -> None:
    """Else a page could sign a visitor in as its own user, and read what the visitor asks."""
    async with sign_in_gateway() as world:
        await world.add("mallory")
        victim, mallory = await browsers.at(world.url), await browsers.at(world.url)
        form = {
            "csrf": csrf_in((await mallory.start()).text),
            "login": "mallory",
            "password": "correct horse",
        }
        # Without the cookie of a flow, which a browser does not send with a cross-site form.
        assert (await victim.post(PAGE, form)).status_code == 400
        # With a flow of its own, the token of the other flow does not fit.
        await victim.start()
        answer = await victim.post(PAGE, form)
        assert answer.status_code == 403
        assert (await victim.post(PAGE, {**form, "csrf": ""})).status_code == 403
        assert victim.session == ""


@pytest.mark.parametrize(
    "next_path",
    [
        "//evil.example",
        "/\\evil.example",
        "https:evil.example",
        "https://evil.example",
        "/\r\nSet-Cookie: tl_session=x",
        "/\t/evil.example",
        "javascript:alert(1)",
    ],
)
async def test_no_open_redirect(browsers: Browsers, next_path: str) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        answer = await browser.get(START, next=next_path)
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert "evil" not in answer.text


async def test_the_callback_takes_only_what_its_browser_started(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        one, other = await browsers.at(world.url), await browsers.at(world.url)
        sent = await one.fill_in(await one.start(), "ada")
        query = query_of(sent.headers["location"])
        await other.start()
        # The code and state of one browser, in another one or in none.
        for browser in (other, await browsers.at(world.url)):
            answer = await browser.get(CALLBACK, **query)
            assert answer.status_code == 400
            assert browser.session == ""
        for forged in ({**query, "state": "x" * 43}, {**query, "state": ""}, {"code": "x"}):
            answer = await one.get(CALLBACK, **forged)
            assert answer.status_code == 400
        # A code that is wrong ends the flow.
        assert (await one.get(CALLBACK, **{**query, "code": "x" * 43})).status_code == 400
        assert one.session == ""


async def test_a_callback_counts_once(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        page = await browser.start()
        flow = browser.http.cookies.get("tl_sign_in") or ""
        sent = await browser.fill_in(page, "ada")
        query = query_of(sent.headers["location"])
        assert (await browser.get(CALLBACK, **query)).status_code == 303
        browser.http.cookies.delete("tl_session")
        assert (await browser.get(CALLBACK, **query)).status_code == 400
        # Also for a browser that kept its cookie.
        browser.http.cookies.set("tl_sign_in", flow, domain="127.0.0.1", path="/api/v1/auth")
        assert (await browser.get(CALLBACK, **query)).status_code == 400
        assert browser.session == ""


async def test_codes_and_flows_end(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        page = await browser.start()
        sent = await browser.fill_in(page, "ada")
        await world.clock.advance(CODE_S)
        location = sent.url.join(sent.headers["location"])
        assert (await browser.http.get(location)).status_code == 400
        page = await browser.start()
        await world.clock.advance(FLOW_S + 1)
        assert (await browser.fill_in(page, "ada")).status_code == 400
        assert browser.session == ""


async def test_the_session_ends_after_its_days_whether_or_not_it_is_used(
    browsers: Browsers,
) -> None:
    async with sign_in_gateway(sign_in={"session_days": 2}) as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        await browser.sign_in("ada")
        token = {"Authorization": f"Bearer {browser.session}"}
        async with httpx.AsyncClient(trust_env=False, headers=token) as client:
            world.clock.jump(2 * 86_400 - 1)
            assert (await client.get(browser.at(ME))).status_code == 200
            world.clock.jump(1)
            assert (await client.get(browser.at(ME))).status_code == 401


async def test_changes_of_a_user_end_its_sessions(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        users = world.hub.sign_in.users
        browser = await browsers.at(world.url)
        changes: list[Callable[[], Awaitable[None]]] = [
            partial(users.set_password, "ada", "correct horse"),
            partial(users.set_admin, "ada", is_admin=True),
            partial(users.set_disabled, "ada", is_disabled=True),
        ]
        for change in changes:
            await browser.sign_in("ada")
            assert (await browser.me()).status_code == 200
            await change()
            assert (await browser.me()).status_code == 401
            browser.http.cookies.delete("tl_session")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_other_sites_cannot_sign_out(
    browsers: Browsers, headers: dict[str, str], status: int
) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        await browser.sign_in("ada")
        assert (await browser.post(SIGN_OUT, {}, **headers)).status_code == status
        assert (await browser.me()).status_code == (200 if status == 403 else 401)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # Every browser states where a form comes from.
        ({}, 403),
        # Another service below the same domain.
        ({"Sec-Fetch-Site": "same-site"}, 403),
        # Behind a proxy that hands on another Host.
        ({"Origin": "https://gateway.example"}, 303),
        ({"Origin": "https://gateway.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://gateway.example.evil.example"}, 403),
    ],
)
async def test_pages_of_the_public_address_may_use_the_cookie(
    browsers: Browsers, headers: dict[str, str], status: int
) -> None:
    server = {"public_url": "https://gateway.example"}
    async with sign_in_gateway(server=server) as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        await browser.sign_in("ada")
        answer = await browser.http.post(browser.at(SIGN_OUT), headers=headers)
        assert answer.status_code == status


async def test_a_key_is_not_signed_out(browsers: Browsers) -> None:
    keys = {"keys": {"robot": {"key": "robot-has-a-long-key"}}}
    async with sign_in_gateway(auth=keys) as world, httpx.AsyncClient(trust_env=False) as client:
        headers = {"Authorization": "Bearer robot-has-a-long-key"}
        answer = await client.post(world.url + SIGN_OUT, headers=headers)
        assert answer.status_code == 400
        told = (await client.get(world.url + ME, headers=headers)).json()
        assert (told["principal"], told["user"]) == ("robot", None)


async def test_without_a_provider_there_is_no_sign_in(browsers: Browsers) -> None:
    async with sign_in_gateway(sign_in={"passwords": False}) as world:
        browser = await browsers.at(world.url)
        answer = await browser.get(START, **program_query())
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "[hub.sign_in]" in answer.text
        assert "location" not in answer.headers


async def test_an_unknown_provider_is_refused(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        assert (await browser.get(START, provider="evil")).status_code == 400
        assert (await browser.get(START, provider="passwords")).status_code == 303


async def test_starts_are_limited(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        found = [(await browser.get(START)).status_code for _ in range(61)]
        assert found == [303] * 60 + [429]


async def test_a_program_gets_its_code_and_state(browsers: Browsers) -> None:
    async with sign_in_gateway() as world:
        await world.add("ada")
        browser = await browsers.at(world.url)
        done = await browser.sign_in("ada", **program_query(state="a&b=c"))
        assert done.status_code == 303
        location = done.headers["location"]
        assert location.startswith(f"{PROGRAM}?code=")
        query = query_of(location)
        assert query["state"] == "a&b=c"
        assert len(query["code"]) >= 32
        # The browser itself is not signed in.
        assert browser.session == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://localhost.evil.example:80/callback"},
        {"redirect_uri": ""},
        {"state": ""},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
    ],
)
async def test_a_bad_program_is_never_redirected_to(
    browsers: Browsers, changes: dict[str, str]
) -> None:
    async with sign_in_gateway() as world:
        browser = await browsers.at(world.url)
        answer = await browser.get(START, **program_query(**changes))
        assert answer.status_code == 400
        assert "location" not in answer.headers
