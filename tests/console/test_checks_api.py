"""`POST /checks`, with a hub and without."""

import json
import threading
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.world import open_world
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.api.check_types import CheckRequest
from trunkline.console import checks_api
from trunkline.console.checks_api import findings_of
from trunkline.model.findings import Finding

REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {"message": {"messageId": "m", "role": "user", "parts": [{"text": "x"}]}},
}


async def checked(world: HubWorld, body: Any, *, by: str = "carol") -> Answer:
    return await world.call("POST", "/checks", body, by=by)


async def test_a_message_is_checked_for_every_caller() -> None:
    async with hub_world() as world:
        body = {"direction": "request", "operation": "SendMessage", "body": REQUEST}
        for by in ("carol", "operator", "acme"):
            answer = await checked(world, body, by=by)
            assert answer.status == 200
            assert answer.json() == {
                "findings": [
                    {
                        "rule": "A2A 1.0 Role",
                        "severity": "error",
                        "pointer": "/params/message/role",
                        "text": 'has the unknown value "user"; here it is ROLE_USER',
                    }
                ]
            }
        assert (await checked(world, body, by="")).status == 401


async def test_a_caller_on_loopback_needs_no_key_without_a_hub() -> None:
    async with open_world(anonymous="loopback") as world:
        body = {"direction": "card", "version": "auto", "text": "{}"}
        answer = await world.http.send(
            Http(
                path="/api/v1/checks",
                headers={"content-type": "application/json"},
                body=json.dumps(body).encode(),
            )
        )
        assert answer.status == 200
        assert {each["severity"] for each in answer.json()["findings"]} == {"error"}


async def test_a_text_that_is_no_json() -> None:
    async with hub_world() as world:
        body = {"direction": "response", "text": "<html>", "headers": {"Content-Type": "text/html"}}
        found = (await checked(world, body)).json()["findings"]
        assert [each["rule"] for each in found] == ["A2A 1.0 §9", "JSON"]
        large = {"direction": "response", "text": "[" * 100_000}
        assert len((await checked(world, large)).json()["findings"]) == 1


async def test_the_order_of_a_stream() -> None:
    async with hub_world() as world:
        status = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        body: dict[str, Any] = {
            "binding": "rest",
            "events": [
                {"statusUpdate": status},
                {"data": {"statusUpdate": status}, "eventId": "4"},
            ],
        }
        found = (await checked(world, body)).json()["findings"]
        assert [(each["rule"], each["severity"], each["pointer"]) for each in found] == [
            ("A2A 1.0 §3.1.2", "error", "/0/statusUpdate"),
            ("A2A 1.0 §3.1.2", "warning", ""),
        ]
        body |= {"resumed": True, "complete": False}
        assert (await checked(world, body)).json() == {"findings": []}


@pytest.mark.parametrize(
    "body",
    [
        {"direction": "request"},
        {"direction": "request", "body": {}, "text": "{}"},
        {"direction": "request", "body": {}, "events": []},
        {"direction": "request", "version": "auto", "body": {}},
        {"direction": "request", "version": "2.0", "body": {}},
        {"direction": "sideways", "body": {}},
        {"direction": "response", "status": 7, "body": {}},
        {"events": [{}] * 10_001},
        {"direction": "request", "text": "\0"},
    ],
)
async def test_what_cannot_be_checked_is_refused(body: Any) -> None:
    async with hub_world() as world:
        assert (await checked(world, body)).status == 400


async def test_null_is_a_body() -> None:
    async with hub_world() as world:
        answer = await checked(world, {"direction": "response", "body": None})
        assert len(answer.json()["findings"]) == 1


async def test_a_hub_dialect_is_told_with_a_note() -> None:
    async with hub_world() as world:
        body = {"direction": "response", "version": "hub", "body": {"anything": 1}}
        [note] = (await checked(world, body)).json()["findings"]
        assert note["severity"] == "note"


async def test_a_large_message_is_checked_beside_other_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[bool] = []

    def findings(given: CheckRequest) -> list[Finding]:
        threads.append(threading.current_thread() is threading.main_thread())
        return findings_of(given)

    monkeypatch.setattr(checks_api, "findings_of", findings)
    parts = [{"text": "x"}] * 4_000
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    params = {"params": {"message": message}}
    async with hub_world() as world:
        body = {"direction": "request", "operation": "SendMessage", "body": {**REQUEST, **params}}
        assert (await checked(world, body)).json() == {"findings": []}
    assert threads == [False]
