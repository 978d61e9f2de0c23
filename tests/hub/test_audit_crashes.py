"""The audit across crashes: no attempt that was committed is missing, and none is there twice."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import pytest
from tests.hub.audit_world import Audited, audited, rows_of, said, sound

from trunkline.background import BackgroundTasks
from trunkline.hub.audit_chain import GONE, OUTBOX, SEGMENT, head_key, segment_id
from trunkline.hub.audit_keeper import DEAD_AFTER_MS, NODE
from trunkline.hub.audit_reading import AuditReader
from trunkline.hub.audit_rows import Row, encode_row
from trunkline.hub.audit_verify import verify
from trunkline.hub.audit_writer import MAX_WAITING
from trunkline.model.errors import StoreUnusable
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.store import Append, OperatorQuery, Settled, Store
from trunkline.runtime.due_work import DueKind, DueWork
from trunkline.runtime.outbox import MainStore
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, FakeClock, SequentialIds, settle
from trunkline.testing.passing_store import PassingStore
from trunkline.testing.shared_store import SharedStore

T = TypeVar("T")


async def tasks_of(store: Store) -> Counter[str]:
    page = await store.list_all(OperatorQuery(limit=1000))
    return Counter(task.task_id for task in page.tasks)


async def audited_tasks(store: Store) -> Counter[str]:
    return Counter(row.task_id for row in await rows_of(store) if row.kind == "attempt")


async def outcomes(store: Store) -> Counter[str]:
    return Counter(row.id for row in await rows_of(store) if row.kind == "outcome")


async def attempts(store: Store) -> Counter[str]:
    return Counter(row.id for row in await rows_of(store) if row.kind == "attempt")


async def a_busy_moment(a: Audited) -> None:
    await a.open()
    for _ in range(3):
        await asyncio.gather(*[a.world.send(text) for text in ("say a", "fail b", "say c")])
        await a.writer.flush()
        a.trail.note("user:bob", "sign_in", "user:bob")
    await a.world.send("say d")
    await a.keeper.sweep()
    await a.close()


async def number_of_calls(store: Store) -> int:
    counting = CrashingStore(store, crash_on=0)
    await a_busy_moment(Audited(counting))
    return counting.calls


async def died(store: CrashingStore) -> None:
    await store.crashed.wait()


async def crash(inner: Store, number: int, when: Literal["before", "after"]) -> None:
    await inner.open()
    store = CrashingStore(inner, crash_on=number, when=when)
    one = Audited(store, node="one")
    process = BackgroundTasks("process")
    working = process.start(a_busy_moment(one), name="work")
    crashed = process.start(died(store), name="crash")
    await asyncio.wait({working, crashed}, return_when=asyncio.FIRST_COMPLETED)
    await process.close()
    await one.vanish()
    await settle()
    two = Audited(inner, node="two")
    await two.open()
    await two.world.send("say e")
    await two.writer.flush()
    tasks = await tasks_of(inner)
    assert await audited_tasks(inner) == tasks, f"call {number}, {when}"
    assert await outcomes(inner) == await attempts(inner), f"call {number}, {when}"
    assert await inner.records(OUTBOX, limit=9) == ()
    assert await inner.records(GONE, limit=9) == ()
    await sound(inner)
    report = await two.report()
    assert report.summary.total == sum(tasks.values()), f"call {number}, {when}"
    await two.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_any_call_of_the_store(when: Literal["before", "after"]) -> None:
    first = MemoryStore()
    await first.open()
    calls = await number_of_calls(first)
    assert calls > 20
    for number in range(1, calls + 1):
        await crash(MemoryStore(), number, when)


class FlakyStore(PassingStore):
    """Fails for a time; a change may have been made all the same."""

    keeps_large_values = False
    problem = None
    is_away = False
    makes_changes = False

    async def open(self) -> None:
        await self.inner.open()

    async def check(self) -> None:
        await self.inner.check()

    async def close(self) -> None:
        await self.inner.close()

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        self.inner.submit(appends)

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        if not self.is_away:
            return await super()._pass_on(call)
        if self.makes_changes:
            await super()._pass_on(call)
        raise StoreUnusable("away")


@pytest.mark.parametrize("makes_changes", [False, True])
async def test_a_store_that_is_away_delays_the_audit(
    makes_changes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Tasks are committed meanwhile, as those of an agent with a store of its own would be."""
    clock = FakeClock()
    store = FlakyStore(MemoryStore(clock))
    async with audited(store, clock=clock) as a:
        a.trail.note("user:bob", "sign_in", "user:bob")
        store.is_away, store.makes_changes = True, makes_changes
        for second in range(60):
            # Reads of the runtime fail as well, so its tasks go straight to the store.
            store.is_away = False
            await a.world.send(f"say {second}")
            store.is_away = True
            await clock.advance(1)
        assert len([each for each in caplog.records if each.name == "trunkline.audit"]) == 1
        store.is_away = False
        await clock.advance(5)
        assert await audited_tasks(store) == await tasks_of(store)
        rows = await rows_of(store)
        assert [row.kind for row in rows].count("change") == 1
        assert [row.outcome for row in rows if row.kind == "outcome"] == ["ok"] * 60
        assert (await a.report()).summary.ok == 60
        await sound(store)


async def test_rows_in_memory_are_bounded_and_their_loss_is_a_row() -> None:
    store = FlakyStore(MemoryStore())
    async with audited(store) as a:
        store.is_away = True
        for number in range(MAX_WAITING + 10):
            a.trail.note("user:bob", "sign_in", f"user:{number}")
        assert a.writer.waiting == MAX_WAITING
        store.is_away = False
        await a.writer.flush()
        rows = await rows_of(store)
        assert len(rows) == MAX_WAITING + 1
        assert [(row.kind, row.count) for row in rows if row.kind != "change"] == [("lost", 10)]
        await sound(store)


def node_of(store: SharedStore, clock: FakeClock, name: str) -> Audited:
    node = store.node()
    return Audited(node, clock=clock, node=name, cluster=node)


async def test_another_node_takes_over_what_a_dead_one_has_left() -> None:
    clock = FakeClock()
    store = SharedStore(clock)
    one, two = node_of(store, clock, "one"), node_of(store, clock, "two")
    await one.open()
    await two.open()
    await one.world.send("say a", context="c")
    await two.world.send("say b", context="d")
    await clock.advance(1)
    left = await one.world.send("say c", context="c")
    await one.vanish()
    assert len(await store.records(OUTBOX, limit=9)) == 1
    # Its chain is its own for as long as it may still live.
    await two.keeper.sweep()
    assert len(await store.records(OUTBOX, limit=9)) == 1
    due = DueWork(
        store=store, clock=clock, kinds=[DueKind(name=NODE, handle=two.keeper.presume_dead)]
    )
    due.start()
    await clock.advance(DEAD_AFTER_MS / 1000 + 40)
    assert await store.records(OUTBOX, limit=9) == ()
    assert await audited_tasks(store) == await tasks_of(store)
    recovered = [row for row in await rows_of(store) if row.recovered_from]
    assert said(recovered) == [("attempt", ""), ("outcome", "interrupted")]
    assert {row.recovered_from for row in recovered} == {"chain-one-000001"}
    assert {row.task_id for row in recovered} == {left.id}
    await sound(store)
    await due.close()
    await two.close()


async def test_a_node_that_was_taken_for_dead_goes_on_in_a_new_chain() -> None:
    clock = FakeClock()
    store = SharedStore(clock)
    one, two = node_of(store, clock, "one"), node_of(store, clock, "two")
    await one.open()
    await two.open()
    await one.world.send("say a", context="c")
    sign = await store.record(Key(NODE, "chain-one-000001", ""))
    assert sign is not None
    await store.change(*await two.keeper.presume_dead(sign))
    await two.keeper.sweep()
    # Its outcome waits for an attempt that is in the chain of the other node now.
    await one.world.send("say b", context="c")
    await one.writer.flush()
    await two.keeper.sweep()
    await one.writer.flush()
    await clock.advance(30)
    assert await audited_tasks(store) == await tasks_of(store)
    found = await sound(store)
    assert found.chains == 3
    await one.close()
    await two.close()
    await sound(store)


async def test_the_attempts_of_an_agent_with_a_store_of_its_own_come_to_the_main_store() -> None:
    """Also those that come after the chain of their node was closed."""
    clock = FakeClock()
    main, own = MemoryStore(clock), MemoryStore(clock)
    await main.open()

    async def opened() -> Store:
        return main

    way = MainStore(open=opened, has_tasks=False, ids=SequentialIds("way"))
    one = Audited(own, clock=clock, node="one", way=way)
    await one.world.open()
    await one.writer.open(main)
    await one.world.send("say a")
    await one.world.send("say b")
    await one.writer.close()
    assert await audited_tasks(main) == Counter()
    # The due work of its store goes on, as after the next start.
    due = DueWork(store=own, clock=clock, kinds=way.due_kinds())
    due.start()
    await clock.advance(3)
    async with audited(main, clock=clock, node="two"):
        assert await audited_tasks(main) == await tasks_of(own)
        # Their outcomes were written when the first node stopped.
        assert await outcomes(main) == await attempts(main)
        assert {row.outcome for row in await rows_of(main) if row.kind == "outcome"} == {"ok"}
        await sound(main)
    await due.close()
    await one.world.close()


async def test_an_attempt_that_comes_late_from_another_store_waits_for_no_other_one() -> None:
    clock = FakeClock()
    main, own = MemoryStore(clock), MemoryStore(clock)
    await main.open()

    async def opened() -> Store:
        return main

    way = MainStore(open=opened, has_tasks=False, ids=SequentialIds("way"))
    one = Audited(own, clock=clock, way=way)
    await one.world.open()
    await one.writer.open(main)
    await one.keeper.open(is_shared=False)
    running = await one.world.submit("wait go")
    # By then the writer has found nothing.
    await clock.advance(1)
    due = DueWork(store=own, clock=clock, kinds=way.due_kinds())
    due.start()
    await clock.advance(8)
    assert await audited_tasks(main) == Counter([running.id])
    await due.close()
    await one.close()


async def test_rows_that_another_node_took_over_first_are_no_sign_of_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with audited() as a:
        chain = a.writer.chain
        for number in range(5):
            taken = Delete(key=Key(OUTBOX, "chain-gone", f"{number}"), expected=1)
            assert not await chain.append([b'{"kind":"change"}'], taken)
        assert await chain.append([encode_row(Row(kind="change", at_ms=1))])
        assert chain.chain == "chain-one-000001"
        assert "cannot be extended" not in caplog.text
        await sound(a.store)


async def test_rows_that_were_put_behind_the_end_make_the_node_begin_a_new_chain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with audited() as a:
        await a.store.change(Put(key=Key(SEGMENT, "chain-one-000001", segment_id(1)), body=b"x"))
        await a.world.send("say hi")
        await a.writer.flush()
        assert a.writer.chain.chain == "chain-one-000002"
        assert "the audit chain cannot be extended" in caplog.text
        faults = (await verify(a.store)).faults
        assert [fault.chain for fault in faults] == ["chain-one-000001"]


async def test_a_head_that_is_damaged_while_its_node_runs_stops_nothing() -> None:
    async with audited() as a:
        await a.world.send("say a")
        await a.writer.flush()
        await a.store.change(Put(key=head_key("chain-one-000001"), body=b"damaged"))
        await a.world.send("say b")
        await a.writer.flush()
        await a.keeper.sweep()
        assert await audited_tasks_in("chain-one-000002", a.store) == 1
        faults = (await verify(a.store)).faults
        assert ("chain-one-000001", "the head is damaged") in [(f.chain, f.what) for f in faults]


async def audited_tasks_in(chain: str, store: Store) -> int:
    found = [line async for line in AuditReader(store).rows_of(chain, after=0)]
    return [row.kind for row in found].count("attempt")
