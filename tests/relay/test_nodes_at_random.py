"""Streams over two relays whose connections, hosts and store fail at random: each is complete and
in order, or ends with the reason, and no request runs twice."""

import random
from collections import Counter
from typing import Any

import pytest
from tests.relay.nodes import NodeWorld, RelayNodes, relay_nodes
from tests.relay.world import Get

from trunkline.background import BackgroundTasks
from trunkline.testing import settle

# Runs long, over lines that other tests cover.
pytestmark = pytest.mark.no_cover

EVENTS = 30


class Counting:
    """Streams the numbers from 1, some each second."""

    def __init__(self, nodes: RelayNodes) -> None:
        self.runs: Counter[str] = Counter()
        self._clock = nodes.clock
        self._chance = random.Random(1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        self.runs[scope["query_string"].decode()] += 1
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number in range(1, EVENTS + 1):
            await self._clock.sleep(self._chance.choice((0, 0, 0.1, 1)))
            data = b"data: %d %b\n\n" % (number, b"x" * self._chance.choice((0, 10, 9000)))
            is_last = number == EVENTS
            await send({"type": "http.response.body", "body": data, "more_body": not is_last})


class Client:
    def __init__(self, app: Counting) -> None:
        self.outcomes: Counter[str] = Counter()
        self._app = app
        self._number = 0

    async def call(self, world: NodeWorld) -> None:
        self._number += 1
        name = f"n={self._number}"
        http = Get(method="POST", body=b"{}").http
        http.query = name
        answer = await world.send(http)
        runs = self._app.runs[name]
        assert runs <= 1
        if answer.status != 200:
            # 503 says that nothing has begun, and 502 that it is unknown.
            assert answer.status in (502, 503), answer
            assert runs == 0 or answer.status == 502
            self.outcomes[str(answer.status)] += 1
            return
        events = answer.body.split(b"\n\n")[:-1]
        is_lost = b"AGENT_LOST" in events[-1]
        numbers = [int(event.split()[1]) for event in events[: -1 if is_lost else None]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert is_lost or len(numbers) == EVENTS
        self.outcomes["lost" if is_lost else "complete"] += 1


def disturb(nodes: RelayNodes, chance: random.Random) -> None:
    world = chance.choice(nodes.all)
    match chance.choice(("hop", "hop", "host", "move", "store", "notices", "", "")):
        case "hop":
            world.hop_wire.cut()
        case "host":
            world.wire.cut()
        case "move":
            host = nodes[0].hosts[0]
            host._links[0]._dial = world.wire.dial
            for each in nodes.all:
                each.wire.cut()
        case "store":
            for each in nodes.all:
                each.store.is_cut_off = each is world and not each.store.is_cut_off
        case "notices":
            is_lost = chance.random() < 0.5
            nodes.store.loses_notice = lambda: is_lost
        case _:
            return


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 60))]
)
async def test_streams_are_complete_or_say_why(seed: int) -> None:
    chance = random.Random(seed)
    async with relay_nodes() as nodes:
        nodes.store.rounds = lambda: chance.randrange(4)
        app = Counting(nodes)
        await nodes[0].attach(app)
        client, calls = Client(app), BackgroundTasks("calls")
        for _ in range(40):
            for _ in range(chance.randrange(3)):
                calls.spawn(client.call(chance.choice(nodes.all)), name="call")
            await settle()
            disturb(nodes, chance)
            await nodes.clock.advance(chance.choice((0.01, 0.3, 1.5)))
        for world in nodes.all:
            world.store.is_cut_off = False
        nodes.store.loses_notice = lambda: False
        while len(calls):
            await nodes.clock.advance(5)
        # All is well again, once the host has tried once more: it waits for up to a minute.
        for _ in range(13):
            await nodes.clock.advance(5)
        for world in nodes.all:
            check = calls.start(client.call(world), name="call")
            before = client.outcomes["complete"]
            while not check.done():
                await nodes.clock.advance(5)
            await check
            assert client.outcomes["complete"] == before + 1
        print(client.outcomes)
        assert not any(hop.session.streams for world in nodes.all for hop in world.node.hops)
        assert all(world.relay.requests == 0 for world in nodes.all)
