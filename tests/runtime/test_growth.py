"""What grows with the work, and what does not."""

import subprocess
import sys
import textwrap
import time

import pytest
from tests.runtime.world import world

from trunkline.ports.store import Append
from trunkline.stores.memory import MemoryStore

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover


class CountingStore(MemoryStore):
    """Weighs what it is asked to write."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0
        self.entry_bytes = 0
        self.snapshot_bytes = 0

    def _apply(self, append: Append):  # type: ignore[no-untyped-def]
        self.appends += 1
        self.entry_bytes += sum(len(entry.body) for entry in append.entries)
        if append.snapshot is not None:
            self.snapshot_bytes += len(append.snapshot.task) + len(append.snapshot.artifacts)
        return super()._apply(append)


async def weigh(deltas: int, preset_name: str) -> tuple[int, int]:
    store = CountingStore()
    async with world(store=store, preset_name=preset_name, queued_send="wait") as w:
        # The tool makes it a task, wherever it might be a message.
        await w.send(f"tool grep; stream {deltas}")
    return store.entry_bytes, store.snapshot_bytes


@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound", "openclaw-design"])
async def test_a_stream_writes_in_proportion_to_its_length(preset_name: str) -> None:
    small, large = await weigh(200, preset_name), await weigh(2000, preset_name)
    # Ten times the deltas; the numbers in them have a digit more.
    assert large[0] < 11 * small[0]
    # One snapshot at the end, however long it took.
    assert large[1] < 15 * small[1]


async def test_finished_tasks_leave_the_memory() -> None:
    async with world() as w:
        for number in range(50):
            await w.send("stream 3; artifact text a b", context=f"c-{number % 7}")
            reading = await w.stream("say one")
            await reading.all()
            asked = await w.send("ask more?", key=f"k-{number}", id=f"k-{number}")
            await w.cancel(asked.id)
        assert len(w.runtime.registry) == 0
        assert not w.runtime.runs.running
        assert not w.runtime.runs.tasks
        assert not w.service.readers.subscriptions
        assert len(w.runtime.keys) == 0
        assert not w.agent.lanes._heads
        assert not w.agent.lanes._behind


@pytest.mark.full
@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound", "openclaw-design"])
@pytest.mark.parametrize("first", ["tool grep; ", ""], ids=["task", "maybe-a-message"])
async def test_the_time_of_a_stream_is_in_proportion_to_its_length(
    preset_name: str, first: str
) -> None:
    async def cpu_s(deltas: int) -> float:
        best = float("inf")
        for _ in range(3):
            async with world(preset_name=preset_name) as w:
                began = time.process_time()
                reading = await w.stream(f"{first}stream {deltas}")
                await reading.all()
                best = min(best, time.process_time() - began)
        return best

    await cpu_s(200)
    short, middle, long = [await cpu_s(deltas) for deltas in (200, 1000, 2000)]
    # Quadratic would be 25 and 100 times as much.
    assert middle < 10 * short
    assert long < 20 * short


_FINISHES_MANY = """
    import asyncio, gc, resource, sys, tempfile
    from pathlib import Path

    from trunkline.model.principal import EVERYTHING, Principal
    from trunkline.model.calls import Caller, SendMessageRequest
    from trunkline.model.values import Message, Part, Role
    from trunkline.backends.echo.backend import EchoBackend
    from trunkline.runtime.agents import PublishedAgent
    from trunkline.clock import SystemClock, Uuid7Ids
    from trunkline.runtime.runtime import Runtime
    from trunkline.stores.sqlite import SqliteStore

    def rss():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    async def main():
        folder = Path(sys.argv[1])
        agent = PublishedAgent(handle="test/echo", backend=EchoBackend())
        store = SqliteStore(folder / "tasks.db", synchronous="normal")
        runtime = Runtime(store=store, clock=SystemClock(), ids=Uuid7Ids(), agents=[agent])
        await runtime.open()
        caller = Caller(principal=Principal(id="alice", grants=EVERYTHING))

        async def finish(count):
            for number in range(count):
                message = Message(message_id="m", role=Role.USER, parts=(Part(text="hello"),))
                await runtime.service.send(agent, caller, SendMessageRequest(message=message))

        async def many(count):
            await asyncio.gather(*(finish(count // 50) for _ in range(50)))

        await many(20_000)
        before = rss()
        await many(50_000)
        print(rss() - before, len(runtime.registry))
        await runtime.close()

    asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.timeout(600)
def test_fifty_thousand_finished_tasks_cost_next_to_no_memory(tmp_path: object) -> None:
    script = textwrap.dedent(_FINISHES_MANY)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    grown, in_memory = map(int, done.stdout.split())
    assert in_memory == 0
    assert grown <= 50_000 * 1024
