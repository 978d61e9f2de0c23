"""The tools of a turn over MCP, in this process."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.routing.lent import TOKEN, lend

from trunkline.app.gateway import build
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.settings import from_document

CODE = """\
from trunkline import agent


@agent
async def editor(turn):
    return "edited"


@agent
async def researcher(turn):
    return "found " + turn.text
"""
ASK = {"agent": "acme/researcher", "input": "the moon", "wait": True}
ALICE = Principal(id="alice", grants=EVERYTHING)


class Host:
    """What runs a model, in so far as it speaks MCP."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        given = {"Accept": "application/json, text/event-stream"} | headers
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(
            "/api/v1/tools/mcp",
            content=content,
            headers={"Content-Type": "application/json", **given},
        )

    async def ask(self, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.post(body)
        assert answer.status_code == 200, answer.text
        events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
        return json.loads(events[-1])

    async def use(self, name: str, **arguments: Any) -> Any:
        return (await self.ask("tools/call", name=name, arguments=arguments))["result"]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    target = tmp_path / "team.py"
    target.write_text(CODE)
    agents = {
        f"acme/{name}": {"backend": {"kind": "python", "target": f"{target}:{name}"}}
        for name in ("editor", "researcher")
    }
    document = {"store": {"kind": "memory"}, "agents": agents}
    gateway = build(from_document(document, environment={}), base_url="")
    await gateway.open()
    await lend(await gateway.runtimes.main_store(), "agent_call", principal=ALICE)
    transport = httpx.ASGITransport(gateway.application)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=headers
    ) as client:
        yield Host(client)
    await gateway.close()


async def test_a_host_says_hello_lists_and_calls(host: Host) -> None:
    hello = await host.ask(
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    assert hello["result"]["serverInfo"]["name"] == "trunkline"
    ready = await host.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert ready.status_code == 202
    (tool,) = (await host.ask("tools/list"))["result"]["tools"]
    assert tool["name"] == "agent_call"
    done = await host.use("agent_call", **ASK)
    assert (done["isError"], done["structuredContent"]["output"]) == (False, "found the moon")


async def test_a_call_that_is_refused_is_a_result_with_an_error(host: Host) -> None:
    for wrong, code in ((ASK | {"agent": "acme/editor"}, "self_call_blocked"), ({}, None)):
        done = await host.use("agent_call", **wrong)
        assert done["isError"] is True
        assert code in (None, done["structuredContent"]["error"]["code"])
        assert TOKEN not in json.dumps(done)
    unknown = await host.ask("tools/call", name="agent_poll", arguments={"taskId": "t"})
    assert "there is no tool" in unknown["error"]["message"]


async def test_what_is_no_mcp_of_a_program_gets_a_status(host: Host) -> None:
    assert (await host.client.get("/api/v1/tools/mcp")).status_code == 405
    assert (await host.post(b"{")).status_code == 400
    assert (await host.post(b"[" * 100)).status_code == 400
    assert (await host.post(b"x" * 2_000_000)).status_code == 413
    assert (await host.post({}, Origin="https://evil.example")).status_code == 403
    for token in ("", "x", TOKEN[:-1]):
        answer = await host.post({}, Authorization=f"Bearer {token}")
        assert answer.status_code == 401
        assert "www-authenticate" in answer.headers
