"""Lanes on PostgreSQL where two calls meet: whichever comes first, no work is lost or done twice.

A call is held in the middle by a transaction that is left open: its locks are taken and its changes
made, and no other call sees them yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.postgres.nodes import PostgresNode, PostgresNodes, postgres_nodes
from tests.postgres.proxy import DatabaseProxy, database_proxy

from trunkline.background import BackgroundTasks
from trunkline.clock import SystemClock
from trunkline.model.errors import LeaseLost
from trunkline.ports.cluster import Grant, lane_name
from trunkline.ports.records import Delete, Key, Put
from trunkline.testing.stores.kit import ALICE, COMPLETED, assert_results, create, follow, put
from trunkline.testing.stores.lanes import AGENTS, LANE, must_take, of_lane

POST = Put(key=Key("inbox.1", LANE, "1"), body=b"{}")
PATIENCE_S = 20


class Held:
    """A transaction that is left open, and those that wait for it."""

    def __init__(self, url: str, connection: psycopg.AsyncConnection[Any]) -> None:
        self._url = url
        self._connection = connection
        self.commit = connection.commit
        self._blocked = 0
        self._tasks = BackgroundTasks("held")

    async def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return await (await self._connection.execute(sql.encode(), values)).fetchall()

    async def blocks(self, call: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Begin a call, and return when it waits for the transaction, or for one that does."""

        async def wait() -> Any:
            return await call

        task = self._tasks.start(wait(), name="blocked")
        self._blocked += 1
        sql = """
            SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND pg_blocking_pids(pid) <> '{}'
        """
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as looking:
            async with asyncio.timeout(PATIENCE_S):
                while len(await (await looking.execute(sql)).fetchall()) < self._blocked:
                    assert not task.done(), f"it did not wait: {task.result()!r}"
                    await SystemClock().sleep(0.005)
        return task


@asynccontextmanager
async def held(url: str) -> AsyncIterator[Held]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Held(url, connection)


async def two(nodes: PostgresNodes) -> tuple[PostgresNode, PostgresNode]:
    return await nodes.add(), await nodes.add()


async def test_a_post_that_comes_before_a_leave_keeps_the_lane(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as other:
        one, there = await two(nodes)
        grant = await must_take(one)
        # The node that posts looks at the lane: the leave waits, and then sees the request.
        [(epoch,)] = await other.run("SELECT take_1(%s, %s, timeline_1())", there.store.node, LANE)
        assert epoch is None
        leaving = await other.blocks(one.leave([(LANE, grant.epoch)]))
        await there.change(POST)
        await other.commit()
        assert await leaving == [LANE]


async def test_a_post_that_comes_behind_a_leave_finds_a_free_lane(
    cleared_postgres_url: str,
) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as leaving:
        one, there = await two(nodes)
        grant = await must_take(one)
        sql = "SELECT leave_1(%s, %s::text[], %s::int8[])"
        assert not await leaving.run(sql, one.store.node, [LANE], [grant.epoch])
        await there.change(POST)
        taking = await leaving.blocks(there.take(LANE))
        await leaving.commit()
        assert (await taking).epoch > grant.epoch


async def test_an_append_under_way_is_part_of_what_a_takeover_finds(
    cleared_postgres_url: str,
) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as other:
        one, there = await two(nodes)
        grant = await must_take(one)
        assert_results(await put(one, of_lane(create("t"), grant)), None)
        # The append has passed the fence, and waits for the row of its task.
        await other.run("SELECT FROM tasks FOR UPDATE")
        append = await other.blocks(put(one, of_lane(follow("t", 1), grant)))
        await nodes.let_die(one)
        # A takeover of many lanes passes over one that is busy at this moment.
        assert not await there.take_over(agents=AGENTS, limit=9)
        taking = await other.blocks(there.take(LANE))
        await other.commit()
        assert_results(await append, None)
        taken = await taking
        assert [(task.task_id, task.last_seq) for task in taken.tasks] == [("t", 2)]
        assert_results(await put(one, of_lane(follow("t", 2), grant)), LeaseLost)


@pytest.mark.parametrize("what", ["take", "take_over"])
async def test_an_append_that_waits_for_a_takeover_is_refused(
    cleared_postgres_url: str, what: str
) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as taking:
        one, there = await two(nodes)
        grant = await must_take(one)
        assert_results(await put(one, of_lane(create("t"), grant)), None)
        await nodes.let_die(one)
        if what == "take":
            await taking.run("SELECT take_1(%s, %s, timeline_1())", there.store.node, LANE)
        else:
            sql = "SELECT take_over_1(%s, timeline_1(), 1, false, %s::text[], 9)"
            assert await taking.run(sql, there.store.node, list(AGENTS))
        late = await taking.blocks(put(one, of_lane(follow("t", 1), grant)))
        await taking.commit()
        assert_results(await late, LeaseLost)


async def test_a_verdict_waits_for_a_beat_under_way(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as beat:
        one, there = await two(nodes)
        await must_take(one)
        await nodes.let_die(one)
        # A beat that came in time, and is committed after the end of the lease.
        longer = "UPDATE nodes SET lease_until = lease_until + interval '1 min' RETURNING 1"
        await beat.run(longer)
        taking = await beat.blocks(there.take(LANE))
        await beat.commit()
        assert await taking is None
        assert await one.beat()


async def test_a_beat_that_waits_for_the_verdict_is_too_late(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as verdict:
        one, there = await two(nodes)
        over = "UPDATE nodes SET lease_until = clock_timestamp() WHERE node = %s RETURNING 1"
        await verdict.run(over, one.store.node)
        await verdict.run("SELECT judge_1()")
        beating = await verdict.blocks(one.beat())
        await verdict.commit()
        assert not await beating
        assert await there.beat()


async def test_lanes_that_change_owner_during_a_takeover_stay_with_their_owner(
    cleared_postgres_url: str,
) -> None:
    """Two takeovers at once, many times: no lane goes to both."""
    async with postgres_nodes(cleared_postgres_url) as nodes:
        several = [await nodes.add() for _ in range(3)]
        lanes = [lane_name(ALICE, str(number)) for number in range(60)]
        owner = several[0]
        grants = {lane: (await must_take(owner, lane)).epoch for lane in lanes}
        for _ in range(5):
            await asyncio.gather(*(owner.free(lane, epoch) for lane, epoch in grants.items()))
            taken: list[list[Grant]] = [[], [], []]
            while sum(map(len, taken)) < len(lanes):
                rounds = [node.take_over(agents=AGENTS, limit=7) for node in several]
                for own, more in zip(taken, await asyncio.gather(*rounds), strict=True):
                    own += more
            names = [grant.lane for own in taken for grant in own]
            assert sorted(names) == sorted(lanes)
            for node, own in zip(several[1:], taken[1:], strict=True):
                for grant in own:
                    await node.free(grant.lane, grant.epoch)
            back = taken[0]
            while len(back) < len(lanes):
                back += await owner.take_over(agents=AGENTS, limit=64)
            grants = {grant.lane: grant.epoch for grant in back}


@asynccontextmanager
async def behind_proxy(url: str) -> AsyncIterator[tuple[DatabaseProxy, PostgresNode, PostgresNode]]:
    async with database_proxy(url) as proxy, postgres_nodes(url) as nodes:
        one = await nodes.add()
        nodes.url = proxy.url
        yield proxy, one, await nodes.add()


async def test_a_call_whose_answer_was_lost_gives_it_again(cleared_postgres_url: str) -> None:
    async with behind_proxy(cleared_postgres_url) as (proxy, one, there):
        proxy.lose_answer("lanes", "take_1")
        grant = await must_take(there)
        assert await one.take(LANE) is None
        assert_results(await put(there, of_lane(create("t"), grant)), None)
        await there.free(LANE, grant.epoch)
        proxy.lose_answer("lanes", "take_over_1")
        (taken,) = await there.take_over(agents=AGENTS, limit=9)
        assert taken.epoch > grant.epoch
        assert [task.task_id for task in taken.tasks] == ["t"]
        assert not await there.take_over(agents=AGENTS, limit=9)
        assert_results(await put(there, of_lane(follow("t", 1, state=COMPLETED), taken)), None)
        proxy.lose_answer("lanes", "leave_1")
        assert not await there.leave([(LANE, taken.epoch)])
        assert await one.take(LANE) is not None
        assert proxy.lost["lanes"] == 3


async def test_a_takeover_that_failed_is_made_good_later(cleared_postgres_url: str) -> None:
    async with behind_proxy(cleared_postgres_url) as (proxy, one, there):
        grant = await must_take(one)
        assert_results(await put(one, of_lane(create("t"), grant)), None)
        await one.resign()
        # Neither the answer nor the second attempt gets through.
        proxy.lose_answer("lanes", "take_over_1")
        proxy.refuse("lanes")
        with pytest.raises(Exception, match="cannot be reached"):
            await there.take_over(agents=AGENTS, limit=9)
        proxy.accept("lanes")
        await there.beat()
        taken: list[Grant] = []
        async with asyncio.timeout(PATIENCE_S):
            while not taken:
                try:
                    taken += await there.take_over(agents=AGENTS, limit=9)
                except Exception:  # noqa: BLE001 - the next attempt waits for its time
                    await SystemClock().sleep(0.02)
        assert [task.task_id for task in taken[0].tasks] == ["t"]


async def test_lanes_with_work_are_free_when_they_are_left(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes:
        one, there = await two(nodes)
        lanes = [lane_name(ALICE, str(number)) for number in range(600)]
        grants = [await must_take(one, lane) for lane in lanes]
        appends = [of_lane(create(each.lane), each, lane=each.lane) for each in grants[::200]]
        assert_results(await put(one, *appends), *[None] * 3)
        await one.change(Put(key=Key("inbox.1", lanes[7], "1"), body=b"{}"))
        left = [(grant.lane, grant.epoch) for grant in grants]
        assert await one.leave(left) == [lanes[7]]
        taken = await there.take_over(agents=AGENTS, limit=64)
        assert {grant.lane for grant in taken} == {append.lane for append in appends}
        async with held(cleared_postgres_url) as looking:
            assert await looking.run("SELECT count(*) FROM lanes") == [(4,)]
        await one.change(Delete(key=Key("inbox.1", lanes[7], "1")))
        assert not await one.leave(left)


async def test_rows_of_dead_nodes_go_after_a_while(cleared_postgres_url: str) -> None:
    async with postgres_nodes(cleared_postgres_url) as nodes, held(cleared_postgres_url) as looking:
        one, there = await two(nodes)
        grant = await must_take(one)
        assert_results(await put(one, of_lane(create("t"), grant)), None)
        await one.resign()
        await looking.run("UPDATE nodes SET dead_at = dead_at - interval '2 h' RETURNING 1")
        await looking.run("SELECT forget_nodes_1()")
        # A lane names it.
        assert await looking.run("SELECT count(*) FROM nodes") == [(2,)]
        await looking.commit()
        assert len(await there.take_over(agents=AGENTS, limit=9)) == 1
        await looking.run("SELECT forget_nodes_1()")
        assert await looking.run("SELECT node FROM nodes") == [(there.store.node,)]
        # Someone deleted a row by hand: its lanes are free.
        await looking.run("DELETE FROM nodes RETURNING 1")
        await looking.run("SELECT forget_nodes_1()")
        assert await looking.run("SELECT owner FROM lanes") == [(None,)]
