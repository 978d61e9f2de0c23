"""`V1Host` on a wire in memory; the test is the relay."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.bindings.asgi import App
from tests.relay.apps import Scripted, Told
from tests.relay.v1_relay import text_message
from tests.relay.wire import TextEnd

from trunkline.background import BackgroundTasks
from trunkline.model.principal import Grant, Principal
from trunkline.ports.websocket import NORMAL
from trunkline.protocol.relay.close_codes import GOING_AWAY, REPLACED, Close
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.v1.host import MAX_REQUESTS, V1Host, V1HostSettings
from trunkline.testing import FakeClock, settle


class World:
    def __init__(self) -> None:
        self.tasks = BackgroundTasks("test")
        self.clock = FakeClock()
        self.callers = RelayedCallers()
        self.relay, self._own = TextEnd(), TextEnd()
        self.relay.other, self._own.other = self._own, self.relay
        self.closes: list[Close] = []
        self.host: V1Host

    async def attach(self, app: App, **settings: Any) -> None:
        self.host = V1Host(
            V1HostSettings(relay="relay.example", agents={"acme/helper": "me/helper"}, **settings),
            app=_with_card(app),
            callers=self.callers,
            tasks=self.tasks,
            clock=self.clock,
        )
        self.tasks.spawn(self._carry(), name="carry")
        await settle()
        assert (await self.frame())["type"] == "auth"
        await self.tell(type="auth_ok", tenant="acme", agent_id="helper")
        assert self.host.attached == "acme/helper"

    async def _carry(self) -> None:
        self.closes.append(await self.host.carry(self._own, "a.b.c"))

    async def frame(self) -> Any:
        return json.loads(await self.relay.receive())

    async def tell(self, **frame: Any) -> None:
        await self.relay.send(json.dumps(frame))
        await settle()

    async def ask(self, id: str, method: str = "message/send", **payload: Any) -> None:
        payload = {"params": text_message("hi")} | payload
        await self.tell(type="a2a.request", payload={"id": id, "method": method, **payload})


def _with_card(app: App) -> App:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "GET":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"name":"Helper"}'})

    return serve


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.relay.close()
    await settle()
    await world.tasks.close()


async def test_callers_are_one_principal_with_the_grants_of_the_settings(world: World) -> None:
    seen: list[Principal | None] = []

    class Watching(Told):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(world.callers.known(dict(scope["headers"])))
            await super().__call__(scope, receive, send)

    await world.attach(Watching(), operations=frozenset({"SendMessage"}))
    await world.ask("1")
    assert seen == [
        Principal(
            id="relay:relay.example/acme",
            grants=(Grant("me/helper", frozenset({"SendMessage"})),),
        )
    ]


async def test_an_answer_whose_connection_is_gone_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The client of the older protocol loses it in silence."""
    app = Scripted(content_length=b"15")
    await world.attach(app)
    await world.ask("1")
    await world.relay.close()
    await settle()
    assert world.closes == [Close(NORMAL, "")]
    assert not world.host.attached
    with caplog.at_level(logging.WARNING):
        app.requests[0].say(b'{"result": true}', is_last=True)
        await settle()
    (record,) = caplog.records
    assert "the task of the request is kept" in record.message


async def test_requests_begin_in_order_and_their_number_is_bounded(world: World) -> None:
    app = Scripted(content_length=b"15")
    await world.attach(app)
    for number in range(MAX_REQUESTS + 1):
        await world.ask(str(number))
    assert len(app.requests) == MAX_REQUESTS
    refusal = (await world.frame())["payload"]
    assert refusal["id"] == str(MAX_REQUESTS)
    assert "256 requests under way" in refusal["error"]["message"]
    app.requests[0].say(b'{"result": true}', is_last=True)
    await settle()
    assert (await world.frame())["payload"] == {"id": "0", "result": True}
    await world.ask("one more")
    assert len(app.requests) == MAX_REQUESTS + 1


async def test_a_relay_without_a_time_of_its_own_gets_an_answer(world: World) -> None:
    await world.attach(Told())
    await world.ask("1", timeout_ms=0)
    await settle()
    answer = (await world.frame())["payload"]
    assert "needs longer" not in str(answer)


async def test_a_host_that_stops_ends_what_it_has_begun(world: World) -> None:
    app = Scripted(content_length=b"15")
    await world.attach(app)
    await world.ask("1")
    world.host.drain()
    await world.ask("2")
    assert "about to stop" in (await world.frame())["payload"]["error"]["message"]
    await world.clock.advance(2)
    assert not world.closes
    app.requests[0].say(b'{"result": true}', is_last=True)
    await settle()
    assert (await world.frame())["payload"] == {"id": "1", "result": True}
    await world.clock.advance(2)
    assert world.closes == [Close(GOING_AWAY, "the agent stops")]


async def test_a_host_that_was_replaced_learns_it_by_the_code(world: World) -> None:
    """Two gateways with one token would else take the agent from each other for ever."""
    await world.attach(Told())
    await world.tell(type="error", message="another host has its agents now")
    await world.relay.close(REPLACED, "")
    await settle()
    assert world.closes == [Close(REPLACED, "the relay says: another host has its agents now")]


async def test_an_application_that_fails_is_an_internal_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("secret details")

    await world.attach(fail)
    with caplog.at_level(logging.CRITICAL):
        await world.ask("1")
    answer = (await world.frame())["payload"]
    assert answer == {"id": "1", "error": {"code": -32603, "message": "internal error"}}
