"""Due work of a node that dies, leaves or stalls: another node has it before the lease of its claim
would end."""

import asyncio
from collections.abc import Sequence

from tests.cluster.nodes import Nodes, nodes

from trunkline.ports.cluster import Times
from trunkline.ports.records import Add, Change, Key, Put, Record
from trunkline.runtime.due_work import LEASE_S, DueKind
from trunkline.testing import settle

REMINDER = Key("reminder.1", "alice", "tea")
SAID = Key("said.1", "", "")
# When the others have given a node up and looked for what it left.
GIVEN_UP_S = Times().lease_s + 2.0


class Reminders:
    """The handler of one node, which waits for its gate."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.gate = asyncio.Event()

    def due_kind(self) -> DueKind:
        return DueKind(name=REMINDER.kind, handle=self._say)

    async def _say(self, record: Record) -> Sequence[Change]:
        self.attempts.append(record.attempts)
        await self.gate.wait()
        return [Add(key=SAID, amount=1, at_most=9)]


async def _two(cluster: Nodes) -> tuple[Reminders, Reminders]:
    """Two nodes. The first one has claimed a reminder, and is at it."""
    first, second = Reminders(), Reminders()
    for reminders in (first, second):
        await cluster.add(due_kinds=[reminders.due_kind()]).open()
    second.gate.set()
    a, _ = cluster.worlds
    await a.store.change(Put(key=REMINDER, due_in_ms=0))
    a.runtime.due.wake()
    await settle()
    assert (first.attempts, second.attempts) == ([1], [])
    return first, second


async def _said(cluster: Nodes) -> int:
    record = await cluster.worlds[1].store.record(SAID)
    return 0 if record is None else record.count


async def test_due_work_of_a_dead_node_is_done_by_another() -> None:
    assert GIVEN_UP_S < LEASE_S
    async with nodes(0) as cluster:
        _, second = await _two(cluster)
        await cluster.kill(0)
        await cluster.clock.advance(GIVEN_UP_S)
        assert second.attempts == [2]
        assert await _said(cluster) == 1


async def test_due_work_of_a_node_that_stops_is_done_by_another_at_once() -> None:
    async with nodes(0) as cluster:
        _, second = await _two(cluster)
        await cluster.worlds[0].close()
        cluster.nodes[0].kill()
        # The clock stands still.
        await settle()
        assert second.attempts == [2]
        assert await _said(cluster) == 1


async def test_what_the_handler_of_a_zombie_commits_does_not_count() -> None:
    async with nodes(0) as cluster:
        first, second = await _two(cluster)
        cluster.nodes[0].pause()
        await cluster.clock.advance(GIVEN_UP_S)
        assert second.attempts == [2]
        cluster.nodes[0].resume()
        first.gate.set()
        await cluster.clock.advance(5)
        assert (first.attempts, second.attempts) == ([1], [2])
        assert await _said(cluster) == 1
