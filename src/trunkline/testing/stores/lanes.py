"""Checks of a store that several nodes share: who owns a lane, and whose appends count."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import structs

from trunkline.background import next_pass
from trunkline.model.errors import LeaseLost
from trunkline.model.values import TaskState
from trunkline.ports.cluster import Cluster, Grant, Notice, Posted, lane_name
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Append, Store
from trunkline.testing.stores.kit import (
    ALICE,
    COMPLETED,
    WORKING,
    assert_refused,
    assert_results,
    create,
    follow,
    must_change,
    must_put,
    put,
)

LANE = lane_name(ALICE, "context")
AGENTS = (ALICE.agent,)


class Node(Store, Cluster, Protocol):
    """One node of the store: the store as it sees it, and its part of the cluster."""


class Nodes(Protocol):
    """Makes the nodes of one new store."""

    async def join(self, heard: list[Notice]) -> Node:
        """A further node, open and joined. `heard` gets the notices that reach it."""
        ...

    async def let_die(self, node: Node) -> None:
        """Return when the others may give up a node that has not beaten since this call."""
        ...


def of_lane(append: Append, grant: Grant | None = None, *, lane: str = LANE) -> Append:
    return structs.replace(append, lane=lane, epoch=0 if grant is None else grant.epoch)


async def must_take(node: Node, lane: str = LANE) -> Grant:
    grant = await node.take(lane)
    assert grant is not None, "a lane without an owner cannot be taken"
    return grant


async def a_lane_has_one_owner(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    assert await two.take(LANE) is None
    assert (await must_take(one)).epoch == grant.epoch
    await must_take(two, lane_name(ALICE, "another"))


async def the_first_append_takes_a_new_lane(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    (result,) = await put(one, of_lane(create("t")))
    epoch = getattr(result, "epoch", 0)
    assert epoch > 0, f"the epoch of a lane that an append took is missing: {result!r}"
    assert await two.take(LANE) is None
    await must_put(one, of_lane(follow("t", 1), Grant(LANE, epoch)))
    assert_results(await put(two, of_lane(create("u"))), LeaseLost)


async def only_the_owner_appends(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    await must_put(one, of_lane(create("t"), grant))
    stranger = Grant(LANE, grant.epoch + 1)
    results = [
        *await put(two, of_lane(follow("t", 1), grant), of_lane(follow("t", 1))),
        *await put(one, of_lane(follow("t", 1), stranger), of_lane(follow("t", 1), grant)),
    ]
    assert_results(results, LeaseLost, LeaseLost, LeaseLost, None)


async def a_dead_node_is_taken_over_and_fenced(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    await must_put(
        one,
        of_lane(create("a", state=WORKING), grant),
        of_lane(create("b"), grant),
        of_lane(create("c", state=COMPLETED), grant),
        of_lane(create("d", state=TaskState.INPUT_REQUIRED), grant),
    )
    assert await two.take_over(agents=AGENTS, limit=9) in ((), [])
    await nodes.let_die(one)
    assert await two.beat()
    (taken,) = await two.take_over(agents=AGENTS, limit=9)
    assert taken.epoch > grant.epoch
    assert [task.task_id for task in taken.tasks] == ["a", "b"]
    results = await put(one, of_lane(follow("a", 1), grant), of_lane(follow("a", 1)))
    assert_results(results, LeaseLost, LeaseLost)
    await must_put(two, of_lane(follow("a", 1), taken))
    # A node that was given up is none any more, whatever it does.
    assert not await one.beat()


async def a_node_that_beats_keeps_its_lanes(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    await must_put(one, of_lane(create("t"), grant))
    assert await one.beat()
    assert await two.beat()
    assert await two.take(LANE) is None
    assert not await two.take_over(agents=AGENTS, limit=9)


async def a_lane_that_was_left_can_be_taken(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    await must_put(one, of_lane(create("t", state=COMPLETED), grant))
    assert not await one.leave([(LANE, grant.epoch)])
    assert_results(await put(one, of_lane(follow("t", 1), grant)), LeaseLost)
    again = await must_take(two)
    assert again.epoch > grant.epoch
    assert not again.tasks


async def a_lane_with_an_inbox_is_not_left(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    await must_change(two, Put(key=Key("inbox.1", LANE, "1"), body=b"{}"))
    assert list(await one.leave([(LANE, grant.epoch)])) == [LANE]
    assert await two.take(LANE) is None


async def what_a_node_frees_or_resigns_from_is_taken_over(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    freed = await must_take(one)
    await must_put(one, of_lane(create("a"), freed))
    await one.free(LANE, freed.epoch)
    other = lane_name(ALICE, "other")
    resigned = await must_take(one, other)
    await must_put(one, of_lane(create("b"), resigned, lane=other))
    await one.resign()
    taken = await two.take_over(agents=AGENTS, limit=9)
    assert sorted(task.task_id for grant in taken for task in grant.tasks) == ["a", "b"]


async def lanes_of_other_agents_are_left_alone(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await must_put(one, of_lane(create("t"), await must_take(one)))
    await one.resign()
    assert not await two.take_over(agents=("another",), limit=9)
    assert len(await two.take_over(agents=AGENTS, limit=9)) == 1


async def several_nodes_take_over_different_lanes(nodes: Nodes) -> None:
    one, two, three = [await nodes.join([]) for _ in range(3)]
    for number in range(20):
        lane = lane_name(ALICE, str(number))
        await put(one, of_lane(create(f"t{number}"), lane=lane))
    await one.resign()
    taken: list[str] = []
    while grants := [*await _some(two), *await _some(three)]:
        taken += [grant.lane for grant in grants]
    assert len(taken) == len(set(taken)) == 20


async def tasks_of_a_lane_that_arrive_together_keep_their_order(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    grant = await must_take(one)
    accepted = ["d", "a", "c", "b"]
    await must_put(one, *[of_lane(create(task_id), grant) for task_id in accepted])
    await nodes.let_die(one)
    assert await two.beat()
    assert [task.task_id for task in (await must_take(two)).tasks] == accepted


async def lanes_that_wait_longest_are_taken_over_first(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    lanes = [lane_name(ALICE, name) for name in ("c", "a", "d", "b")]
    grants = [await must_take(one, lane) for lane in lanes]
    for grant in grants:
        await must_put(one, of_lane(create(grant.lane), grant, lane=grant.lane))
    for grant in reversed(grants):
        await one.free(grant.lane, grant.epoch)
    assert {grant.lane for grant in await _some(two)} == set(lanes[:3])
    assert [grant.lane for grant in await _some(two)] == lanes[3:]


async def _some(node: Node) -> Sequence[Grant]:
    return await node.take_over(agents=AGENTS, limit=3)


async def a_notice_reaches_the_other_nodes(nodes: Nodes) -> None:
    heard: list[list[Notice]] = [[], [], []]
    one, *_ = [await nodes.join(each) for each in heard]
    one.tell(Posted(LANE))
    # A notice takes its time, and other calls are answered meanwhile.
    for _ in range(10_000):
        if heard[1] and heard[2]:
            break
        await one.beat()
        await next_pass()
    assert heard[1:] == [[Posted(LANE)], [Posted(LANE)]]


async def a_refused_append_takes_no_lane(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    (result,) = await put(one, of_lane(follow("nobody", 3)))
    assert result is not None
    assert await two.take(LANE) is not None
    (result,) = await put(one, of_lane(create("t")))
    assert_refused(result, LeaseLost)
