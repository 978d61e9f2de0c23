"""The tools under a gateway that another ASGI server runs."""

from pathlib import Path
from typing import Any

import httpx
from tests.unit.settings.documents import KEY, made

from trunkline.app.gateway import build
from trunkline.settings import Settings

HEADERS = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {KEY}"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def settings(folder: Path, *, anonymous: str = "auto", **sections: Any) -> Settings:
    return made(
        store={"kind": "memory"},
        auth={"keys": {"me": {"key": KEY}}, "anonymous": anonymous},
        remote={"mcp": True, "handles_path": str(folder / "handles.db")},
        **sections,
    )


async def initialized(own: Settings, headers: dict[str, str], host: str = "127.0.0.1") -> int:
    gateway = build(own, base_url="http://h")
    assert gateway.mcp is not None
    transport = httpx.ASGITransport(gateway.application)
    url = f"http://{host}/mcp"
    async with gateway.mcp.running(), httpx.AsyncClient(transport=transport) as client:
        return (await client.post(url, json=INITIALIZE, headers=headers)).status_code


async def test_the_gateway_as_an_application_has_the_tools(tmp_path: Path) -> None:
    assert await initialized(settings(tmp_path), HEADERS) == 200


async def test_without_a_key_only_this_machine_is_let_in(tmp_path: Path) -> None:
    accept = {"Accept": HEADERS["Accept"]}
    own = settings(tmp_path, anonymous="loopback")
    assert await initialized(own, accept) == 200
    assert await initialized(own, accept, host="evil.example") == 403
    assert await initialized(own, {**accept, "X-Forwarded-For": "203.0.113.9"}) == 401


async def test_who_lets_the_world_talk_to_agents_does_not_lend_it_our_credentials(
    tmp_path: Path,
) -> None:
    public = {"public_url": "https://agents.example"}
    own = made(
        store={"kind": "memory"},
        auth={"anonymous": "always"},
        server=public,
        remote={"mcp": True, "handles_path": str(tmp_path / "handles.db")},
    )
    accept = {"Accept": HEADERS["Accept"]}
    assert await initialized(own, accept) == 401
