"""Calls and sessions over HTTP, at a gateway with a hub and at one without."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.hub.registry_world import HubWorld, hub_world, team

from trunkline.app.gateway import build
from trunkline.settings import from_document
from trunkline.testing import FakeClock

CODE = """\
from trunkline import agent


@agent
async def editor(turn):
    made = await turn.call("acme/researcher", turn.text, wait=False)
    return made["correlationId"]


@agent(direct=True)
async def researcher(turn):
    if turn.text == "slowly":
        await turn.canceled()
    return turn.reply("found " + turn.text)
"""


def agents(folder: Path) -> dict[str, Any]:
    return team(folder, CODE, "editor", "researcher")


async def asked(world: HubWorld, text: str, *, by: str = "operator", agent: str = "editor") -> str:
    await world.clock.advance(1)
    answer = json.loads((await world.ask(f"acme/{agent}", text, by=by)).body)["result"]
    found = answer.get("message") or answer["task"]["artifacts"][0]
    return str(found["parts"][0]["text"])


async def test_calls_are_listed_and_shown(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        first, second = await asked(world, "the moon"), await asked(world, "slowly")
        listed = (await world.call("GET", "/calls")).json()
        assert [each["id"] for each in listed["items"]] == [second, first]
        assert listed["nextPageToken"] == ""
        page = (await world.call("GET", "/calls", query="pageSize=1")).json()
        rest = f"pageSize=1&pageToken={page['nextPageToken']}"
        assert (await world.call("GET", "/calls", query=rest)).json()["items"][0]["id"] == first
        pending = (await world.call("GET", "/calls", query="status=pending")).json()["items"]
        assert [each["id"] for each in pending] == [second]
        shown = (await world.call("GET", f"/calls/{first}")).json()
        assert shown["result"]["output"] == "found the moon"
        assert (shown["agent"], shown["callee"], shown["status"]) == (
            "acme/editor",
            "acme/researcher",
            "completed",
        )
        assert (await world.call("GET", f"/calls/{first}", by="carol")).status == 404
        assert (await world.call("GET", "/calls", by="carol")).json()["items"] == []
        assert (await world.call("GET", "/calls", by="")).status == 401


async def test_sessions_are_listed_read_and_ended(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        await asked(world, "slowly", by="acme")
        own = (await world.call("GET", "/sessions", query="agent=acme/editor", by="acme")).json()
        (session,) = own["items"]
        assert (session["tasks"], session["entries"], session["principal"]) == (1, 0, "user:acme")
        key = quote(session["key"], safe="")
        path = f"/sessions/{key}"
        transcript = (await world.call("GET", f"{path}/transcript", by="acme")).json()
        assert [each["role"] for each in transcript["messages"]] == ["ROLE_USER", "ROLE_AGENT"]
        assert transcript["messages"][0]["parts"] == [{"text": "slowly"}]
        last = (await world.call("GET", f"{path}/transcript", query="limit=1", by="acme")).json()
        assert last["messages"] == transcript["messages"][1:]
        assert (await world.call("GET", f"{path}/transcript")).status == 200
        for by, status in (("carol", 404), ("", 401)):
            assert (await world.call("GET", f"{path}/transcript", by=by)).status == status
            assert (await world.call("DELETE", path, by=by)).status == status
        await world.clock.advance(1)
        ended = await world.call("DELETE", path, by="acme")
        assert (ended.status, ended.json()) == (200, {"discardedCalls": 1})
        assert (await world.call("DELETE", path, by="acme")).status == 404


async def test_a_session_of_answers_without_a_task_is_listed(tmp_path: Path) -> None:
    async with hub_world(agents=agents(tmp_path)) as world:
        assert await asked(world, "mars", agent="researcher") == "found mars"
        (session,) = (await world.call("GET", "/sessions", query="agent=acme/researcher")).json()[
            "items"
        ]
        path = f"/sessions/{quote(session['key'], safe='')}/transcript"
        messages = (await world.call("GET", path)).json()["messages"]
        assert [each["parts"][0]["text"] for each in messages] == ["mars", "found mars"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/calls", "pageSize=0"),
        ("/calls", "pageToken=%00"),
        ("/calls", "status=lost"),
        ("/calls", "pageSize=1&pageSize=2"),
        ("/sessions", "pageToken=x"),
        ("/sessions", "pageToken=99999999999999999999-0123456789abcdef"),
        ("/sessions/k/transcript", "limit=0"),
        ("/sessions/k/transcript", "limit=1001"),
    ],
)
async def test_a_wrong_query_is_refused(tmp_path: Path, path: str, query: str) -> None:
    async with hub_world() as world:
        answer = await world.call("GET", path, query=query)
        assert answer.status == 400, answer.body


async def test_a_gateway_without_a_hub_has_the_sessions_of_its_callers(tmp_path: Path) -> None:
    keys = {"me": {"key": "me-has-a-long-enough-key"}, "you": {"key": "you-have-a-long-key"}}
    document = {
        "store": {"kind": "memory"},
        "agents": {"acme/echo": {"name": "Echo", "backend": {"kind": "echo"}, "default": True}},
        "auth": {"keys": keys},
    }
    clock = FakeClock()
    gateway = build(from_document(document, environment={}), base_url="", clock=clock)
    await gateway.open()
    http = Asgi(gateway.application)

    async def get(path: str, key: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {keys[key]['key']}"} if key else {}
        answer = await http.send(Http(method="GET", path=f"/api/v1{path}", headers=headers))
        return answer.status, answer.json()

    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    await http.send(
        Http(
            path="/a2a/jsonrpc",
            headers={
                "Authorization": f"Bearer {keys['me']['key']}",
                "Content-Type": "application/json",
            },
            body=json.dumps(body).encode(),
        )
    )
    try:
        status, found = await get("/sessions", "me")
        assert (status, [each["principal"] for each in found["items"]]) == (200, ["me"])
        assert (await get("/sessions", "you"))[1]["items"] == []
        assert (await get("/sessions"))[0] == 401
        assert (await get("/calls", "me"))[1]["items"] == []
        assert (await get("/tokens", "me"))[0] == 404
    finally:
        await gateway.close()
