"""Gateways with a hub on real sockets, people with browsers, and programs that want a session."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from tests.sockets.peer import serving

from trunkline.app.gateway import Gateway, build
from trunkline.app.hub import Hub
from trunkline.hub.sign_in_flow import challenge_of
from trunkline.server.connection import Connection
from trunkline.server.http import Handler, Request, Response
from trunkline.settings import from_document
from trunkline.testing import FakeClock

PASSWORD: Final = "correct horse"
VERIFIER: Final = "v" * 43
PROGRAM: Final = "http://localhost:45678/callback"
START: Final = "/api/v1/auth/oauth/start"
CALLBACK: Final = "/api/v1/auth/oauth/callback"
TOKEN: Final = "/api/v1/auth/oauth/token"
PAGE: Final = "/api/v1/auth/sign-in"
ME: Final = "/api/v1/auth/me"
SIGN_OUT: Final = "/api/v1/auth/sign-out"


class SignInGateway:
    def __init__(self, gateway: Gateway, url: str, clock: FakeClock) -> None:
        self.gateway = gateway
        self.url = url
        self.clock = clock

    @property
    def hub(self) -> Hub:
        assert self.gateway.hub is not None
        return self.gateway.hub

    async def add(self, login: str, **values: Any) -> None:
        await self.hub.sign_in.users.add(login, **{"password": PASSWORD, **values})


class Browser:
    """A client with a cookie jar, which states what browsers state and follows by hand."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.http = http
        self.url = url

    async def get(self, address: str, **query: str) -> httpx.Response:
        url = self.at(address)
        return await self.http.get(f"{url}?{urlencode(query)}" if query else url)

    async def post(self, address: str, form: Mapping[str, str], **headers: str) -> httpx.Response:
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **headers}
        return await self.http.post(self.at(address), data=dict(form), headers=sent)

    def at(self, address: str) -> str:
        return str(httpx.URL(self.url).join(address))

    async def follow(self, response: httpx.Response, *, most: int = 10) -> httpx.Response:
        """To the first answer that is no redirect to an http server of the test."""
        while response.is_redirect and most:
            target = response.url.join(response.headers["location"])
            if target.port == urlsplit(PROGRAM).port or target.host.endswith(".example"):
                return response
            response = await self.http.get(target)
            most -= 1
        return response

    async def start(self, **query: str) -> httpx.Response:
        return await self.follow(await self.get(START, **query))

    async def fill_in(
        self, page: httpx.Response, login: str, password: str = PASSWORD, **headers: str
    ) -> httpx.Response:
        form = {"csrf": csrf_in(page.text), "login": login, "password": password}
        return await self.post(str(page.url.join("sign-in")), form, **headers)

    async def sign_in(self, login: str, password: str = PASSWORD, **query: str) -> httpx.Response:
        """The answer of the callback."""
        page = await self.start(**query)
        answer = await self.fill_in(page, login, password)
        assert answer.status_code == 303, answer.text
        return await self.http.get(answer.url.join(answer.headers["location"]))

    async def me(self) -> httpx.Response:
        return await self.get(ME)

    @property
    def session(self) -> str:
        return self.http.cookies.get("tl_session") or ""


def csrf_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    assert found is not None, page
    return found[1]


def program_query(**values: str) -> dict[str, str]:
    return {
        "redirect_uri": PROGRAM,
        "state": "their state"[:5],
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        **values,
    }


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@asynccontextmanager
async def sign_in_gateway(
    *,
    sign_in: Mapping[str, Any] | None = None,
    owner_backends: Sequence[str] = (),
    clock: FakeClock | None = None,
    **tables: Any,
) -> AsyncIterator[SignInGateway]:
    clock = clock or FakeClock()
    at: list[Handler] = []

    async def serve(request: Request, response: Response) -> None:
        await at[0](request, response)

    async with serving(serve) as server:
        url = f"http://127.0.0.1:{server.port}"
        hub = {"sign_in": dict(sign_in or {}), "owner_backends": [*owner_backends]}
        document = {"store": {"kind": "memory"}, "hub": hub, **tables}
        gateway = build(from_document(document, environment={}), base_url=url, clock=clock)
        at.append(gateway.application.serve)
        await gateway.open()
        try:
            yield SignInGateway(gateway, url, clock)
        finally:
            await gateway.close()
            # Browsers keep their connections.
            for connection in [*server.shared.connections]:
                assert isinstance(connection, Connection)
                connection._flow.transport.abort()


class Browsers:
    """Makes browsers, each with a cookie jar of its own."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def at(self, url: str) -> Browser:
        client = httpx.AsyncClient(timeout=30, trust_env=False, headers={"Accept": "text/html"})
        return Browser(await self._stack.enter_async_context(client), url)


@asynccontextmanager
async def browsers() -> AsyncIterator[Browsers]:
    async with AsyncExitStack() as stack:
        yield Browsers(stack)
