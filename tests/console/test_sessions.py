"""Codes, cookies and sessions of the page."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.asgi import Asgi
from tests.console.world import KEYS, URL, Browser, settings, world

from trunkline.app.gateway import build
from trunkline.app.reload import Reload
from trunkline.console.page.codes import CODE_S, FIRST_CODE_S, MAX_CODES, OneUseCodes
from trunkline.console.page.files import StaticFiles
from trunkline.console.page.pages import ConsolePages
from trunkline.console.page.sessions import SESSION, SESSION_S, ConsoleSessions
from trunkline.model.errors import StoreUnusable
from trunkline.model.principal import ANONYMOUS
from trunkline.ports.records import Key, Record
from trunkline.runtime.due_work import DueWork
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

USED = (303, "/#code-used")


def where(answer: Any) -> tuple[int, str]:
    return answer.status, answer.headers.get("location", "")


async def me(browser: Browser, **headers: str) -> Any:
    answer = await browser.fetch("/auth/me", **headers)
    return answer.json() if answer.status == 200 else answer.status


async def test_a_code_counts_once_and_becomes_a_cookie() -> None:
    async with world() as it:
        browser = it.browser()
        url = it.console.url()
        assert url.startswith(f"{URL}/?code=")
        target = url.removeprefix(URL)
        answer = await browser.open(target)
        assert where(answer) == (303, "/")
        assert answer.headers["cache-control"] == "no-store"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("tl_console_8642=")
        assert cookie.endswith("; Max-Age=604800; Path=/; HttpOnly; SameSite=Strict")
        assert await me(browser) == {
            "principal": ANONYMOUS.id,
            "roles": ["operator"],
            "user": None,
            "token": (await me(browser))["token"],
        }
        other = it.browser()
        assert where(await other.open(target)) == USED
        assert other.cookies == {}


async def test_a_code_ends_after_its_time() -> None:
    async with world() as it:
        early, late = it.console.url(), it.console.url(FIRST_CODE_S)
        await it.clock.advance(CODE_S + 1)
        assert where(await it.browser().open(early.removeprefix(URL))) == USED
        assert where(await it.browser().open(late.removeprefix(URL))) == (303, "/")


async def test_wrong_codes_are_limited_and_keep_nobody_out() -> None:
    async with world() as it:
        statuses = [(await it.browser().open(f"/?code=wrong{i}")).status for i in range(21)]
        assert statuses == [303] * 20 + [429]
        right = it.console.url().removeprefix(URL)
        assert where(await it.browser().open(right)) == (303, "/")
        blocked = await it.browser().open(right)
        assert (blocked.status, int(blocked.headers["retry-after"]) > 0) == (429, True)
        await it.clock.advance(3)
        assert where(await it.browser().open(right)) == USED


async def test_a_code_that_became_no_session_counts_again() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    is_full = True

    async def open_main() -> MemoryStore:
        if is_full:
            raise StoreUnusable("The disk is full")
        return store

    codes = OneUseCodes(clock)
    sessions = ConsoleSessions(
        open_main=open_main,
        is_shared=lambda: False,
        operator=lambda: ANONYMOUS,
        keys=dict,
        clock=clock,
    )
    pages = ConsolePages(
        StaticFiles(),
        codes=codes,
        sessions=sessions,
        cookie="tl_console_8642",
        is_own_host=lambda _: True,
        is_direct=lambda _: True,
    )
    browser = Browser(Asgi(pages))
    target = f"/?code={codes.new()}"
    assert (await browser.open(target)).status == 503
    is_full = False
    assert where(await browser.open(target)) == (303, "/")
    assert where(await browser.open(target)) == USED


@pytest.mark.parametrize("code", ["", "%00", "%ff", "é", "x" * 10_000, "a&code=b"])
async def test_an_odd_code_is_a_wrong_one(code: str) -> None:
    async with world() as it:
        assert where(await it.browser().open(f"/?code={code}")) == USED


async def test_only_the_newest_codes_count() -> None:
    async with world() as it:
        urls = [it.console.url() for _ in range(MAX_CODES + 1)]
        assert where(await it.browser().open(urls[0].removeprefix(URL))) == USED
        assert where(await it.browser().open(urls[1].removeprefix(URL))) == (303, "/")


@pytest.mark.parametrize(
    "header",
    [
        {"x-forwarded-for": "1.2.3.4"},
        {"x-forwarded-host": "gateway.example"},
        {"forwarded": "for=1.2.3.4"},
        {"via": "1.1 proxy"},
        {"x-real-ip": "1.2.3.4"},
        {"sec-fetch-dest": "image"},
        {"sec-fetch-dest": "iframe"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_a_code_through_a_proxy_or_from_another_page_is_not_used_up(
    header: dict[str, str],
) -> None:
    async with world() as it:
        target = it.console.url().removeprefix(URL)
        assert where(await it.browser().open(target, **header)) == USED
        assert where(await it.browser().open(target)) == (303, "/")


async def test_a_look_ahead_does_not_use_up_a_code() -> None:
    async with world() as it:
        target = it.console.url().removeprefix(URL)
        for header in ({"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}):
            assert (await it.browser().open(target, **header)).status == 503
        head = await it.browser().open(target, method="HEAD")
        assert (head.status, "set-cookie" in head.headers) == (200, False)
        assert where(await it.browser().open(target)) == (303, "/")


async def test_a_code_from_another_machine_is_not_used_up() -> None:
    async with world() as it:
        target = it.console.url().removeprefix(URL)

        def from_client(client: tuple[str, int] | None) -> Asgi:
            async def app(scope: Any, receive: Any, send: Any) -> None:
                await it.gateway.application(scope | {"client": client}, receive, send)

            return Asgi(app)

        # Without an address it came over a Unix socket, so from a proxy.
        for client in (("192.168.1.9", 5), ("::ffff:10.0.0.1", 5), None):
            browser = Browser(from_client(client))
            assert where(await browser.open(target)) == USED
        assert where(await Browser(from_client(("::1", 5))).open(target)) == (303, "/")


async def test_the_cookie_counts_with_the_header_of_the_page_alone() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        assert (await me(browser))["principal"] == "console:operator"
        for value in ("", "0", "true", "1, 1"):
            assert await me(browser, **{"trunkline-page": value}) == 401
        assert (await browser.fetch("/sessions", **{"trunkline-page": ""})).status == 401
        assert (await browser.fetch("/sessions")).status == 200


async def test_an_anonymous_program_is_not_signed_in() -> None:
    async with world() as it:
        browser = it.browser()
        assert await me(browser) == 401
        # What it may do without a session stays.
        assert (await browser.fetch("/sessions")).status == 200
        assert (await browser.fetch("/gateway")).json().get("store") is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "", "sec-fetch-site": "same-origin"}, 404),
        ({}, 404),
    ],
)
async def test_a_write_comes_from_the_page_itself(headers: dict[str, str], status: int) -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        answer = await browser.fetch("/visits/none", method="DELETE", **headers)
        assert answer.status == status


@pytest.mark.parametrize("host", ["evil.example", "192.168.1.5"])
async def test_a_session_does_not_count_at_a_foreign_host(host: str) -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        assert await me(browser, host=host) == 403


@pytest.mark.parametrize(
    "cookie",
    [
        "tl_console_8642=" + "x" * 43,
        "tl_console_8642=short",
        "tl_console_8642=",
        'tl_console_8642="quoted"',
        "tl_console_9999=" + "x" * 43,
        "=; ;;=",
    ],
)
async def test_a_cookie_of_no_session_is_refused(cookie: str) -> None:
    async with world(auth={"keys": KEYS}) as it:
        assert await me(it.browser(), cookie=cookie) == 401


async def test_a_second_cookie_of_the_name_makes_both_worthless() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        ((name, value),) = browser.cookies.items()
        assert await me(browser, cookie=f"{name}={value}; {name}={'x' * 43}") == 401


async def test_a_stale_cookie_is_told_apart_where_no_key_is_needed() -> None:
    async with world() as it:
        stale = "tl_console_8642=" + "x" * 43
        answer = await it.browser().fetch("/sessions", cookie=stale)
        assert answer.status == 401
        assert "open the page again" in answer.json()["error"]["message"]


async def test_a_sign_out_ends_the_session_at_the_gateway() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        kept = dict(browser.cookies)
        # Without the header of the page nothing ends.
        await browser.fetch("/auth/sign-out", {}, **{"trunkline-page": ""})
        assert (await me(browser))["roles"] == ["operator"]
        answer = await browser.fetch("/auth/sign-out", {})
        assert (answer.status, browser.cookies) == (204, {})
        browser.cookies = kept
        assert await me(browser) == 401
        assert (await browser.fetch("/auth/sign-out", {})).status == 204


async def test_a_session_ends_after_a_week_and_its_record_goes() -> None:
    # Without a gateway, whose due work would look every second of the week.
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()

    async def open_main() -> MemoryStore:
        return store

    sessions = ConsoleSessions(
        open_main=open_main,
        is_shared=lambda: False,
        operator=lambda: ANONYMOUS,
        keys=dict,
        clock=clock,
    )
    secret = await sessions.begin()
    (record,) = await store.records(SESSION, scope="", limit=10)
    assert record.due_ms == clock.now_ms() + SESSION_S * 1000
    await clock.advance(SESSION_S - 1)
    assert await sessions.principal(secret) is not None
    await clock.advance(2)
    assert await sessions.principal(secret) is None
    due = DueWork(store=store, clock=clock, kinds=[sessions.due_kind()])
    due.start()
    await clock.advance(2)
    await due.close()
    assert await store.records(SESSION, scope="", limit=10) == ()


async def test_a_session_that_another_gateway_ended_is_refused_within_a_second() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()

    async def open_main() -> MemoryStore:
        return store

    one, two = (
        ConsoleSessions(
            open_main=open_main,
            is_shared=lambda: True,
            operator=lambda: ANONYMOUS,
            keys=dict,
            clock=clock,
        )
        for _ in range(2)
    )
    secret = await one.begin()
    assert await two.principal(secret) is not None
    await one.end(secret)
    assert await one.principal(secret) is None
    await clock.advance(1)
    assert await two.principal(secret) is None


async def test_a_session_that_ends_while_it_is_read_does_not_come_back() -> None:
    clock = FakeClock()
    is_read, is_ended = asyncio.Event(), asyncio.Event()

    class SlowStore(MemoryStore):
        async def record(self, key: Key) -> Record | None:
            found = await super().record(key)
            is_read.set()
            await is_ended.wait()
            return found

    store = SlowStore(clock)
    await store.open()

    async def open_main() -> MemoryStore:
        return store

    def sessions() -> ConsoleSessions:
        return ConsoleSessions(
            open_main=open_main,
            is_shared=lambda: False,
            operator=lambda: ANONYMOUS,
            keys=dict,
            clock=clock,
        )

    secret = await sessions().begin()
    # After a restart.
    restarted = sessions()
    reading = asyncio.get_running_loop().create_task(restarted.principal(secret))
    await is_read.wait()
    await restarted.end(secret)
    is_ended.set()
    assert await reading is None
    assert await restarted.principal(secret) is None


async def test_the_store_has_the_digest_of_a_session_alone() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = await it.signed_in()
        await browser.fetch("/auth/key", {"key": KEYS["me"]["key"]})
        main = it.gateway.runtimes.main
        assert main is not None
        records = await main.store.records(SESSION, scope="", limit=10)
        assert len(records) == 2
        told = repr(records)
        assert browser.cookies["tl_console_8642"] not in told
        assert str(KEYS["me"]["key"]) not in told


@pytest.mark.parametrize("kind", ["sqlite", "json-file"])
async def test_a_session_survives_a_restart(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("tasks.db" if kind == "sqlite" else "tasks")
    store = {"kind": kind, "path": str(path)}
    clock = FakeClock()
    async with world(store=store, clock=clock) as it:
        cookies = (await it.signed_in()).cookies
    async with world(store=store, clock=clock) as it:
        browser = it.browser()
        browser.cookies = dict(cookies)
        assert (await me(browser))["roles"] == ["operator"]
        await browser.fetch("/auth/sign-out", {})
    async with world(store=store, clock=clock) as it:
        browser = it.browser()
        browser.cookies = dict(cookies)
        assert await me(browser) == 401


async def test_two_gateways_on_one_host_keep_their_sessions_apart() -> None:
    other_url = "http://127.0.0.1:9000"
    async with world() as one, world(base_url=other_url, local_url=other_url) as two:
        browser = await one.signed_in()
        browser.http = two.http
        await browser.open(two.console.url().removeprefix(other_url))
        assert sorted(browser.cookies) == ["tl_console_8642", "tl_console_9000"]
        assert (await me(browser))["roles"] == ["operator"]
        await browser.fetch("/auth/sign-out", {})
        browser.http = one.http
        assert (await me(browser))["roles"] == ["operator"]


async def test_a_key_is_exchanged_for_a_session_of_its_own_principal() -> None:
    tables: dict[str, Any] = {"server": {"host": "0.0.0.0"}, "auth": {"keys": KEYS}}
    async with world(**tables) as it:
        browser = it.browser("192.168.1.5:8642")
        assert (await browser.open("/")).status == 200
        assert (await browser.fetch("/gateway")).json()["signIn"] == "key"
        answer = await browser.fetch("/auth/key", {"key": KEYS["you"]["key"]})
        assert (answer.status, answer.body) == (204, b"")
        found = await me(browser)
        assert (found["principal"], found["roles"]) == ("you", [])
        # Without a hub a key manages nothing, nor does its session.
        await browser.fetch("/auth/key", {"key": KEYS["me"]["key"]})
        found = await me(browser)
        assert (found["principal"], found["roles"]) == ("me", [])
        assert (await browser.fetch("/visits")).status == 403


async def test_a_wrong_key_is_refused_and_limited() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = it.browser()
        found = [(await browser.fetch("/auth/key", {"key": f"no{i}"})).status for i in range(11)]
        assert found == [401] * 10 + [429]
        assert (await browser.fetch("/auth/key", {"key": KEYS["me"]["key"]})).status == 429
        assert browser.cookies == {}
        await it.clock.advance(60)
        assert (await browser.fetch("/auth/key", {"key": KEYS["me"]["key"]})).status == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"trunkline-page": ""}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example", "origin": ""}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
async def test_a_key_is_taken_from_the_page_alone(headers: dict[str, str], status: int) -> None:
    async with world(auth={"keys": KEYS}) as it:
        answer = await it.browser().fetch("/auth/key", {"key": KEYS["me"]["key"]}, **headers)
        assert (answer.status, "set-cookie" in answer.headers) == (status, False)


@pytest.mark.parametrize("change", ["removed", "another"])
async def test_a_session_ends_with_its_key(change: str) -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser, operator = it.browser(), await it.signed_in()
        await browser.fetch("/auth/key", {"key": KEYS["you"]["key"]})
        assert (await me(browser))["principal"] == "you"
        keys: dict[str, Any] = {"me": KEYS["me"]}
        if change == "another":
            keys["you"] = KEYS["you"] | {"key": "another-key-of-yours"}
        reload = Reload(
            it.gateway, lambda: (settings(auth={"keys": keys}), ()), local_url=URL, on_apply=_none
        )
        await reload()
        assert await me(browser) == 401
        assert (await me(operator))["principal"] == "console:operator"


def _none(_: Any) -> None:
    return None


async def test_with_a_hub_a_code_works_beside_its_sign_in() -> None:
    async with world(hub={}) as it:
        browser = await it.signed_in()
        assert (await me(browser))["principal"] == "console:operator"
        assert (await browser.fetch("/gateway")).json()["signIn"] == "hub"
        made = await browser.fetch(
            "/agents", {"slug": "own", "owner": "acme", "backend": {"kind": "echo"}}
        )
        assert made.status == 201
        assert made.json()["updatedBy"] == "console:operator"
        kept = dict(browser.cookies)
        answer = await browser.fetch("/auth/sign-out", {}, accept="application/json")
        assert answer.status == 204
        browser.cookies = kept
        assert await me(browser) == 401


async def test_a_page_of_https_gets_a_cookie_for_https_alone() -> None:
    url = "https://gateway.example"
    tables: dict[str, Any] = {"server": {"public_url": url}, "auth": {"keys": KEYS}}
    async with world(base_url=url, **tables) as it:
        browser = it.browser("gateway.example")
        answer = await browser.fetch(
            "/auth/key", {"key": KEYS["me"]["key"]}, origin="https://gateway.example"
        )
        assert answer.headers["set-cookie"].endswith("; Secure")
        # On the machine itself the page is at http.
        code = await it.browser().open(it.console.url().removeprefix(URL))
        assert "Secure" not in code.headers["set-cookie"]


async def test_the_page_and_programs_see_the_same_tasks() -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
    }
    from tests.bindings.asgi import Http

    async with world() as it:
        import json

        own = {"content-type": "application/json", "a2a-version": "1.0"}
        await it.http.send(Http(path="/a2a/jsonrpc", headers=own, body=json.dumps(body).encode()))
        browser = await it.signed_in()
        found = (await browser.fetch("/sessions")).json()["items"]
        assert [each["principal"] for each in found] == [ANONYMOUS.id]


async def test_a_gateway_that_does_not_listen_has_no_code() -> None:
    gateway = build(replace(settings()), base_url="http://h", local_url="")
    assert gateway.console is not None
    assert gateway.console.url() == ""
