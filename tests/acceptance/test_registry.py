"""The registry of the hub on processes: whether agents are there, commands, kills and restarts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.acceptance.command import Shell
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.openclaw.claws import NEW, TOKEN, FakeClaw

KEY = "the-key-of-an-operator"
HUB = f"""
[hub]
[auth.keys.admin]
key = "{KEY}"
"""
ECHO = '[agents."up/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'


class Hub:
    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.http = http

    async def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.http.request(
            method,
            f"{self.gateway.url}/api/v1{path}",
            json=body,
            headers={"Authorization": f"Bearer {KEY}"},
        )

    async def create(self, slug: str, backend: dict[str, Any]) -> dict[str, Any]:
        body = {"owner": "acme", "slug": slug, "backend": backend, "status": "published"}
        answer = await self.call("POST", "/agents", body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def card(self, handle: str) -> httpx.Response:
        return await self.http.get(f"{self.gateway.agent_url(handle)}/agent-card.json")

    async def is_online(self, handle: str) -> bool:
        """As the card says. A list says the same."""
        on_card = (await self.card(handle)).json()["_trunkline"]["online"]
        assert isinstance(on_card, bool)
        return on_card

    async def turns(self, handle: str, *, online: bool) -> None:
        async def is_so() -> bool:
            return await self.is_online(handle) is online

        await eventually(is_so)

    async def message(self, handle: str) -> str:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        answer = await self.http.post(
            self.gateway.agent_url(handle),
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendMessage",
                "params": {"message": message},
            },
            headers={"Authorization": f"Bearer {KEY}"},
        )
        state: str = answer.json()["result"]["task"]["status"]["state"]
        return state


@asynccontextmanager
async def hub_of(gateway: Gateway) -> AsyncIterator[Hub]:
    async with http_client() as http:
        yield Hub(gateway, http)


async def test_an_upstream_agent_that_stops_and_starts_is_offline_and_online(make: Make) -> None:
    upstream = make(agents=ECHO).start()
    gateway = make(HUB, agents="").start()
    async with hub_of(gateway) as hub:
        backend = {"kind": "a2a", "url": upstream.agent_url("up/echo"), "retry_s": 0}
        assert (await hub.create("far", backend))["online"] is True
        assert await hub.message("acme/far") == "TASK_STATE_COMPLETED"
        port = str(upstream.port)
        upstream.stop()
        await hub.turns("acme/far", online=False)
        upstream.start("--port", port)
        await hub.turns("acme/far", online=True)
        assert await hub.message("acme/far") == "TASK_STATE_COMPLETED"


async def test_a_program_that_is_removed_is_offline(make: Make, tmp_path: Path) -> None:
    program = tmp_path / "answer"
    program.write_text("#!/bin/sh\necho done\n")
    program.chmod(0o700)
    async with hub_of(make(HUB, agents="").start()) as hub:
        agent = await hub.create("tool", {"kind": "command", "command": [str(program)]})
        assert agent["online"] is True
        assert await hub.message("acme/tool") == "TASK_STATE_COMPLETED"
        away = program.rename(tmp_path / "away")
        await hub.turns("acme/tool", online=False)
        away.rename(program)
        await hub.turns("acme/tool", online=True)
        listed = (await hub.call("GET", "/agents")).json()["items"]
        assert [each["online"] for each in listed] == [True]


async def test_an_openclaw_that_is_killed_and_started_is_offline_and_online(
    make: Make, tmp_path: Path
) -> None:
    claw = FakeClaw(NEW, tmp_path / "claw")
    claw.start()
    try:
        async with hub_of(make(HUB, agents="").start()) as hub:
            backend = {"kind": "openclaw", "url": claw.url, "token": TOKEN}
            await hub.create("claw", backend)
            await hub.turns("acme/claw", online=True)
            claw.kill()
            await hub.turns("acme/claw", online=False)
            claw.start()
            await hub.turns("acme/claw", online=True)
    finally:
        claw.kill()


async def test_commands_reach_the_running_gateway_and_the_store_without_one(make: Make) -> None:
    gateway = make(HUB, agents="")
    folder = gateway.folder

    def agent(*words: str) -> Any:
        where = ("--config", str(folder / "trunkline.toml"), "--data", str(folder / "data"))
        done = Shell(folder).run("agent", *words, *where, "-o", "json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    # As after a kill between the commit and the publication: the record is there.
    agent("add", "acme/one", "--backend", "echo", "--publish")
    gateway.start()
    async with hub_of(gateway) as hub:
        assert (await hub.card("acme/one")).status_code == 200
        assert agent("unpublish", "acme/one")["status"] == "draft"
        assert (await hub.card("acme/one")).status_code == 404
        assert agent("publish", "acme/one")["online"] is True
        assert await hub.message("acme/one") == "TASK_STATE_COMPLETED"
        assert agent("rm", "acme/one")["status"] == "deleted"
        assert (await hub.card("acme/one")).status_code == 404
        agent("add", "acme/two", "--backend", "echo", "--publish")
        assert (await hub.card("acme/two")).status_code == 200
    gateway.stop()
    assert [each["handle"] for each in agent("ls")["items"]] == ["acme/two"]


async def test_a_gateway_that_is_killed_serves_what_it_said_and_says_what_it_serves(
    make: Make,
) -> None:
    gateway = make(HUB, agents="").start()
    acknowledged: set[str] = set()

    async def create(hub: Hub, slug: str) -> None:
        try:
            await hub.create(slug, {"kind": "echo"})
        except httpx.HTTPError:
            return
        acknowledged.add(f"acme/{slug}")
        if len(acknowledged) == 5:
            gateway.kill()

    async with hub_of(gateway) as hub:
        await asyncio.gather(*(create(hub, f"n{number}") for number in range(40)))
    assert 5 <= len(acknowledged) < 40
    gateway.start()
    async with hub_of(gateway) as hub:
        items = (await hub.call("GET", "/agents?pageSize=100")).json()["items"]
        published = {each["handle"] for each in items}
        assert acknowledged <= published
        assert {each["problem"] for each in items} == {""}
        for number in range(40):
            handle = f"acme/n{number}"
            status = (await hub.card(handle)).status_code
            assert status == (200 if handle in published else 404)


class OnFlagsAlone(Gateway):
    """`trunkline serve --hub`, without a configuration."""

    def arguments(self, options: tuple[str, ...]) -> list[str]:
        return ["--hub", "--data", str(self.folder / "data")]


def test_serve_with_hub_needs_no_file(tmp_path: Path) -> None:
    gateway = OnFlagsAlone(tmp_path, "")
    try:
        gateway.start()
        assert "credentials of the hub" in gateway.stdout
        answer = httpx.get(f"{gateway.url}/api/v1/agents")
        assert answer.json() == {"items": [], "nextPageToken": ""}
    finally:
        gateway.clean_up()
