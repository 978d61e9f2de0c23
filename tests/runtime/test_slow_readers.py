"""A reader that does not read costs nobody else anything, on every store."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.runtime.stores import STORES
from tests.runtime.world import world

from trunkline.model.events import Entry
from trunkline.model.values import TaskState
from trunkline.runtime.fanout import MAX_PENDING_BYTES, CutOff, Shares, Subscription
from trunkline.testing import settle

CHUNK_BYTES = 100_000
# More than a reader may hold, so that entries come after the reader was cut off.
CHUNKS = 3 * MAX_PENDING_BYTES // (2 * CHUNK_BYTES)
CHATTY = f"stream {CHUNKS} of {CHUNK_BYTES}"


@pytest.mark.parametrize("kind", STORES)
async def test_other_sends_complete_while_nobody_reads(kind: str, tmp_path: Path) -> None:
    async with world(store=STORES[kind](tmp_path)) as w:
        unread = [await w.stream(CHATTY) for _ in range(2)]
        chatty = w.runtime.registry.all()
        # Each needs commits of its own, before, while and after the readers are cut off.
        for number in range(20):
            task = await w.send(f"say {number}")
            assert task.status.state is TaskState.COMPLETED
        for live in chatty:
            await w.runtime.journal.settled(live)
            assert live.committed_state is TaskState.COMPLETED
        for reading in unread:
            last = (await reading.all())[-1]
            assert isinstance(last, CutOff)
            assert last.reason == "slow reader"


async def test_a_reader_that_was_cut_off_is_detached_from_its_task() -> None:
    async with world(stream_buffer=3) as w:
        await w.stream("stream 5; wait a; stream 5; wait b")
        await w.gates.reached("a")
        await settle()
        [live] = w.runtime.registry.all()
        assert not live.subscriptions
        w.gates.open("a")
        await w.gates.reached("b")
        w.gates.open("b")
        await w.ended(live.task_id)


class Broken(Subscription):
    """Raises when it is told of a commit."""

    def push(self, entries: Sequence[Entry], shares: Shares | None = None) -> bool:
        raise RuntimeError("this reader is broken")


@pytest.mark.parametrize("kind", STORES)
async def test_a_reader_that_raises_harms_neither_its_task_nor_others(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(store=STORES[kind](tmp_path)) as w:
        task = await w.submit("wait a; say done")
        reading = await w.follow(task.id)
        [live] = w.runtime.registry.all()
        # Some of them come before the other reader, in whatever order they are told.
        several = [Broken(closes_on=frozenset(), limit=10) for _ in range(8)]
        live.subscriptions |= set(several)
        w.gates.open("a")
        with caplog.at_level(logging.ERROR, "trunkline.journal"):
            await reading.all()
        assert reading.entries[-1].seq == len(await w.journal(task.id))
        for broken in several:
            assert broken.is_ended
            assert [type(item) for item in await broken.next()] == [CutOff]
        assert "a reader failed" in caplog.text
        assert (await w.send("say after")).status.state is TaskState.COMPLETED


@pytest.mark.parametrize("kind", STORES)
async def test_a_callback_that_raises_stops_no_commit(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("this callback is broken")

    async with world(store=STORES[kind](tmp_path)) as w:
        task = await w.submit("wait a; say done")
        [live] = w.runtime.registry.all()
        live.once_durable.append((live.seq + 1, broken))
        w.gates.open("a")
        assert (await w.ended(task.id)).status.state is TaskState.COMPLETED
        assert "a callback failed" in caplog.text
        assert (await w.send("say after")).status.state is TaskState.COMPLETED
