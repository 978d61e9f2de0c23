"""A gateway with a hub in this process, and callers with several rights."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.bindings.asgi import Answer, Asgi, Http
from tests.sockets.peer import Peer, serving

from trunkline.app.gateway import Gateway, build
from trunkline.hub.registry import Registry
from trunkline.model.principal import EVERYTHING, OPERATOR, Grant, Principal
from trunkline.ports.clock import Clock
from trunkline.settings import Settings, from_document
from trunkline.testing import FakeClock, settle

# By the name of the caller, which is its token as well.
CALLERS: Final = {
    "operator": Principal(id="user:operator", grants=EVERYTHING, roles=(OPERATOR,)),
    "acme": Principal(
        id="user:acme", grants=(Grant("acme/*"),), reaches_open=True, roles=("owner:acme",)
    ),
    "carol": Principal(id="user:carol", reaches_open=True),
    "dave": Principal(id="user:dave", grants=(Grant("acme/echo"),), reaches_open=True),
    "reader": Principal(
        id="user:reader",
        grants=(Grant("acme/echo", frozenset({"GetTask"})),),
        reaches_open=True,
    ),
}
ECHO: Final[dict[str, Any]] = {"slug": "echo", "backend": {"kind": "echo"}, "status": "published"}
CARD: Final = "/api/a2a/v1/agents/{}/agent-card.json"
RPC: Final = "/api/a2a/v1/agents/{}"


class Callers:
    """An authenticator that knows the callers by their names."""

    def known(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        value = headers.get(b"authorization", b"").decode()
        return CALLERS.get(value.removeprefix("Bearer "))

    async def identify(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        return self.known(headers)


class HubWorld:
    def __init__(self, gateway: Gateway, clock: FakeClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.http = Asgi(gateway.application)

    @property
    def registry(self) -> Registry:
        assert self.gateway.hub is not None
        return self.gateway.hub.registry.registry

    async def call(
        self, method: str, path: str, body: object = None, *, by: str = "operator", query: str = ""
    ) -> Answer:
        """A request to `/api/v1`."""
        headers = {"Authorization": f"Bearer {by}"} if by else {}
        data = b""
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        return await self.http.send(
            Http(method=method, path=f"/api/v1{path}", query=query, headers=headers, body=data)
        )

    async def create(self, *, by: str = "operator", owner: str = "acme", **values: Any) -> Any:
        answer = await self.call("POST", "/agents", ECHO | {"owner": owner} | values, by=by)
        assert answer.status == 201, answer.body
        return answer.json()

    async def card(self, handle: str, *, by: str = "") -> Answer:
        headers = {"Authorization": f"Bearer {by}"} if by else {}
        return await self.http.send(Http(method="GET", path=CARD.format(handle), headers=headers))

    async def send(self, handle: str, *, by: str = "carol", method: str = "SendMessage") -> Answer:
        return await self._sent(handle, by, rpc_body(method))

    async def ask(self, handle: str, text: str, *, by: str) -> Answer:
        return await self._sent(handle, by, rpc_body(text=text))

    async def _sent(self, handle: str, by: str, body: bytes) -> Answer:
        return await self.http.send(
            Http(
                path=RPC.format(handle),
                headers={"Authorization": f"Bearer {by}", "Content-Type": "application/json"},
                body=body,
            )
        )


def team(folder: Path, code: str, *names: str) -> dict[str, Any]:
    """The table of the agents `acme/NAME`, which are Python functions of the code."""
    target = folder / "team.py"
    target.write_text(code)
    return {
        f"acme/{name}": {
            "name": name,
            "backend": {"kind": "python", "target": f"{target}:{name}"},
        }
        for name in names
    }


def rpc_body(method: str = "SendMessage", *, text: str = "hello") -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message} if "Message" in method else {"id": "no-such-task"}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def document(**tables: Any) -> dict[str, Any]:
    return {"store": {"kind": "memory"}, "hub": {}, **tables}


def made(clock: Clock, **tables: Any) -> Gateway:
    return build(
        settings(**tables),
        base_url="https://gateway.example",
        clock=clock,
        authenticators=(Callers(),),
    )


def settings(**tables: Any) -> Settings:
    return from_document(document(**tables), environment={})


@asynccontextmanager
async def hub_world(**tables: Any) -> AsyncIterator[HubWorld]:
    clock = FakeClock()
    gateway = made(clock, **tables)
    await gateway.open()
    try:
        yield HubWorld(gateway, clock)
    finally:
        await gateway.close()
    await settle()
    assert asyncio.all_tasks() - {asyncio.current_task()} == set()


@asynccontextmanager
async def connection(world: HubWorld) -> AsyncIterator[Peer]:
    """A connection that is kept open."""
    async with serving(world.gateway.application.serve) as server:
        yield await server.peer()


def request(
    method: str, path: str, body: bytes = b"", *, by: str = "", headers: tuple[str, ...] = ()
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if by:
        lines.append(f"Authorization: Bearer {by}")
    if body or method in ("POST", "PATCH"):
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
