"""What others send that works: a2a-sdk, cards of the gateway in every form, and the hub's dialect.

`tests/bindings/clients.py` checks every answer to the tests of the bindings.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from starlette.applications import Starlette
from tests.acceptance.a2a_sdk_server import Executor, card
from tests.bindings.asgi import Asgi, Http
from tests.bindings.clients import CLIENTS, STREAMING, Address, Client, message
from tests.bindings.world import World, open_world
from tests.hub.registry_world import hub_world

from trunkline.model.findings import Finding
from trunkline.protocol.checks import Sent, card_report, check, check_card, check_order

URL = "https://sdk.test"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@asynccontextmanager
async def sdk() -> AsyncIterator[Asgi]:
    """An agent on a2a-sdk, which speaks both versions over both bindings."""
    own = card(URL, ("1.0", "0.3"))
    own.capabilities.push_notifications = True
    handler = DefaultRequestHandler(
        Executor(),
        InMemoryTaskStore(),
        own,
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    routes = [
        *create_agent_card_routes(own),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True),
    ]
    yield Asgi(Starlette(routes=routes))


async def exchanged(client: Client, operation: str, params: Any) -> tuple[Any, list[Finding]]:
    """The answer of an agent, and what is wrong with the request and with the answer."""
    request = client.request(operation, params)
    common: dict[str, Any] = {
        "binding": client.binding,
        "version": client.version,
        "operation": operation,
    }
    assert isinstance(request.body, bytes)
    found = check(
        Sent(
            direction="request",
            headers=request.headers,
            query=str(request.query),
            body=request.body,
            **common,
        )
    )
    answer = await client.http.send(request)
    if operation in STREAMING and answer.headers["content-type"].startswith("text/event-stream"):
        lines = answer.body.replace(b"\r\n", b"\n").split(b"\n")
        events = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
        found += check_order(events, **common)
        return events, found
    found += check(
        Sent(
            direction="response",
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            **common,
        )
    )
    return json.loads(answer.body) if answer.body else None, found


def errors(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.severity == "error"]


def id_in(value: Any) -> str:
    """The id of the task in an answer, whatever is around it."""
    while "status" not in value:
        value = value.get("result") or value.get("task")
    return str(value["id"])


@pytest.mark.parametrize("dialect", CLIENTS)
async def test_what_a2a_sdk_sends_has_no_errors(dialect: str) -> None:
    async with sdk() as http:
        client = CLIENTS[dialect](http, key="", address=Address(jsonrpc="/rpc", rest=""))
        for text in ("hello", "ask", "fail", "direct", "stream 3"):
            for operation in ("SendMessage", "SendStreamingMessage"):
                answer, found = await exchanged(client, operation, {"message": message(text)})
                assert answer
                assert errors(found) == [], (text, operation, answer)
        sent, _ = await exchanged(client, "SendMessage", {"message": message("ask")})
        task = id_in(sent)
        push = {"taskId": task, "url": "https://x.test/hook", "id": "p"}
        for operation, params in (
            ("GetTask", {"id": task}),
            ("ListTasks", {"pageSize": 10}),
            ("CreateTaskPushNotificationConfig", push),
            ("GetTaskPushNotificationConfig", {"taskId": task, "id": "p"}),
            ("ListTaskPushNotificationConfigs", {"taskId": task}),
            ("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "p"}),
            ("CancelTask", {"id": task}),
            ("GetTask", {"id": "unknown"}),
            ("CancelTask", {"id": task}),
            ("GetExtendedAgentCard", {}),
        ):
            answer, found = await exchanged(client, operation, params)
            assert errors(found) == [], (operation, answer)


async def test_the_card_of_a2a_sdk_has_no_errors() -> None:
    async with sdk() as http:
        answer = await http.send(Http(method="GET", path="/.well-known/agent-card.json"))
        assert errors(card_report(answer.body)) == []


CARD = "/.well-known/agent-card.json"


async def test_the_cards_of_the_gateway_have_no_findings(world: World) -> None:
    for form, version in (("1.0", "1.0"), ("0.3", "0.3"), ("hybrid", "1.0"), ("hybrid", "0.3")):
        answer = await world.http.send(Http(method="GET", path=CARD, query=f"format={form}"))
        assert answer.status == 200
        assert check_card(answer.body, "0.3" if version == "0.3" else "1.0") == [], form
        assert card_report(answer.body) == []


@pytest.mark.parametrize("dialect", CLIENTS)
async def test_requests_of_good_clients_have_no_findings(world: World, dialect: str) -> None:
    client = world.client(dialect)
    task = (await client.run("ask which?"))["id"]
    for operation, params in (
        ("SendMessage", {"message": message("say yes", task=task)}),
        ("SendStreamingMessage", {"message": message("say a; artifact data {}; chunks x 3")}),
        ("GetTask", {"id": task, "historyLength": 1}),
        ("ListTasks", {"pageSize": 10}),
        ("GetTask", {"id": "unknown"}),
        ("CancelTask", {"id": task}),
    ):
        answer, found = await exchanged(client, operation, params)
        if (operation, client.version) == ("ListTasks", "0.3"):
            # 0.3 itself cannot list.
            assert {each.severity for each in found} == {"note"}
        else:
            assert found == [], (operation, answer)


async def test_the_dialect_of_hubs_is_told_with_one_note() -> None:
    async with hub_world() as world:
        await world.create(slug="echo", profile="hub")
        answer = await world.send("acme/echo")
        found = check(Sent(direction="response", operation="SendMessage", body=answer.body))
        assert [each.severity for each in found] == ["note"], answer.body
        answer = await world.send("acme/echo", method="SendStreamingMessage")
        lines = answer.body.split(b"\n")
        events = [each.removeprefix(b"data: ") for each in lines if each.startswith(b"data: ")]
        assert len(events) > 1
        assert [each.severity for each in check_order(events)] == ["note"], events
