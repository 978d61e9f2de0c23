"""The number of Python calls of a request, from the bytes of its connection to its response.

The gateway is the real one, with SQLite, on a real connection of the loopback interface, and a
scripted agent that runs on the loop like any other coroutine. `sys.setprofile` reports each entry
into a Python function or coroutine, also when a coroutine is resumed; the test counts those in
files of `trunkline`, the scripted agent and the clock that stands still among them. Functions in C
and the commit thread are not counted. A few requests come first, so that caches are filled, and
the connection is kept open. Some calls happen by the clock, such as a look at the database's file
before a commit, so the smallest count of several requests is the cost of one. It does not depend
on the machine: a change that makes the path of a request longer shows here, not only in `bench`.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from tests.bindings.world import KEYS, open_world
from tests.sockets.handlers import post
from tests.sockets.peer import Peer, serving

import trunkline

BLOCKING_SEND = 140
STREAM_OF_THREE_DELTAS = 346

REQUESTS = 30
ROOT = os.path.dirname(trunkline.__file__)


class Calls:
    """The calls of one block."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> "Calls":
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            self.counts[f"{code.co_filename[len(ROOT) + 1 :]}: {code.co_qualname}"] += 1


def call(method: str, number: int, text: str) -> bytes:
    message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}}
    return post(
        json.dumps(body).encode(),
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        f"Authorization: Bearer {KEYS['alice']}",
        path="/a2a/jsonrpc",
    )


async def ask(peer: Peer, data: bytes) -> bytes:
    peer.send(data)
    status, _, body = await peer.response()
    assert status == 200
    return body


@pytest.mark.parametrize(
    ("method", "text", "events", "budget"),
    [
        ("SendMessage", "hello", 0, BLOCKING_SEND),
        ("SendStreamingMessage", "stream 3", 6, STREAM_OF_THREE_DELTAS),
    ],
    ids=["blocking-send", "stream-of-three-deltas"],
)
async def test_a_request_stays_within_its_budget_of_python_calls(
    tmp_path: Path, method: str, text: str, events: int, budget: int
) -> None:
    async with open_world(database=tmp_path / "tasks.db") as world:
        world.agent.is_pure = events == 0
        async with serving(world.gateway.application.serve) as server:
            peer = await server.peer()
            for number in range(10):
                body = await ask(peer, call(method, number, text))
                assert body.count(b"data: ") == events, body
            requests = [call(method, number, text) for number in range(100, 100 + REQUESTS)]
            counts = []
            for data in requests:
                with Calls() as calls:
                    await ask(peer, data)
                counts.append(calls.counts)
    least = min(counts, key=Counter.total)
    assert least.total() <= budget, least.most_common()
