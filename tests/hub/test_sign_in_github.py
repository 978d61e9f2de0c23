"""The sign-in at GitHub: OAuth 2 without ID tokens, and accounts that change their names."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.acceptance.asgi_server import asgi_server
from tests.hub.sign_in_world import Browser, Browsers, SignInGateway, sign_in_gateway

from trunkline.hub.sign_in_flow import challenge_of

SECRET = "the secret of the app"


class Github:
    """GitHub Enterprise Server on loopback, where a person is signed in at once."""

    def __init__(self) -> None:
        self.account: dict[str, Any] = {"id": 583231, "login": "octocat", "name": "The Octocat"}
        self.token: Callable[[], Response] = lambda: JSONResponse({"access_token": "gho_x"})
        self.user: Callable[[], Response] = lambda: JSONResponse(self.account)
        self._challenge = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/login/oauth/authorize", self._authorize),
                Route("/login/oauth/access_token", self._token, methods=["POST"]),
                Route("/api/v3/user", self._user),
            ]
        )

    async def _authorize(self, request: Request) -> Response:
        query = request.query_params
        assert query["client_id"] == "app"
        self._challenge = query["code_challenge"]
        return RedirectResponse(f"{query['redirect_uri']}?code=c&state={query['state']}", 302)

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        assert (form["client_id"], form["client_secret"]) == ("app", SECRET)
        assert request.headers["accept"] == "application/json"
        assert challenge_of(str(form["code_verifier"])) == self._challenge
        return self.token()

    async def _user(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer gho_x"
        return self.user()


class World:
    def __init__(self, gateway: SignInGateway, github: Github, browser: Browser) -> None:
        self.gateway = gateway
        self.github = github
        self.browser = browser


@pytest.fixture
async def world(browsers: Browsers) -> AsyncIterator[World]:
    github = Github()
    async with asgi_server(github.app()) as port:
        provider = {
            "kind": "github",
            "url": f"http://127.0.0.1:{port}",
            "client_id": "app",
            "client_secret": SECRET,
            "sign_up": ["octocat"],
        }
        given = {"passwords": False, "providers": {"github": provider}}
        async with sign_in_gateway(sign_in=given) as gateway:
            yield World(gateway, github, await browsers.at(gateway.url))


async def test_h19_a_person_signs_in_at_github(world: World) -> None:
    assert (await world.browser.start()).status_code == 200
    told = (await world.browser.me()).json()
    assert told["user"] == {
        "login": "octocat",
        "displayName": "The Octocat",
        "roles": ["owner:octocat"],
    }


async def test_a_name_that_another_account_has_now_is_another_person(world: World) -> None:
    await world.browser.start()
    # The account gets another name, and somebody else takes the old one.
    world.github.account |= {"login": "monalisa"}
    await world.browser.start()
    assert (await world.browser.me()).json()["principal"] == "user:octocat"
    world.github.account = {"id": 1, "login": "Octocat"}
    await world.browser.start()
    assert (await world.browser.me()).json()["principal"] == "user:Octocat-2"


async def test_whoever_may_not_sign_up_does_not(world: World) -> None:
    world.github.account["login"] = "octocat-evil"
    assert (await world.browser.start()).status_code == 403
    assert await world.gateway.hub.sign_in.users.list() == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda: JSONResponse({"error": "bad_verification_code"}), 400),
        (lambda: JSONResponse({"error": "incorrect_client_credentials"}), 503),
        (lambda: JSONResponse({}), 503),
        (lambda: PlainTextResponse("down", 502), 503),
        (lambda: PlainTextResponse("x" * 10_000_000), 503),
    ],
    ids=["code", "secret", "nothing", "down", "10 MB"],
)
async def test_github_refuses(world: World, answer: Callable[[], Response], status: int) -> None:
    world.github.token = answer
    refused = await world.browser.start()
    assert refused.status_code == status
    assert SECRET not in refused.text
    assert world.browser.session == ""


@pytest.mark.parametrize("account", [{"login": "octocat"}, {"id": "x", "login": "octocat"}, []])
async def test_an_account_without_a_number_is_nobody(world: World, account: Any) -> None:
    world.github.user = lambda: JSONResponse(account)
    assert (await world.browser.start()).status_code == 503
    assert world.browser.session == ""
