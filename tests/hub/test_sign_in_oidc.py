"""The sign-in at an OpenID Connect provider: as it should be, and with every lie."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from tests.hub.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcServer, oidc_server, unsigned
from tests.hub.sign_in_world import (
    CALLBACK,
    PROGRAM,
    START,
    Browser,
    Browsers,
    SignInGateway,
    program_query,
    query_of,
    sign_in_gateway,
)

from trunkline.app.hub import Hub
from trunkline.testing import FakeClock


class World:
    def __init__(self, gateway: SignInGateway, provider: OidcServer, browser: Browser) -> None:
        self.gateway = gateway
        self.provider = provider
        self.browser = browser


def settings(provider: OidcServer, **values: Any) -> dict[str, Any]:
    company = {
        "kind": "oidc",
        "issuer": provider.url,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "sign_up": ["@example.com"],
        **values,
    }
    return {"passwords": False, "providers": {"company": company}}


@pytest.fixture
async def world(browsers: Browsers) -> AsyncIterator[World]:
    clock = FakeClock()
    async with (
        oidc_server(lambda: clock.now_ms() / 1000) as provider,
        sign_in_gateway(sign_in=settings(provider), clock=clock) as gateway,
    ):
        yield World(gateway, provider, await browsers.at(gateway.url))


async def refused(world: World, status: int) -> None:
    answer = await world.browser.start()
    assert answer.status_code == status, answer.text
    assert world.browser.session == ""
    assert await world.gateway.hub.sign_in.users.list() == []
    # Nothing of the reason, of secrets or of addresses.
    assert CLIENT_SECRET not in answer.text
    assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_person_signs_in_at_the_provider(world: World, algorithm: str) -> None:
    world.provider.algorithm = algorithm
    done = await world.browser.start()
    assert (done.status_code, done.url.path) == (200, "/api/v1/auth/sign-in")
    told = (await world.browser.me()).json()
    assert told["user"] == {
        "login": "ada",
        "displayName": "Ada Lovelace",
        "roles": ["owner:ada"],
    }
    # The second time it is the same user, whatever its name is now.
    world.provider.account |= {"preferred_username": "countess", "email": "other@evil.example"}
    await world.browser.start()
    assert (await world.browser.me()).json()["principal"] == "user:ada"
    assert len(await world.gateway.hub.sign_in.users.list()) == 1


async def test_the_secret_may_go_in_the_form(world: World) -> None:
    world.provider.discovery["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    assert (await world.browser.start()).status_code == 200
    assert world.provider.forms[0]["client_secret"] == CLIENT_SECRET


async def test_equal_names_are_two_people(world: World) -> None:
    await world.gateway.add("ada", is_admin=True)
    await world.browser.start()
    told = (await world.browser.me()).json()
    assert (told["principal"], told["roles"]) == ("user:ada-2", ["owner:ada-2"])
    # The same e-mail address and name, and another subject.
    world.provider.account["sub"] = "1816"
    await world.browser.start()
    assert (await world.browser.me()).json()["principal"] == "user:ada-3"


async def a_grant(hub: Hub) -> None:
    await hub.tokens.grants.give("acme/secret", "user:ada", methods=None, by="op")


async def a_service_of_the_owner(hub: Hub) -> None:
    await hub.tokens.issue(kind="key", name="ci", principal="token:ci", roles=("owner:Ada",))


@pytest.mark.parametrize("give", [a_grant, a_service_of_the_owner])
async def test_rights_under_a_name_are_not_those_of_an_account_elsewhere(
    world: World, give: Callable[[Hub], Awaitable[None]]
) -> None:
    await give(world.gateway.hub)
    await world.browser.start()
    told = (await world.browser.me()).json()
    assert (told["principal"], told["roles"]) == ("user:ada-2", ["owner:ada-2"])


async def test_an_account_elsewhere_gets_no_name_of_an_api_key(browsers: Browsers) -> None:
    """Lists of callers would show the two as one."""
    clock = FakeClock()
    keys = {"Ada": {"key": "a-key-of-the-configuration"}}
    async with (
        oidc_server(lambda: clock.now_ms() / 1000) as provider,
        sign_in_gateway(sign_in=settings(provider), clock=clock, auth={"keys": keys}) as gateway,
    ):
        browser = await browsers.at(gateway.url)
        await browser.start()
        assert (await browser.me()).json()["principal"] == "user:ada-2"


async def test_whoever_gets_the_login_of_a_removed_user_gets_no_grants(world: World) -> None:
    users, grants = world.gateway.hub.sign_in.users, world.gateway.hub.tokens.grants
    await world.gateway.add("eve")
    for number in range(120):
        await grants.give(f"acme/{number}", "user:eve", methods=None, by="op")
    await users.remove("eve")
    await world.gateway.add("eve")
    assert await grants.of("user:eve") == []


@pytest.mark.parametrize(
    "account",
    [
        {"email": "ada@evil.example"},
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": "ada@example.com.evil.example"},
        {"email": "x@example.com@evil.example"},
        {"email": None},
    ],
)
async def test_whoever_may_not_sign_up_does_not(world: World, account: dict[str, Any]) -> None:
    world.provider.account |= account
    await refused(world, 403)


@pytest.mark.parametrize(
    "account",
    [{"email": "ada@evil.example", "email_verified": False}, {"nickname": "ada"}, {"name": "ada"}],
)
async def test_a_name_that_everyone_may_choose_lets_no_one_in(
    browsers: Browsers, account: dict[str, Any]
) -> None:
    clock = FakeClock()
    async with (
        oidc_server(lambda: clock.now_ms() / 1000) as provider,
        sign_in_gateway(sign_in=settings(provider, sign_up=["ada"]), clock=clock) as gateway,
    ):
        provider.account = {"sub": "666", "name": "Mallory", **account}
        await refused(World(gateway, provider, await browsers.at(gateway.url)), 403)


async def test_an_account_with_a_name_that_is_listed_signs_up(browsers: Browsers) -> None:
    clock = FakeClock()
    async with (
        oidc_server(lambda: clock.now_ms() / 1000) as provider,
        sign_in_gateway(sign_in=settings(provider, sign_up=["ada"]), clock=clock) as gateway,
    ):
        browser = await browsers.at(gateway.url)
        await browser.start()
        assert (await browser.me()).json()["principal"] == "user:ada"


async def test_an_operator_lets_a_person_in(world: World) -> None:
    from trunkline.hub.users import Identity

    world.provider.account["email"] = "ada@elsewhere.example"
    await world.gateway.add("ada", password="", identity=Identity(world.provider.url, "1815"))
    assert (await world.browser.start()).status_code == 200
    await world.gateway.hub.sign_in.users.set_disabled("ada", is_disabled=True)
    world.browser.http.cookies.clear()
    assert (await world.browser.start()).status_code == 403
    assert world.browser.session == ""


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"aud": [CLIENT_ID, "other"]},
        {"nonce": "x" * 43},
        {"nonce": None},
        {"sub": None},
        {"sub": ""},
        {"exp": 1_000_000_000},
        {"iat": 1_000_000_000},
        {"iat": 9_000_000_000},
        {"nbf": 9_000_000_000},
    ],
)
async def test_an_id_token_for_something_else_is_refused(
    world: World, claims: dict[str, Any]
) -> None:
    world.provider.claims = claims
    await refused(world, 403)


@pytest.mark.parametrize("skew_s", [-50, 50])
async def test_clocks_may_differ_a_little(world: World, skew_s: int) -> None:
    now = int(world.gateway.clock.now_ms() / 1000)
    world.provider.claims = {"iat": now + skew_s, "exp": now + skew_s + 5}
    assert (await world.browser.start()).status_code == 200


def _other_key(claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048, {"kid": "r1"})
    return jwt.encode({"alg": "RS256", "kid": "r1"}, claims, key)


def _shared_secret(claims: dict[str, Any]) -> str:
    key = OctKey.import_key(CLIENT_SECRET.encode())
    return jwt.encode({"alg": "HS256"}, claims, key, algorithms=["HS256"])


@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        _other_key,
        _shared_secret,
        lambda claims: "x",
        lambda claims: "a.b.c",
        lambda claims: unsigned(claims) + "AAAA",
    ],
    ids=["none", "another key", "the client's secret", "no token", "no JSON", "none and more"],
)
async def test_an_id_token_that_is_not_signed_is_refused(
    world: World, sign: Callable[[dict[str, Any]], str]
) -> None:
    world.provider.sign = sign
    await refused(world, 403)


async def test_an_algorithm_that_is_not_configured_is_refused(world: World) -> None:
    key = world.provider.keys["RS256"]
    world.provider.sign = lambda claims: jwt.encode(
        {"alg": "RS512", "kid": "r1"}, claims, key, algorithms=["RS512"]
    )
    await refused(world, 403)


async def test_keys_are_renewed_when_the_provider_has_new_ones(world: World) -> None:
    assert (await world.browser.start()).status_code == 200
    world.provider.keys["RS256"] = RSAKey.generate_key(2048, {"kid": "r2"})
    # The keys are asked for again, but not more often than twice a minute.
    assert (await world.browser.start()).status_code == 403
    await world.gateway.clock.advance(30)
    assert (await world.browser.start()).status_code == 200
    assert world.provider.calls.count("/jwks") == 2
    assert world.provider.calls.count("/.well-known/openid-configuration") == 1


def big() -> Response:
    return PlainTextResponse('{"issuer": "' + "x" * 10_000_000 + '"}')


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
@pytest.mark.parametrize(
    "answer",
    [
        lambda: PlainTextResponse("down", 500),
        lambda: PlainTextResponse("no JSON"),
        lambda: JSONResponse([]),
        lambda: JSONResponse({}),
        lambda: PlainTextResponse("[" * 100_000),
        lambda: RedirectResponse("http://169.254.169.254/latest/meta-data"),
        big,
    ],
    ids=["500", "text", "list", "empty", "deep", "redirect", "10 MB"],
)
async def test_a_provider_that_is_broken(
    world: World, path: str, answer: Callable[[], Response]
) -> None:
    world.provider.answers[path] = answer
    is_empty_set = path == "/jwks" and answer().body == b"{}"
    await refused(world, 403 if is_empty_set else 503)


async def test_a_provider_that_is_away(world: World) -> None:
    world.provider.discovery["token_endpoint"] = "http://127.0.0.1:1/token"
    await refused(world, 503)


async def test_a_provider_that_is_slow(world: World) -> None:
    (provider,) = world.gateway.hub.sign_in.sign_in.providers.values()
    provider._http._fetch_s = 0.05  # type: ignore[attr-defined]
    world.provider.delay_s = 1.0
    await refused(world, 503)
    assert len(world.provider.calls) == 1
    # Others need not wait for the same failure.
    assert (await world.browser.get(START)).status_code == 503
    assert len(world.provider.calls) == 1


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://10.0.0.1/token"},
    ],
)
async def test_a_discovery_that_lies(world: World, discovery: dict[str, Any]) -> None:
    world.provider.discovery = discovery
    await refused(world, 503)


async def test_names_may_come_from_the_user_info(world: World) -> None:
    world.provider.account = {"sub": "1815"}
    world.provider.user_info = {
        "sub": "1815",
        "nickname": "Ada.Lovelace",
        "email": "ada@example.com",
        "email_verified": True,
    }
    assert (await world.browser.start()).status_code == 200
    assert (await world.browser.me()).json()["principal"] == "user:Ada-Lovelace"


async def test_user_info_of_another_person_is_refused(world: World) -> None:
    world.provider.account = {"sub": "1815"}
    world.provider.user_info = {"sub": "1816", "email": "a@example.com", "email_verified": True}
    await refused(world, 403)


async def test_the_issuer_in_the_callback_must_be_the_provider(world: World) -> None:
    world.provider.iss_in_callback = "https://evil.example"
    await refused(world, 403)
    world.provider.iss_in_callback = world.provider.url
    assert (await world.browser.start()).status_code == 200


async def test_a_callback_without_an_issuer_where_one_is_promised(world: World) -> None:
    world.provider.discovery["authorization_response_iss_parameter_supported"] = True
    await refused(world, 403)


async def test_a_code_that_the_provider_did_not_give(world: World) -> None:
    started = await world.browser.get(START)
    state = query_of(started.headers["location"])["state"]
    answer = await world.browser.get(CALLBACK, code="stolen", state=state)
    assert answer.status_code == 400
    assert world.browser.session == ""


async def test_a_person_who_cancels(world: World) -> None:
    started = await world.browser.get(START)
    state = query_of(started.headers["location"])["state"]
    answer = await world.browser.get(CALLBACK, error="access_denied", state=state)
    assert answer.status_code == 403
    # A program is told.
    started = await world.browser.get(START, **program_query())
    state = query_of(started.headers["location"])["state"]
    answer = await world.browser.get(CALLBACK, error="access_denied", state=state)
    assert answer.headers["location"] == f"{PROGRAM}?error=access_denied&state=their"


async def test_a_program_signs_in_through_the_provider(world: World) -> None:
    done = await world.browser.start(**program_query())
    location = done.headers["location"]
    assert location.startswith(f"{PROGRAM}?code=")
    assert world.browser.session == ""


async def test_several_providers_are_chosen_from(browsers: Browsers) -> None:
    clock = FakeClock()
    async with oidc_server(lambda: clock.now_ms() / 1000) as provider:
        given = settings(provider, title="Example <Company>") | {"passwords": True}
        async with sign_in_gateway(sign_in=given, clock=clock) as gateway:
            browser = await browsers.at(gateway.url)
            page = await browser.start(next="/api/v1/auth/me")
            assert page.url.path == "/api/v1/auth/oauth/providers"
            assert "Example &lt;Company&gt;" in page.text
            assert "Password" in page.text
            link = "start?provider=company&amp;next=%2Fapi%2Fv1%2Fauth%2Fme"
            assert link in page.text
            done = await browser.http.get(page.url.join(link.replace("&amp;", "&")))
            done = await browser.follow(done)
            assert done.json()["principal"] == "user:ada"


async def test_the_secret_is_nowhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.provider.answers["/token"] = lambda: JSONResponse({"error": "invalid_client"}, 401)
    await refused(world, 503)
    assert "status 401" in str([record.__dict__ for record in caplog.records])
    assert CLIENT_SECRET not in caplog.text
    assert CLIENT_SECRET not in repr(world.gateway.hub.sign_in.sign_in.providers)
