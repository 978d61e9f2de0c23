"""What the page reads of agents, and agents elsewhere that operators visit."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.bindings.asgi import Http
from tests.console.world import ECHO, KEYS, settings, world
from tests.sockets.peer import Server

from trunkline.app.gateway import Gateway, build
from trunkline.hub.visits import MAX_VISITS, slug_of
from trunkline.server.http import Request, Response

MORE = {
    "demo/echo": ECHO["demo/echo"],
    "acme/b": {"name": "B", "backend": {"kind": "echo"}},
    "acme/a": {"name": "A", "backend": {"kind": "echo"}},
}


async def test_agents_are_listed_without_a_hub_in_pages() -> None:
    async with world(agents=MORE) as it:
        browser = it.browser()
        first = (await browser.fetch("/agents?pageSize=2")).json()
        assert [each["handle"] for each in first["items"]] == ["acme/a", "acme/b"]
        token = first["nextPageToken"]
        second = (await browser.fetch(f"/agents?pageSize=2&pageToken={token}")).json()
        assert [each["handle"] for each in second["items"]] == ["demo/echo"]
        assert second["nextPageToken"] == ""
        found = (await browser.fetch("/agents?owner=DEMO&q=echo")).json()["items"]
        assert [each["handle"] for each in found] == ["demo/echo"]
        assert (await browser.fetch("/agents?mine=true")).json()["items"] == []
        assert (await browser.fetch("/agents?pageToken=%21")).status == 400
        one = (await browser.fetch("/agents/by-handle/DEMO/echo")).json()
        assert one["queue"] == {"running": 0, "waiting": 0}
        assert one["restPath"] == "/api/a2a/v1/agents/demo/echo"
        assert one["versions"] == ["1.0", "0.3"]
        assert "backendKind" not in one
        assert (await browser.fetch(f"/agents/{one['id']}")).json() == one
        assert (await browser.fetch("/agents/agt_none")).status == 404
        own = await (await it.signed_in()).fetch(f"/agents/{one['id']}")
        assert own.json()["backendKind"] == "echo"


async def test_agents_and_the_gateway_are_shown_where_everyone_else_needs_a_key() -> None:
    async with world(auth={"keys": KEYS}) as it:
        browser = it.browser()
        assert (await browser.fetch("/agents")).status == 200
        public = (await browser.fetch("/gateway")).json()
        assert sorted(public) == ["a2a", "features", "hub", "name", "signIn", "version"]
        assert (await browser.fetch("/sessions")).status == 401
        wrong = await browser.fetch("/agents", authorization="Bearer a-wrong-key")
        assert wrong.status == 401
        for key in ("me", "you"):
            own = {"authorization": f"Bearer {KEYS[key]['key']}"}
            assert (await browser.fetch("/gateway", **own)).json() == public
        operator = (await (await it.signed_in()).fetch("/gateway")).json()
        assert operator["visits"] == "never"
        assert operator["problems"] == []
        assert operator["store"] == "in memory"


async def test_the_card_is_the_one_that_is_served() -> None:
    async with world() as it:
        browser = it.browser()
        (agent,) = (await browser.fetch("/agents")).json()["items"]
        found = (await browser.fetch(f"/agents/{agent['id']}/card")).json()
        served = await it.http.send(
            Http(method="GET", path=agent["cardPath"], headers={"a2a-version": "1.0"})
        )
        assert found == {"card": served.json(), "signatures": [], "findings": []}


@asynccontextmanager
async def elsewhere() -> AsyncIterator[str]:
    """The URL of another gateway, on a socket of its own."""
    gateway: Gateway | None = None

    async def serve(request: Request, response: Response) -> None:
        assert gateway is not None
        await gateway.application.serve(request, response)

    made = Server(serve)
    listening = await made.start()
    port = listening.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    gateway = build(settings(), base_url=url)
    await gateway.open()
    try:
        yield url
    finally:
        listening.close()
        await gateway.close()


async def test_an_agent_elsewhere_is_visited_called_and_left() -> None:
    async with elsewhere() as url, world(auth={"keys": KEYS}, console={"visits": "any"}) as it:
        browser = await it.signed_in()
        body = {"url": url, "headers": {"X-Own": "a-secret-value"}}
        answer = await browser.fetch("/visits", body)
        assert answer.status == 201, answer.body
        assert b"a-secret-value" not in answer.body
        agent = answer.json()["agent"]
        assert agent["handle"] == f"visit/{slug_of('Echo', url)}"
        assert (agent["source"], agent["backendKind"]) == ("temporary", "a2a")
        # Again, with other headers: the same visit.
        again = (await browser.fetch("/visits", {"url": url})).json()["agent"]
        assert again["id"] == agent["id"]
        listed = await browser.fetch("/visits")
        assert [each["agent"]["handle"] for each in listed.json()["items"]] == [agent["handle"]]
        # A visit is no open door for callers without a grant, and no list names it to them.
        you = {"authorization": f"Bearer {KEYS['you']['key']}"}
        assert (await it.browser().fetch(f"/agents/{agent['id']}", **you)).status == 404
        assert (await it.browser().fetch(f"/agents/{agent['id']}/card")).status == 404
        handles = [each["handle"] for each in (await browser.fetch("/agents")).json()["items"]]
        assert agent["handle"] in handles
        public = (await it.browser().fetch("/agents")).json()["items"]
        assert [each["handle"] for each in public] == ["demo/echo"]
        slug = agent["slug"]
        assert (await browser.fetch(f"/visits/{slug}", method="DELETE")).status == 204
        assert (await browser.fetch(f"/visits/{slug}", method="DELETE")).status == 404
        assert (await browser.fetch(f"/agents/{agent['id']}")).status == 404


async def test_there_are_few_visits_at_once() -> None:
    async with elsewhere() as url, world(console={"visits": "any"}) as it:
        browser = await it.signed_in()
        card = "/.well-known/agent-card.json"
        urls = [f"{url}{card}?{number}" for number in range(MAX_VISITS + 1)]
        found = [(await browser.fetch("/visits", {"url": each})).status for each in urls]
        assert found == [201] * MAX_VISITS + [409]


async def test_a_slow_agent_elsewhere_holds_up_no_other_visit() -> None:
    asked, ends = asyncio.Event(), asyncio.Event()

    async def serve(_: Request, response: Response) -> None:
        asked.set()
        await ends.wait()
        await response.answer(404)

    slow = await Server(serve).start()
    port = slow.sockets[0].getsockname()[1]
    async with elsewhere() as url, world(console={"visits": "any"}) as it, asyncio.timeout(20):
        browser = await it.signed_in()
        body = {"url": f"http://127.0.0.1:{port}"}
        begun = asyncio.get_running_loop().create_task(browser.fetch("/visits", body))
        await asked.wait()
        visit = (await browser.fetch("/visits", {"url": url})).json()
        slug = visit["agent"]["slug"]
        assert (await browser.fetch(f"/visits/{slug}", method="DELETE")).status == 204
        assert not begun.done()
        ends.set()
        assert (await begun).status == 400
    slow.close()


@pytest.mark.parametrize("visits", ["never", "public"])
async def test_what_may_be_visited_is_a_setting(visits: str) -> None:
    async with world(console={"visits": visits}) as it:
        browser = await it.signed_in()
        for url in ("http://127.0.0.1:1", "http://[::ffff:127.0.0.1]:1", "http://169.254.169.254"):
            answer = await browser.fetch("/visits", {"url": url})
            error = answer.json()["error"]
            assert answer.status == (403 if visits == "never" else 400)
            assert "visits" in json.dumps(error)
        assert (await browser.fetch("/visits")).json()["items"] == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://h",
        "file:///etc/passwd",
        "http://user:secret@h",
        "h",
        "http://h h",
        "//h",
        "x" * 3000,
    ],
)
async def test_an_odd_url_is_refused(url: str) -> None:
    async with world(console={"visits": "any"}) as it:
        answer = await (await it.signed_in()).fetch("/visits", {"url": url})
        assert answer.status == 400
        assert b"secret" not in answer.body


async def test_only_operators_visit() -> None:
    async with world(auth={"keys": KEYS}, console={"visits": "any"}) as it:
        browser = it.browser()
        for key, status in (("me", 403), ("you", 403), ("", 401)):
            own = {"authorization": f"Bearer {KEYS[key]['key']}"} if key else {}
            assert (await browser.fetch("/visits", **own)).status == status
            answer = await browser.fetch("/visits", {"url": "http://127.0.0.1:1"}, **own)
            assert answer.status == status
            assert (await browser.fetch("/visits/x", method="DELETE", **own)).status == status


async def test_operators_see_the_gateways_on_the_main_store() -> None:
    async with world() as it:
        assert (await it.browser().fetch("/nodes")).status == 403
        (node,) = (await (await it.signed_in()).fetch("/nodes")).json()["items"]
        assert (node["pid"], node["isHere"], node["isAlive"]) == (os.getpid(), True, True)
        assert (node["beatAgoS"], node["lanes"], node["node"]) == (None, None, "")


async def test_the_signature_of_the_gateway_is_checked_with_its_own_key(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "card.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    file.chmod(0o600)
    async with world(server={"card_key_path": str(file)}) as it:
        browser = it.browser()
        (agent,) = (await browser.fetch("/agents")).json()["items"]
        found = (await browser.fetch(f"/agents/{agent['id']}/card")).json()
        assert {each["verdict"] for each in found["signatures"]} == {"valid"}
        assert found["findings"] == []
