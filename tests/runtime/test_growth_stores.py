"""Twice the stream costs twice the work, on every store (D9).

Work is counted, not timed: bytes handed to the store, bytes written to the disk, and calls of
functions, whatever thread makes them.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.runtime.stores import LOCAL
from tests.runtime.world import world

from trunkline.model.events import Entry
from trunkline.model.outputs import Output, Text
from trunkline.model.values import TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Item

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover

IO = Path("/proc/self/io")
# How many deltas make a commit.
STEP = 20
TIMES = 2.2


class Work(Struct):
    handed: int = 0
    written: int = 0
    calls: int = 0


class Paced:
    """Streams so many deltas; the next ones come when the reader has those before.

    So there are as many commits as steps, however fast the store is.
    """

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas
        self._read = asyncio.Semaphore(0)

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        for number in range(self._deltas):
            yield Text("word ")
            if number % STEP == STEP - 1:
                for _ in range(STEP):
                    await self._read.acquire()

    def has_read(self, count: int) -> None:
        for _ in range(count):
            self._read.release()

    async def cancel(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


@contextmanager
def counted(store: Store) -> Iterator[Work]:
    work = Work()
    submit = store.submit

    def weigh(appends: Any) -> None:
        for append, _ in appends:
            work.handed += sum(len(entry.body) for entry in append.entries)
            if append.snapshot is not None:
                work.handed += len(append.snapshot.task) + len(append.snapshot.artifacts)
        submit(appends)

    def count(frame: object, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            work.calls += 1

    store.submit = weigh  # type: ignore[method-assign]
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def written() -> int:
    """Bytes that this process has written so far, where the system counts them."""
    if not IO.exists():
        return 0
    return int(dict(line.split(": ") for line in IO.read_text().splitlines())["wchar"])


def has_record(folder: Path) -> bool:
    return any(folder.rglob("*.json"))


def deltas_in(items: list[Item]) -> int:
    """Pieces of text, wherever the preset has them."""
    events = [item.public for item in items if isinstance(item, Entry)]
    return sum(
        isinstance(event, TaskArtifactUpdateEvent)
        or (isinstance(event, TaskStatusUpdateEvent) and event.status.message is not None)
        for event in events
    )


async def cost(kind: str, folder: Path, preset_name: str, deltas: int) -> Work:
    store, paced = LOCAL[kind](folder), Paced(deltas)
    before = written()
    with counted(store) as work:
        async with world(
            store=store, backend=paced, preset_name=preset_name, agent_style="task-generating"
        ) as w:
            reading = await w.stream("go")
            while items := await reading.read():
                paced.has_read(deltas_in(items))
            sys.setprofile(None)  # waiting is no work
            # The record of a task comes a moment after its end. One that is on its way when
            # the store closes is written once more.
            async with asyncio.timeout(10):
                while kind == "json-file" and not has_record(folder):
                    await w.clock.advance(0)
            work.written = written() - before
    assert deltas_in(reading.items) >= deltas
    return work


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound"])
async def test_d9_twice_the_deltas_cost_twice_the_work(
    kind: str, preset_name: str, tmp_path: Path
) -> None:
    short, long = [
        await cost(kind, tmp_path / str(deltas), preset_name, deltas) for deltas in (1000, 2000)
    ]
    assert 1.9 * short.handed < long.handed <= TIMES * short.handed
    # What a process writes beside a store in memory is not the store's doing.
    assert kind == "memory" or long.written <= TIMES * short.written
    assert long.calls <= TIMES * short.calls
