"""A gateway with a page in this process, and a browser that keeps its cookies."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.bindings.asgi import Answer, Asgi, Http

from trunkline.app.console import GatewayConsole
from trunkline.app.gateway import Gateway, build
from trunkline.settings import Settings, from_document
from trunkline.testing import FakeClock

ECHO: dict[str, Any] = {"demo/echo": {"name": "Echo", "backend": {"kind": "echo"}}}
URL = "http://127.0.0.1:8642"
KEYS = {
    "me": {"key": "a-long-key-of-mine"},
    "you": {"key": "a-long-key-of-yours", "grants": {"demo/echo": ["*"]}},
}


def settings(**tables: Any) -> Settings:
    return from_document({"store": {"kind": "memory"}, "agents": ECHO, **tables}, environment={})


class Browser:
    """It sends what a browser sends with requests of the page, and keeps the cookies."""

    def __init__(self, http: Asgi, *, host: str = "127.0.0.1:8642") -> None:
        self.http = http
        self.host = host
        self.cookies: dict[str, str] = {}

    async def open(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        """As a person opens a URL."""
        return await self._sent(method, path, headers)

    async def open_page(self, console: GatewayConsole) -> Answer:
        parts = urlsplit(console.url())
        return await self.open(f"{parts.path}?{parts.query}")

    async def fetch(
        self, path: str, body: object = None, *, method: str = "", **headers: str
    ) -> Answer:
        """As a script of the page fetches."""
        own = {"trunkline-page": "1", "origin": f"http://{self.host}"}
        data = b""
        if body is not None:
            own["content-type"] = "application/json"
            data = json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        return await self._sent(method, f"/api/v1{path}", own | headers, data)

    async def _sent(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> Answer:
        path, _, query = target.partition("?")
        own = {"host": self.host, "accept": "text/html,*/*"}
        if self.cookies:
            own["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.http.send(
            Http(
                method=method,
                path=path,
                query=query,
                headers={k: v for k, v in (own | headers).items() if v},
                body=body,
            )
        )
        if (cookie := answer.headers.get("set-cookie")) is not None:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies.pop(name, None)
            if value:
                self.cookies[name] = value
        return answer


class World:
    def __init__(self, gateway: Gateway, clock: FakeClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.http = Asgi(gateway.application)

    @property
    def console(self) -> GatewayConsole:
        assert self.gateway.console is not None
        return self.gateway.console

    def browser(self, host: str = "127.0.0.1:8642") -> Browser:
        return Browser(self.http, host=host)

    async def signed_in(self) -> Browser:
        browser = self.browser()
        assert (await browser.open_page(self.console)).headers["location"] == "/"
        return browser


@asynccontextmanager
async def world(
    *, base_url: str = URL, local_url: str = URL, clock: FakeClock | None = None, **tables: Any
) -> AsyncIterator[World]:
    clock = clock or FakeClock()
    gateway = build(settings(**tables), base_url=base_url, local_url=local_url, clock=clock)
    await gateway.open()
    try:
        yield World(gateway, clock)
    finally:
        await gateway.close()
