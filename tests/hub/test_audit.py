"""The audit: every attempt is a row, chained in the main store, whatever happens in between."""

import asyncio
from collections.abc import Callable

import pytest
from tests.hub.audit_world import Audited, audited, rows_of, said, sound
from tests.runtime.world import ALICE, BOB

from trunkline.hub.audit_chain import OUTBOX
from trunkline.hub.audit_rows import Row
from trunkline.hub.audit_writer import FLUSH_S, HOLD_S, MAX_BATCH
from trunkline.hub.redaction import Redaction
from trunkline.model.calls import Caller, Operation
from trunkline.model.errors import PermissionDenied
from trunkline.model.principal import Grant, Principal
from trunkline.ports.gate import Admission
from trunkline.ports.records import Add, Group, Key
from trunkline.ports.store import Store

BUDGET = Key("budget.1", "test/agent", "today")


async def test_an_attempt_and_its_outcome_are_rows(make_store: Callable[[], Store]) -> None:
    store = make_store()
    async with audited(store) as a:
        task = await a.world.send("say hi", context="c")
        await a.world.send("fail because")
        await a.world.send("ask which?")
        await a.writer.flush()
        rows = await a.rows()
        assert sorted(said(rows)) == [
            ("attempt", ""),
            ("attempt", ""),
            ("attempt", ""),
            ("outcome", "failed"),
            ("outcome", "ok"),
            ("outcome", "ok"),
        ]
        assert [row.n for row in rows] == [1, 2, 3, 4, 5, 6]
        attempt = rows[0]
        assert (attempt.who, attempt.agent) == ("alice", "test/agent")
        assert (attempt.task_id, attempt.context_id, attempt.bytes_in) == (task.id, "c", 6)
        assert attempt.question == ""
        outcome = next(row for row in rows if row.kind == "outcome" and row.id == attempt.id)
        assert (outcome.outcome, outcome.ran_ms, outcome.task_id) == ("ok", 0, task.id)
        # The outbox is empty, and nothing waits.
        assert await store.records(OUTBOX, limit=9) == ()
        assert a.writer.waiting == 0
        assert (await sound(store)).rows == 6


async def test_rows_are_written_a_moment_after_the_turn() -> None:
    async with audited() as a:
        await a.world.send("say hi")
        assert await a.rows() == []
        await a.clock.advance(FLUSH_S)
        assert said(await a.rows()) == [("attempt", ""), ("outcome", "ok")]


async def test_a_full_batch_does_not_wait() -> None:
    async with audited() as a:
        for _ in range(MAX_BATCH):
            await a.world.send("say hi")
        await a.clock.advance(0)
        assert len(await a.rows()) >= 2 * (MAX_BATCH - 1)


async def test_a_running_turn_is_an_attempt_before_it_ends() -> None:
    async with audited() as a:
        task = await a.world.submit("wait go, say done")
        await a.writer.flush()
        assert said(await a.rows()) == [("attempt", "")]
        assert (await a.report()).recent == []
        await a.clock.advance(2)
        await a.world.cancel(task.id)
        await a.writer.flush()
        (_, outcome) = await a.rows()
        assert (outcome.outcome, outcome.took_ms) == ("canceled", 2000)


async def test_refusals_of_grants_of_the_queue_and_of_the_limits_are_rows() -> None:
    reader = Principal(id="carol", grants=(Grant("test/agent", frozenset({Operation.GET_TASK})),))
    async with audited(max_queue_per_context=1) as a:
        world = a.world
        with pytest.raises(PermissionDenied):
            await world.service.send(world.agent, Caller(principal=reader), world.request("say hi"))
        await world.send("refuse-at-gate")
        for _ in range(3):
            await world.submit("wait go", context="c")
        await a.writer.flush()
        refusals = [row for row in await a.rows() if row.kind == "refusal"]
        assert [(row.who, row.reason) for row in refusals] == [
            ("carol", "operation_not_granted"),
            ("alice", "budget_exhausted"),
            ("alice", "queue_full"),
        ]
        report = await a.report()
        assert (report.summary.total, report.summary.denied) == (5, 3)


async def test_a_message_that_is_admitted_and_then_exceeds_a_limit_is_a_refusal(
    make_store: Callable[[], Store],
) -> None:
    """The store decides between messages that come at the same time."""
    async with audited(make_store()) as a:
        one = Admission((Group((Add(key=BUDGET, amount=1, at_most=1),)),))
        a.limits.also = lambda _: one
        answers = await asyncio.gather(*[a.world.send("say hi") for _ in range(4)])
        states = sorted(answer.status.state.name for answer in answers)
        assert states == ["COMPLETED", *["REJECTED"] * 3]
        await a.clock.advance(HOLD_S + 1)
        await a.writer.flush()
        rows = await a.rows()
        assert sorted(said(rows)) == [
            ("attempt", ""),
            ("outcome", "ok"),
            *[("refusal", "limit_reached")] * 3,
        ]
        report = await a.report()
        assert (report.summary.total, report.summary.ok, report.summary.denied) == (4, 1, 3)


async def test_ten_thousand_refusals_cost_few_rows() -> None:
    async with audited() as a:
        for _ in range(10_000):
            await a.world.send("refuse-at-gate")
        await a.clock.advance(70)
        rows = await a.rows()
        assert len(rows) <= 12
        assert sum(row.count for row in rows) == 10_000
        assert (await a.report()).summary.denied == 10_000
        await sound(a.store)


async def test_a_follow_up_is_an_attempt_of_its_own() -> None:
    async with audited() as a:
        task = await a.world.send("ask which?")
        await a.world.send("say blue", task=task.id)
        await a.writer.flush()
        attempts = [row for row in await a.rows() if row.kind == "attempt"]
        assert [(row.task_id, row.is_follow_up) for row in attempts] == [
            (task.id, False),
            (task.id, True),
        ]
        assert [row.outcome for row in await a.rows() if row.kind == "outcome"] == ["ok", "ok"]


async def test_changes_and_sign_ins_are_rows() -> None:
    async with audited() as a:
        await a.store.change(*a.trail.noted(ALICE.principal, "token.create", "token:ci", "90 days"))
        a.trail.note("user:bob", "sign_in", "user:bob")
        a.trail.turned_away(source="192.0.2.7", agent="test/agent", reason="unauthenticated")
        await a.writer.flush()
        rows = await a.rows()
        assert [(row.kind, row.who, row.action, row.subject) for row in rows] == [
            ("change", "alice", "token.create", "token:ci"),
            ("change", "user:bob", "sign_in", "user:bob"),
            ("refusal", "", "", ""),
        ]
        assert (rows[2].source, rows[2].reason) == ("192.0.2.7", "unauthenticated")


async def test_questions_are_kept_without_secrets_where_that_is_asked_for() -> None:
    async with audited(redaction=Redaction()) as a:
        await a.world.send("say my key is tl_key_0123456789abcdef")
        await a.writer.flush()
        assert (await a.rows())[0].question == "say my key is [redacted]"
        (recent,) = (await a.report()).recent
        assert recent.question == "say my key is [redacted]"


async def test_the_report_adds_up_who_asked_and_how_it_ended() -> None:
    async with audited() as a:
        world = a.world
        await world.send("say hi")
        await world.service.send(world.agent, BOB, world.request("say hi"))
        await world.service.send(world.agent, BOB, world.request("fail because"))
        await world.send("refuse-at-gate")
        await a.writer.flush()
        report = await a.report(days=1)
        assert report.window.days == 1
        summary = report.summary
        assert (summary.total, summary.ok, summary.denied) == (4, 2, 1)
        assert (summary.distinct_askers, summary.avg_latency_ms) == (2, 0)
        assert [(each.login, each.count) for each in report.top_askers] == [
            ("alice", 2),
            ("bob", 2),
        ]
        assert sorted(
            (each.asker_login, each.ok, each.denied_reason) for each in report.recent
        ) == [
            ("alice", False, "budget_exhausted"),
            ("alice", True, None),
            ("bob", False, "failed"),
            ("bob", True, None),
        ]
        # It reaches back as many days as it is asked for, by the days of UTC.
        a.clock.jump(86_400)
        assert (await a.report(days=1)).summary.total == 0
        assert (await a.report(days=2)).summary.total == 4


async def test_a_restart_continues_with_a_chain_that_names_the_one_before(
    make_store: Callable[[], Store],
) -> None:
    for node in ("one", "two", "three"):
        store = make_store()
        async with audited(store, node=node) as a:
            await a.world.send("say hi")
            await a.writer.flush()
            found = await sound(store)
            assert found.newest == f"chain-{node}-000001"
    store = make_store()
    await store.open()
    found = await sound(store)
    assert (found.chains, found.rows) == (3, 6)
    await store.close()


async def test_what_a_killed_process_has_left_is_taken_over_once(
    make_store: Callable[[], Store],
) -> None:
    store = make_store()
    one = Audited(store, node="one")
    await one.open()
    await one.world.send("say hi")
    await one.writer.flush()
    running = await one.world.submit("wait go")
    await one.writer.flush()
    done = await one.world.send("say bye")
    await one.vanish()
    await store.close()
    for node in ("two", "three"):
        store = make_store()
        async with audited(store, node=node) as a:
            rows = await a.rows()
            attempts = [row for row in rows if row.kind == "attempt"]
            assert len(attempts) == 3
            assert {row.task_id: row.recovered_from for row in attempts[1:]} == {
                running.id: "",
                done.id: "chain-one-000001",
            }
            # The turn that ran, and the one whose outcome was in memory.
            ended = [row for row in rows if row.outcome == "interrupted"]
            assert [row.id for row in ended] == [row.id for row in attempts[:0:-1]]
            assert {row.who for row in ended} == {"alice"}
            await sound(store)
            report = await a.report()
            assert (report.summary.total, report.summary.ok) == (3, 1)
            reasons = [each.denied_reason for each in report.recent if not each.ok]
            assert reasons == ["interrupted", "interrupted"]


async def test_old_rows_are_deleted_and_the_rest_still_verifies() -> None:
    async with audited(keep_days=30) as a:
        for _ in range(3):
            for _ in range(3):
                await a.world.send("say hi")
            await a.writer.flush()
            a.clock.jump(20 * 86_400)
        await a.keeper.forget_old()
        rows = await a.rows()
        assert (rows[0].n, rows[-1].n) == (13, 18)
        assert (await sound(a.store)).rows == 6
        a.clock.jump(40 * 86_400)
        await a.keeper.forget_old()
        assert await a.rows() == []
        await sound(a.store)
        await a.world.send("say hi")
        await a.writer.flush()
        assert [row.n for row in await a.rows()] == [19, 20]
        await sound(a.store)


async def test_a_row_that_came_late_takes_no_newer_ones_with_it() -> None:
    """The outbox of an agent's own store may bring a row after months."""
    async with audited(keep_days=30) as a:
        a.clock.jump(100 * 86_400)
        a.trail.note("user:bob", "sign_in", "user:bob")
        a.writer.add(Row(kind="attempt", at_ms=a.clock.now_ms() - 90 * 86_400_000, who="alice"))
        await a.writer.flush()
        await a.keeper.forget_old()
        assert [row.kind for row in await a.rows()] == ["change", "attempt"]


async def test_old_rows_go_soon_after_a_start_too() -> None:
    """A gateway may never run for an hour."""
    async with audited(keep_days=30) as a:
        await a.world.send("say hi")
    store, clock = a.store, a.clock
    clock.jump(31 * 86_400)
    async with audited(store, clock=clock, node="two", keep_days=30):
        await clock.advance(6)
        assert await rows_of(store) == []


async def test_the_rows_of_an_old_chain_are_deleted_by_the_node_that_runs() -> None:
    async with audited(keep_days=30) as a:
        await a.world.send("say hi")
    store, clock = a.store, a.clock
    async with audited(store, clock=clock, node="two", keep_days=30) as b:
        clock.jump(31 * 86_400)
        await b.keeper.forget_old()
        assert await rows_of(b.store) == []
        assert (await sound(b.store)).chains == 2
