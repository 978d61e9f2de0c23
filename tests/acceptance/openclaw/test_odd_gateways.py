"""An OpenClaw that answers, and not as it should."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.acceptance.openclaw.conftest import a_turn
from tests.acceptance.websocket_server import websocket_server
from tests.remote.http.peer import answer, peer
from websockets.asyncio.server import ServerConnection

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.clock import SystemClock
from trunkline.model.outputs import Failed
from trunkline.testing import run_turn

HELLO = {"type": "hello-ok", "protocol": 4, "server": {"version": "2026.9.6", "bootId": "b"}}
ANSWERS: dict[str, dict[str, Any]] = {
    "connect": {"ok": True, "payload": HELLO},
    "agents.list": {"ok": True, "payload": {"agents": [{"id": "main"}]}},
    "agent": {"ok": True, "payload": {"status": "in_flight"}},
    "agent.wait": {"ok": False, "error": {"code": "UNAVAILABLE", "message": "not now"}},
}


class Odd:
    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()

    async def serve(self, socket: ServerConnection) -> None:
        challenge = {"type": "event", "event": "connect.challenge", "payload": {}}
        await socket.send(json.dumps(challenge))
        async for message in socket:
            frame = json.loads(message)
            self.asked[frame["method"]] += 1
            told = ANSWERS.get(frame["method"], {"ok": True, "payload": {}})
            await socket.send(json.dumps({"type": "res", "id": frame["id"], **told}))


@asynccontextmanager
async def odd_claw() -> AsyncIterator[Odd]:
    odd = Odd()
    async with websocket_server(odd.serve) as odd.url:
        yield odd


async def test_one_that_refuses_to_wait_is_not_asked_all_the_time() -> None:
    async with odd_claw() as odd:
        backend = OpenClawBackend(Address(url=odd.url), clock=SystemClock())
        outputs = backend.start(a_turn("hello"))
        reading = asyncio.ensure_future(anext(outputs))
        await asyncio.sleep(1.5)
        asked = odd.asked["agent.wait"]
        assert 1 <= asked <= 3
        reading.cancel()
        await asyncio.wait({reading})
        await asyncio.sleep(1.5)
        # Nobody reads on, so nobody asks.
        assert odd.asked["agent.wait"] == asked
        await backend.close()


@pytest.mark.parametrize("data", [b'"\xff"', b"[" * 100_000], ids=["no text", "too deep"])
async def test_an_answer_over_http_that_cannot_be_read(data: bytes) -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if request.startswith(b"GET"):
            writer.write(answer(b'{"data": [{"id": "openclaw/main"}]}'))
        else:
            writer.write(answer(b"data: %b\n\n" % data, b"Content-Type: text/event-stream"))

    async with peer(handle) as one:
        address = Address(url=one.url.removesuffix("/rpc"), idle_s=10)
        backend = OpenClawHttpBackend(address)
        outputs = await run_turn(backend, a_turn("hello"))
        await backend.close()
    assert outputs == [Failed("The agent's answer cannot be read.")]
