"""What only a fake can be made to do: refuse, garble, flood, and tell what it was asked."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.acceptance.openclaw.claws import TOKEN, FakeClaw
from tests.acceptance.openclaw.conftest import a_turn, backend_of, outputs_of
from tests.acceptance.openclaw.fake.access import Refused, scopes_for
from tests.acceptance.websocket_server import Handler, websocket_server
from websockets.asyncio.server import ServerConnection

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.backends.openclaw.doctor import check_openclaw
from trunkline.clock import SystemClock
from trunkline.model.outputs import Failed, Note, Output
from trunkline.testing import FakeSession, answer_text

UNREACHABLE = Failed(
    "The agent cannot be reached now; send the message again later.", is_unreachable=True
)


@pytest.fixture
def started(fake: FakeClaw) -> FakeClaw:
    fake.start()
    return fake


async def test_all_runs_share_one_socket_and_hear_of_their_own_sessions(started: FakeClaw) -> None:
    backend = backend_of(started)
    turns = [a_turn(f"number {number}") for number in range(20)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(outputs_of(backend, turn)) for turn in turns]
    assert [answer_text(one.result()) for one in running] == [f"number {n}" for n in range(20)]
    await backend.close()
    asked = await asyncio.to_thread(started.asked, "connect")
    assert [params["caps"] for params in asked] == [["tool-events", "session-scoped-events"]]
    subscribed = await asyncio.to_thread(started.asked, "sessions.messages.subscribe")
    left = await asyncio.to_thread(started.asked, "sessions.messages.unsubscribe")
    assert len(subscribed) == len({params["key"] for params in subscribed}) == 20
    assert {params["key"] for params in left} <= {params["key"] for params in subscribed}


async def test_nothing_is_kept_of_runs_that_have_ended(started: FakeClaw) -> None:
    backend = backend_of(started)
    for text in ("hello", "FAIL 400"):
        await outputs_of(backend, a_turn(text))
    canceled = a_turn("SLOW 600 100")
    outputs = backend.start(canceled)
    await anext(outputs)
    await backend.cancel(canceled.run_id)
    assert [output async for output in outputs] == []
    link = backend._link
    connection = await link.connection()
    assert (link._listeners, connection._hearers, connection._waiting) == ({}, {}, {})
    await backend.close()


async def test_trap_7_nothing_is_delivered_elsewhere(started: FakeClaw) -> None:
    backend = backend_of(started)
    turn = a_turn("hello")
    await outputs_of(backend, turn)
    await backend.close()
    [params] = await asyncio.to_thread(started.asked, "agent")
    assert params["deliver"] is False
    assert params["idempotencyKey"] == turn.run_id
    # Trap 2: not a key that belongs to a channel.
    assert params["sessionKey"].startswith("agent:main:br-ctx-")


async def test_an_openclaw_that_is_starting_is_waited_for(fake: FakeClaw) -> None:
    fake.launch("--refusals", "3")
    await asyncio.to_thread(fake.wait_ready)
    backend = backend_of(fake)
    outputs = await outputs_of(backend, a_turn("hello"))
    assert answer_text(outputs) == "hello"
    assert len(await asyncio.to_thread(fake.asked, "connect")) == 4
    await backend.close()


async def test_trap_5_host_tools_are_warned_of_at_the_start(
    started: FakeClaw, caplog: pytest.LogCaptureFixture
) -> None:
    for agent_id in ("main", "guest"):
        backend = backend_of(started, agent_id=agent_id)
        await backend.open("acme/claw", FakeSession())
        await outputs_of(backend, a_turn("hello"))
        await backend._look("acme/claw")
        await backend.close()
    warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) >= 1
    assert all("the agent main can use tools" in warning for warning in warnings)


async def test_what_a_doctor_finds(started: FakeClaw) -> None:
    async def levels(**changes: Any) -> list[str]:
        fields = {"url": started.url, "token": TOKEN, "agent_id": "main"} | changes
        found = await check_openclaw(Address(**fields), clock=SystemClock())
        assert all(one.remedy for one in found if one.level == "error")
        return [one.level for one in found]

    assert await levels() == ["ok", "ok", "warning"]
    assert await levels(agent_id="guest") == ["ok", "ok", "ok"]
    assert await levels(agent_id="nobody") == ["ok", "error"]
    assert await levels(token="wrong") == ["error"]
    assert await levels(url="ws://127.0.0.1:9") == ["error"]


async def test_an_openclaw_that_is_not_there_fails_the_turn_in_time() -> None:
    address = Address(url="ws://127.0.0.1:9", token=TOKEN, unreachable_s=0.5)
    backend = OpenClawBackend(address, clock=SystemClock())
    outputs = await outputs_of(backend, a_turn("hello"))
    waiting = outputs[0]
    assert isinstance(waiting, Note)
    assert waiting.is_unreachable
    assert outputs[-1] == UNREACHABLE
    await backend.close()


@asynccontextmanager
async def gateway_that(serves: Handler) -> AsyncIterator[OpenClawBackend]:
    """A backend whose OpenClaw behaves in some way of its own after the greeting."""
    async with websocket_server(serves) as url:
        address = Address(url=url, token=TOKEN, unreachable_s=0.6)
        backend = OpenClawBackend(address, clock=SystemClock())
        try:
            yield backend
        finally:
            await backend.close()


async def greet(socket: ServerConnection) -> None:
    challenge = {"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}}
    await socket.send(json.dumps(challenge))
    frame = json.loads(await socket.recv())
    payload = {"type": "hello-ok", "protocol": 4, "server": {"version": "0", "bootId": "b"}}
    await socket.send(
        json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": payload})
    )


async def accept(socket: ServerConnection) -> str:
    """Let one run in; the id of its request."""
    while True:
        frame = json.loads(await socket.recv())
        payload: dict[str, Any] = {"agents": [{"id": "main"}], "status": "accepted"}
        await socket.send(
            json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": payload})
        )
        if frame["method"] == "agent":
            return str(frame["params"]["idempotencyKey"])


async def test_garbage_instead_of_a_greeting() -> None:
    async def serves(socket: ServerConnection) -> None:
        await socket.send("<html>")
        await asyncio.sleep(0.2)

    async with gateway_that(serves) as backend:
        assert (await outputs_of(backend, a_turn("hello")))[-1] == UNREACHABLE


async def test_garbage_in_the_middle_of_a_run() -> None:
    async def serves(socket: ServerConnection) -> None:
        await greet(socket)
        await accept(socket)
        await socket.send('{"type":"event","event":"agent","payload":{"runId":7}}')
        await socket.send(b"\x00\x01")
        await asyncio.sleep(0.2)

    async with gateway_that(serves) as backend:
        outputs = await outputs_of(backend, a_turn("hello"))
        assert isinstance(outputs[-1], Failed)


async def test_an_openclaw_that_closes_early() -> None:
    async def serves(socket: ServerConnection) -> None:
        await greet(socket)
        await socket.close()

    async with gateway_that(serves) as backend:
        assert (await outputs_of(backend, a_turn("hello")))[-1] == UNREACHABLE


async def test_something_else_at_the_address() -> None:
    async def serves(socket: ServerConnection) -> None:
        await socket.send(
            json.dumps({"type": "event", "event": "connect.challenge", "payload": {}})
        )
        frame = json.loads(await socket.recv())
        await socket.send(json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": {}}))
        await asyncio.sleep(0.2)

    async with gateway_that(serves) as backend:
        [failed] = await outputs_of(backend, a_turn("hello"))
        assert isinstance(failed, Failed)
        assert "not set up correctly" in failed.reason


async def test_a_flood_of_what_cannot_be_joined_ends_the_turn_and_not_the_gateway() -> None:
    async def serves(socket: ServerConnection) -> None:
        await greet(socket)
        run_id = await accept(socket)
        for number in range(12_000):
            data = {"phase": "start", "name": "exec", "toolCallId": f"c{number}"}
            payload = {"runId": run_id, "stream": "tool", "data": data}
            await socket.send(json.dumps({"type": "event", "event": "agent", "payload": payload}))
        await asyncio.sleep(1)

    async with gateway_that(serves) as backend:
        outputs = backend.start(a_turn("hello"))
        heard: list[Output] = [await anext(outputs)]
        # The reader is slow, as a busy disk would make it.
        await asyncio.sleep(2)
        async for output in outputs:
            heard.append(output)
        assert heard[-1] == Failed("The agent said more than can be taken in.")


async def test_an_answer_after_the_cancel_is_dropped() -> None:
    async def serves(socket: ServerConnection) -> None:
        await greet(socket)
        run_id = await accept(socket)
        data = {"text": "one", "delta": "one"}
        payload = {"runId": run_id, "stream": "assistant", "data": data}
        await socket.send(json.dumps({"type": "event", "event": "agent", "payload": payload}))
        frame = json.loads(await socket.recv())
        more = payload | {"data": {"text": "one two", "delta": " two"}}
        await socket.send(json.dumps({"type": "event", "event": "agent", "payload": more}))
        aborted = {"ok": True, "aborted": True}
        await socket.send(
            json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": aborted})
        )
        await asyncio.sleep(0.2)

    async with gateway_that(serves) as backend:
        turn = a_turn("hello")
        outputs = backend.start(turn)
        await anext(outputs)
        await backend.cancel(turn.run_id)
        assert [output async for output in outputs] == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ""),
        ({"client": {"id": "cli", "mode": "cli", "platform": "linux"}}, ""),
        ({"client": {"id": "mine", "mode": "x", "platform": "linux"}}, "INVALID_REQUEST"),
        ({"auth": None}, "NOT_PAIRED"),
        ({"auth": {"token": "wrong"}}, "INVALID_REQUEST"),
        ({"maxProtocol": 3}, "INVALID_REQUEST"),
    ],
)
def test_who_gets_in_as_seen_with_the_real_one(changes: dict[str, Any], code: str) -> None:
    params = {
        "maxProtocol": 4,
        "client": {"id": "gateway-client", "mode": "backend", "platform": "linux"},
        "auth": {"token": TOKEN},
        "scopes": ["operator.read"],
    } | changes
    if not code:
        assert scopes_for(params, token=TOKEN, nonce="n") == ["operator.read"]
        return
    with pytest.raises(Refused) as refused:
        scopes_for(params, token=TOKEN, nonce="n")
    assert refused.value.error["code"] == code


def test_a_client_for_tests_gets_no_rights() -> None:
    client = {"id": "test", "mode": "test", "platform": "linux"}
    params = {"maxProtocol": 4, "client": client, "auth": {"token": TOKEN}, "scopes": ["x"]}
    assert scopes_for(params, token=TOKEN, nonce="n") == []
