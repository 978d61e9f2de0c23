"""Followed streams through a proxy that cuts, delays, doubles, drops and garbles."""

import asyncio

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.fault_proxy import Faults, fault_proxy
from tests.acceptance.remote import (
    WAYS,
    answer_of,
    ask,
    collected,
    folded,
    free_port,
    sdk_server,
    served,
    state_of,
)

from trunkline.clock import SystemClock
from trunkline.model.calls import ListTasksRequest
from trunkline.model.values import Task, TaskArtifactUpdateEvent, TaskState
from trunkline.remote import Limits, RemoteAgent, StreamItem, Target, connect

PIECES = 12
EXPECTED = "".join(f"{n} " for n in range(1, PIECES + 1))
AT_ONCE = 20
ALL = Faults(
    refuse=0.05,
    lose=0.05,
    cut=0.03,
    end=0.02,
    tear=0.03,
    double=0.1,
    drop=0.03,
    garble=0.03,
    delay=0.1,
)
# Without ids nobody can tell a doubled or a dropped event.
CUTS = Faults(cut=0.05, end=0.03, tear=0.05, garble=0.05, delay=0.1)


class QuickClock(SystemClock):
    """Waits a tenth of what it should between attempts."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 10)


def agent(url: str, way: tuple[str, str]) -> RemoteAgent:
    target = Target(url=url, transports=(way[0],), version=way[1])
    # Many failures are what this is about.
    limits = Limits(reconnects=30, attempts=10, circuit_failures=1000, call_s=30, idle_s=30)
    return connect(target, limits=limits, clock=QuickClock())


async def follow_many(
    peer: RemoteAgent, count: int, script: str = f"stream {PIECES}"
) -> list[list[StreamItem]]:
    room = asyncio.Semaphore(AT_ONCE)

    async def follow() -> list[StreamItem]:
        async with room:
            return await collected(peer.stream(ask(script)))

    return await asyncio.gather(*[follow() for _ in range(count)])


def check(items: list[StreamItem]) -> None:
    """Every piece once and in order, one task, and the end."""
    assert folded(items) == EXPECTED
    assert state_of(items[-1]) is TaskState.COMPLETED
    assert len({i.id if isinstance(i, Task) else i.task_id for i in items}) == 1


def check_exactly(items: list[StreamItem]) -> None:
    """Beyond that, nothing but what the gateway has in its journal, each once."""
    check(items)
    pieces = [i for i in items if isinstance(i, TaskArtifactUpdateEvent)]
    texts = [part.text for piece in pieces for part in piece.artifact.parts if part.text]
    assert len(texts) == len(set(texts))


async def run(make: Make, way: tuple[str, str], count: int, *, hides_ids: bool) -> None:
    faults = CUTS if hides_ids else ALL
    async with fault_proxy(faults, seed=count, hides_ids=hides_ids) as proxy:
        config = f'[server]\npublic_url = "{proxy.url}"\nmax_streams_per_principal = 1000'
        port = str(free_port())
        make(config).start("--port", port)
        proxy.upstream = f"http://127.0.0.1:{port}"
        async with agent(proxy.url, way) as peer:
            for items in await follow_many(peer, count, f"stream {PIECES} every 0.003"):
                (check if hides_ids else check_exactly)(items)
            sent = 0 if hides_ids else count
            for task in await asyncio.gather(*[peer.send(ask("say once")) for _ in range(sent)]):
                assert answer_of(task) == "once"
            total = (await peer.list(ListTasksRequest(page_size=1))).total_size
        assert total == count + sent, "a message was taken twice"
        wanted = [name for name in vars(faults) if getattr(faults, name)]
        assert [name for name in wanted if not proxy.done[name]] == []


@pytest.mark.parametrize("way", WAYS, ids=["-".join(way) for way in WAYS])
async def test_no_event_is_lost_or_doubled(make: Make, way: tuple[str, str]) -> None:
    await run(make, way, 75, hides_ids=False)


@pytest.mark.parametrize("way", WAYS[:2], ids=["-".join(way) for way in WAYS[:2]])
async def test_without_ids_the_task_itself_tells_what_was_missed(
    make: Make, way: tuple[str, str]
) -> None:
    await run(make, way, 40, hides_ids=True)


async def test_streams_of_a2a_sdk_survive_cuts() -> None:
    """Over every binding and version; it gives no ids, and its 0.3 no snapshot."""
    async with fault_proxy(CUTS, seed=3, hides_ids=True) as proxy:
        with served(*sdk_server()[:-1], "--url", proxy.url, "--port") as upstream:
            proxy.upstream = upstream
            for way in WAYS:
                async with agent(proxy.url, way) as peer:
                    for items in await follow_many(peer, 15):
                        assert folded(items) == "".join(f"{n} " for n in range(PIECES)), way
                        assert state_of(items[-1]) is TaskState.COMPLETED, way
        assert proxy.done["cut"] + proxy.done["tear"] > 3


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS, ids=["-".join(way) for way in WAYS])
async def test_no_event_of_a_thousand_streams_is_lost_or_doubled(
    make: Make, way: tuple[str, str]
) -> None:
    await run(make, way, 250, hides_ids=False)
