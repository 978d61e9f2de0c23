"""Streams of a real agent through a relay, read in bytes; how each ended, and what it held."""

import asyncio
import json
import time
from asyncio import IncompleteReadError
from typing import Any
from uuid import uuid4

from msgspec import Struct, field
from tests.acceptance.relay_hosts import ALICE_KEY, Caller, caller, request, until

JSON = "Content-Type: application/json\r\nA2A-Version: 1.0\r\n"
# How a stream ends, as its client sees it.
COMPLETE, LOST, REFUSED = "complete", "lost", "refused"
# The client could not tell why. No stream may end so.
BROKEN = "broken"


class Ended(Struct):
    how: str
    task_id: str = ""
    # The sequence of each event, in order.
    ids: list[int] = field(default_factory=list)
    text: str = ""
    state: str = ""
    why: str = ""


def message(text: str, **more: Any) -> bytes:
    own = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return json.dumps({"message": own | more}).encode()


async def stream(port: int, text: str, *, key: str = ALICE_KEY) -> Ended:
    """Send a message, and read its stream to the end."""
    async with caller(port) as client:
        sent = request(message(text), key=key, below="/message:stream", more=JSON)
        return await _read(client, sent, Ended(BROKEN))


async def resume(port: int, lost: Ended, *, key: str = ALICE_KEY) -> Ended:
    """Go on with a stream behind the last event that has come."""
    below = f"/tasks/{lost.task_id}:subscribe"
    more = f"{JSON}Last-Event-ID: {lost.ids[-1]}\r\n"
    async with caller(port) as client:
        sent = request(b"{}", key=key, below=below, more=more)
        return await _read(client, sent, lost)


async def _read(client: Caller, sent: bytes, ended: Ended) -> Ended:
    ended.how, ended.why = BROKEN, ""
    try:
        await client.send(sent)
        status, headers = await client.head()
        if status != 200:
            ended.how, ended.why = REFUSED, str(status)
            assert status in (502, 503), (status, headers)
            assert status == 502 or "retry-after" in headers
            return ended
        pending = b""
        async for chunk in client.chunks():
            *events, pending = (pending + chunk).split(b"\n\n")
            for event in events:
                _take(event, ended)
        assert not pending, pending
    except ConnectionRefusedError:
        raise
    except (IncompleteReadError, ConnectionError) as error:
        ended.why = repr(error)
    return ended


def _take(block: bytes, ended: Ended) -> None:
    if block.startswith(b":"):
        return
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
    data = json.loads(fields[b"data"])
    if fields.get(b"event") == b"error":
        ended.how, ended.why = LOST, block.decode()
        return
    ended.ids.append(int(fields[b"id"]))
    if "task" in data:
        ended.task_id = data["task"]["id"]
        ended.state = data["task"]["status"]["state"]
    elif "artifactUpdate" in data:
        ended.text += "".join(part["text"] for part in data["artifactUpdate"]["artifact"]["parts"])
    else:
        ended.state = data["statusUpdate"]["status"]["state"]
    if ended.state == "TASK_STATE_COMPLETED":
        ended.how = COMPLETE


def check(ended: Ended, *, text: str) -> None:
    """Every stream is complete and in order, or says why it ended and was in order so far."""
    assert ended.how != BROKEN, ended
    assert ended.ids == list(range(1, len(ended.ids) + 1)), ended.ids
    if ended.how == COMPLETE:
        assert ended.text == text, (len(ended.text), len(text))
    else:
        assert text.startswith(ended.text)


class Latencies:
    """What callers of other hosts notice."""

    def __init__(self, port: int, agent: str) -> None:
        self._port = port
        self._agent = agent
        self.seconds: list[float] = []
        self.failed: list[int] = []
        self._task: asyncio.Task[None] | None = None

    async def _call(self) -> None:
        async with caller(self._port) as client:
            while True:
                began = time.monotonic()
                status, _ = await client.call(request(b"bystander", agent=self._agent))
                self.seconds.append(time.monotonic() - began)
                if status != 200:
                    self.failed.append(status)
                await asyncio.sleep(0.005)

    async def __aenter__(self) -> "Latencies":
        self._task = asyncio.ensure_future(self._call())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        # One call at least, however busy the machine is.
        await until(lambda: bool(self.seconds) or self._task is None or self._task.done())
        if self._task.done():
            self._task.result()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def p99_ms(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)] * 1000

    def __str__(self) -> str:
        middle = sorted(self.seconds)[len(self.seconds) // 2] * 1000
        count = len(self.seconds)
        return f"{count} calls of a bystander: p50 {middle:.1f} ms, p99 {self.p99_ms:.1f} ms"
