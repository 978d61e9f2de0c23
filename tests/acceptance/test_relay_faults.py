"""Streams through a relay whose connection to the gateway with the agent has every fault of a
network: each stream is complete and in order, or ends with an event that says why."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.relay_hosts import (
    ALICE_KEY,
    HOST_TOKEN,
    RELAY,
    AttachedHost,
    Caller,
    Echo,
    caller,
    request,
)
from tests.acceptance.relay_streams import (
    COMPLETE,
    JSON,
    LOST,
    Ended,
    Latencies,
    check,
    message,
    resume,
    stream,
)
from tests.acceptance.tcp_faults import tcp_faults

# One caller may have 128 requests at a host, so there are three of them.
KEYS = (ALICE_KEY, "bob-has-this-key", "carol-has-this-key")
THREE = RELAY + f'[auth.keys.bob]\nkey = "{KEYS[1]}"\n[auth.keys.carol]\nkey = "{KEYS[2]}"\n'
HOST = f"""
[relay]
url = "ws://127.0.0.1:{{port}}/agent"
tenant = "acme"
agent_id = "helper"
token = "{HOST_TOKEN}"
mode = "relay"
transport = "{{transport}}"
[agents."test/scripted"]
name = "Scripted"
default = true
max_concurrency = 0
backend = {{{{ kind = "scripted" }}}}
"""


@contextmanager
def fast_gateway(folder: Path, config: str, factor: int, *, ahead_s: int = 0) -> Iterator[Gateway]:
    folder.mkdir()
    with gateway(folder, config) as made:
        made.module = "tests.acceptance.fast_clock"
        made.environment = {"CLOCK_FACTOR": str(factor), "CLOCK_AHEAD_S": str(ahead_s)}
        made.start()
        yield made


class Memory:
    """The most memory that gateways have held, beyond what they held at first."""

    def __init__(self, *gateways: Gateway) -> None:
        self._gateways = gateways
        self._first = [each.resident_bytes() for each in gateways]
        self.most = [0] * len(gateways)
        self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            for number, each in enumerate(self._gateways):
                grown = each.resident_bytes() - self._first[number]
                self.most[number] = max(self.most[number], grown)
            await asyncio.sleep(0.05)

    def stop(self) -> list[float]:
        self._task.cancel()
        return [bytes / 1e6 for bytes in self.most]


async def attached(port: int) -> None:
    async with caller(port) as client:

        async def is_there() -> bool:
            return (await client.call(request(below="/tasks", more=JSON)))[0] == 200

        await eventually(is_there)


async def _is_idle(port: int) -> bool:
    """Whether nothing is left of the requests."""
    async with caller(port) as client:
        _, metrics = await client.call(request().replace(b"/t/acme/a2a/helper", b"/metrics"))
    return b"\ntrunkline_relay_requests 0.0\n" in metrics


async def never_read(stack: AsyncExitStack, port: int, key: str, text: str) -> Caller:
    client = await stack.enter_async_context(caller(port))
    await client.send(request(message(text), key=key, below="/message:stream", more=JSON))
    client.pause()
    return client


async def storm(
    folder: Path,
    *,
    streams: int,
    never: int,
    pieces: int,
    faulty_s: float,
    factor: int,
    transport: str = "websocket",
) -> Counter[str]:
    """Every stream takes about as long as the connection has faults."""
    every_s = faulty_s * factor / pieces
    text = f"stream {pieces} of 400 every {every_s:.3f}"
    expected = "".join(f"{number} ".rjust(400, ".") for number in range(1, pieces + 1))
    async with AsyncExitStack() as stack:
        relay = stack.enter_context(fast_gateway(folder / "relay", THREE, factor))
        proxy = await stack.enter_async_context(tcp_faults(relay.port, seed=streams))
        proxy.is_faulty = False
        # Neither needs to know what time it is for the other one.
        day_s = 24 * 3600
        config = HOST.format(port=proxy.port, transport=transport)
        host = stack.enter_context(fast_gateway(folder / "host", config, factor, ahead_s=day_s))
        good = AttachedHost(relay.port, Echo(), agent="good")
        stack.push_async_callback(good.close)
        await good.attached()
        await attached(relay.port)
        memory = Memory(relay, host)
        silent: list[Caller] = []
        for number in range(never):
            large = "stream 250 of 4000"
            silent.append(await never_read(stack, relay.port, KEYS[number % 3], large))
        proxy.is_faulty = True
        began = time.monotonic()
        async with Latencies(relay.port, "good") as latencies:
            reading = [
                asyncio.ensure_future(stream(relay.port, text, key=KEYS[number % 3]))
                for number in range(streams)
            ]
            await asyncio.sleep(0.2)
            # The connection that the host has is without faults.
            await proxy.cut()
            await asyncio.sleep(faulty_s)
            proxy.is_faulty = False
            await proxy.cut()
            async with asyncio.timeout(60):
                ended = await asyncio.gather(*reading)
        took_s = time.monotonic() - began
        for each in ended:
            check(each, text=expected)
        outcomes = Counter(each.how for each in ended)
        lost = [(number, each) for number, each in enumerate(ended) if each.how == LOST]
        await go_on(relay.port, lost, expected)
        for client in silent:
            client.close()
        await eventually(partial(_is_idle, relay.port))
        relay_mb, host_mb = memory.stop()
        for side in (relay, host):
            assert side.process.poll() is None
            side.check_log()
        print(
            f"\n{streams} streams of {pieces} events, {never} clients that never read, "
            f"{took_s:.1f} s, faults {dict(proxy.done)}: {dict(outcomes)}, all {len(lost)} lost "
            f"ones resumed; memory of the relay +{relay_mb:.0f} MB, of the host +{host_mb:.0f} MB; "
            f"{latencies}"
        )
    assert not latencies.failed
    # A window of each stream, and of an event that is not complete.
    assert relay_mb < 40
    # What the same tasks take without a relay: 7 MB for one of 250 long pieces.
    assert host_mb < 60 + 9 * never + streams
    return outcomes


async def go_on(port: int, lost: list[tuple[int, Ended]], expected: str) -> None:
    """Streams that were lost go on behind their last event, because their tasks did."""
    for number, each in lost:
        if not each.ids:
            continue
        await eventually(partial(_is_complete, port, each, KEYS[number % 3]))
        check(each, text=expected)


async def _is_complete(port: int, lost: Ended, key: str) -> bool:
    return (await resume(port, lost, key=key)).how == COMPLETE


async def test_streams_survive_the_faults_of_a_network_or_say_why_not(tmp_path: Path) -> None:
    outcomes = await storm(tmp_path, streams=30, never=3, pieces=40, faulty_s=1.5, factor=40)
    assert sum(outcomes.values()) == 30


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
async def test_so_do_two_hundred(tmp_path: Path, seed: int) -> None:
    streams = 200 + seed
    outcomes = await storm(tmp_path, streams=streams, never=20, pieces=100, faulty_s=15, factor=20)
    assert sum(outcomes.values()) == streams


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
async def test_so_do_those_of_a_gateway_that_polls(tmp_path: Path, seed: int) -> None:
    outcomes = await storm(
        tmp_path,
        streams=200 + seed,
        never=20,
        pieces=100,
        faulty_s=15,
        factor=20,
        transport="long-poll",
    )
    assert sum(outcomes.values()) == 200 + seed
