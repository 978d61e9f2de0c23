"""Relays that break the protocol, in bytes: the gateway with the agent gives up the connection with
the code that is written for it, serves its other callers, and tells the relay nothing."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.gateway import Gateway, gateway, http_client
from tests.acceptance.raw_host import frame
from tests.acceptance.raw_relay import WELCOME, RawRelay, RawSession, raw_relay
from tests.acceptance.relay_hosts import AttachedHost, Echo, until
from tests.acceptance.test_relay_faults import HOST

from trunkline.protocol.relay.callers import Caller


class Attached:
    """A gateway whose relay is the test, and the session that it has with it."""

    def __init__(self, host: Gateway, session: RawSession) -> None:
        self.host = host
        self.session = session

    async def answer(self, **req: Any) -> dict[str, Any]:
        """The first frame of the answer to a request."""
        stream = await self.session.req(**req)
        answer = await self.session.expect("res", "cancel")
        assert answer["stream"] == stream
        return answer


@asynccontextmanager
async def attached(folder: Path) -> AsyncIterator[Attached]:
    async with raw_relay() as relay:
        with gateway(
            folder, HOST.format(port=relay.port, transport="websocket").replace('"relay"', '"both"')
        ) as host:
            await asyncio.to_thread(host.start)
            session = await relay.session()
            await session.attach()
            yield Attached(host, session)
            assert host.process.poll() is None
            host.check_log()
            assert '"level": "error"' not in host.stderr, host.stderr


SEND = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
    }
).encode()
POST: dict[str, Any] = {"method": "POST", "target": "/t/acme/a2a/helper", "body": SEND}
POST["headers"] = [["content-type", "application/json"]]
BELOW = "/t/acme/a2a/helper"
# What a request is answered with: a status, or why it is refused.
REQUESTS: dict[str, tuple[int | str, dict[str, Any]]] = {
    "a usual one": (200, {}),
    "a message": (200, POST),
    "no signature": ("refused", {"caller": "nope"}),
    "a signature in other letters": ("refused", {"caller": "\u00fc.\u0142.x"}),
    "an old epoch": ("refused", {"epoch": 3}),
    "an agent without a lease": ("refused", {"agent": "acme/other"}),
    "a caller without a name": ("refused", POST | {"caller": Caller(id="")}),
    "a caller with U+0000": ("refused", POST | {"caller": Caller(id="a\0b")}),
    "a caller with a long name": ("refused", POST | {"caller": Caller(id="a" * 40_000)}),
    "a caller with any other name": (200, POST | {"caller": Caller(id="x:y z \u0142")}),
    "a caller with a long chain": (
        200,
        POST | {"caller": Caller(id="x", chain=tuple(f"c{i}" for i in range(3000)))},
    ),
    "a caller that may do nothing": (403, POST | {"caller": Caller(id="x", operations=())}),
    "another path": ("refused", {"target": "/metrics"}),
    "a whole address": ("refused", {"target": "http://127.0.0.1/metrics"}),
    "no target": ("refused", {"target": ""}),
    "a target that is not encoded": ("refused", {"target": f"{BELOW}/tasks/\u0142"}),
    "a query that is not encoded": ("refused", {"target": f"{BELOW}/tasks?\u0142"}),
    "a path that climbs": (404, {"target": f"{BELOW}/../../../../metrics"}),
    "a path that climbs, encoded": (404, {"target": f"{BELOW}/%2e%2e/%2e%2e/metrics"}),
    "bytes that are no text": (404, {"target": f"{BELOW}/tasks/%ff%00"}),
    "a query that is no text": (400, {"target": f"{BELOW}/tasks?pageSize=%ff"}),
    "a method that is a head": (405, {"method": "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"}),
    "no method": (405, {"method": ""}),
    "CONNECT": (405, {"method": "CONNECT"}),
    "headers that are none": (
        200,
        {"headers": [["a\r\nb", "c"], ["\u0142", "x"], ["x", "\0"], ["", ""]]},
    ),
    "credentials": (
        200,
        {"headers": [["authorization", "Bearer root"], ["x-api-key", "root"], ["cookie", "a=b"]]},
    ),
    "a wrong length": (200, POST | {"headers": [*POST["headers"], ["content-length", "99"]]}),
    "a length that is a word": (
        200,
        POST | {"headers": [*POST["headers"], ["content-length", "x"]]},
    ),
    "another coding": (
        200,
        POST | {"headers": [*POST["headers"], ["transfer-encoding", "gzip, chunked"]]},
    ),
    "a version that nobody knows": (400, {"headers": [["a2a-version", "9"]]}),
}


async def test_requests_of_a_relay_do_no_harm(tmp_path: Path) -> None:
    async with attached(tmp_path) as it:
        found = {}
        for name, (_, req) in REQUESTS.items():
            answer = await it.answer(**req)
            found[name] = answer.get("status") or answer["reason"]
        assert found == {name: expected for name, (expected, _) in REQUESTS.items()}
        async with http_client() as http:
            # Nothing of this was a caller of the gateway itself.
            tasks = (await http.get(f"{it.host.rest_url}/tasks")).json()
            assert tasks["totalSize"] == 0


async def test_floods_of_a_relay_fill_no_memory_and_delay_nobody(tmp_path: Path) -> None:
    async with attached(tmp_path) as it:
        before = it.host.resident_bytes()
        floods = {
            "pings": frame("ping"),
            "tokens": frame("reauthed", token_ends_in_s=0),
        }
        async with http_client() as http:
            for name, message in floods.items():
                ends_at, calls = time.monotonic() + 0.25, []
                while time.monotonic() < ends_at:
                    await asyncio.wait_for(it.session.write(*[message] * 500), 20)
                    began = time.monotonic()
                    assert (await http.get(f"{it.host.rest_url}/tasks")).status_code == 200
                    calls.append(time.monotonic() - began)
                assert max(calls) < 1, (name, calls)
        assert it.host.resident_bytes() - before < 12e6


async def test_a_relay_opens_no_more_streams_than_it_may(tmp_path: Path) -> None:
    async with attached(tmp_path) as it:
        for _ in range(256):
            # Their bodies never end.
            await it.session.req(**POST | {"body": b"{", "fin": False})
        await it.session.req(**POST | {"body": b"{", "fin": False})
        assert (await it.session.closed())[0] == 4429
        async with http_client() as http:
            assert (await http.get(f"{it.host.rest_url}/tasks")).status_code == 200


def welcome(**members: Any) -> bytes:
    return frame("welcome", **(WELCOME | members))


FIRST: dict[str, tuple[int, bytes | str]] = {
    "a text": (4400, "hello"),
    "garbage": (4400, b"\xff"),
    "leases": (4400, frame("leases", n=1, epochs={})),
    "another session": (
        4412,
        welcome(resumed=True),
    ),
    "no key": (
        4400,
        welcome(key="zz"),
    ),
    "no window": (
        4400,
        welcome(limits={"stream_bytes": 1}),
    ),
}
LATER: dict[str, tuple[int, bytes | str]] = {
    "a text": (4400, "hello"),
    "an unknown frame": (4400, frame("nonsense")),
    "a frame of hosts": (4400, frame("agents", n=2, agents=[])),
    "a gap": (4412, frame("leases", n=5, epochs={})),
    "an ack of what was not sent": (4412, frame("ack", n=999)),
    "a skipped stream": (
        4400,
        frame(
            "req",
            n=2,
            stream=7,
            agent="acme/helper",
            epoch=1,
            caller="",
            method="GET",
            target="/",
        ),
    ),
    "a body of no stream": (4400, frame("data", b"x", n=2, stream=7)),
    "a huge frame": (4413, b"x" * 300_000),
    "a huge head": (4413, b"x" * 70_000),
}


async def _closed_by(relay: RawRelay, *, is_first: bool, data: bytes | str) -> int | None:
    host = AttachedHost(relay.port, Echo())
    try:
        session = await relay.session()
        if is_first:
            await session.expect("hello")
        else:
            await session.attach()
        await session.write(data)
        code, _ = await session.closed()
        # It comes back, and is served.
        again = await relay.session()
        await again.attach()
        await again.req()
        assert (await again.expect("res"))["status"] == 200
        return code
    finally:
        await host.close()


async def test_each_fault_of_a_relay_has_its_code() -> None:
    found, expected = {}, {}
    async with raw_relay() as relay:
        for is_first, cases in ((True, FIRST), (False, LATER)):
            for name, (code, data) in cases.items():
                expected[is_first, name] = code
                found[is_first, name] = await _closed_by(relay, is_first=is_first, data=data)
    assert found == expected


@pytest.mark.parametrize("code", [4401, 4403, 4409])
async def test_a_host_that_is_told_to_stay_away_does(code: int) -> None:
    async with raw_relay() as relay:
        host = AttachedHost(relay.port, Echo())
        session = await relay.session()
        await session.attach()
        await session.socket.close(code, "away with you")
        await until(lambda: host.is_refused)
        assert host.host.trouble == "away with you"
        await host.close()
