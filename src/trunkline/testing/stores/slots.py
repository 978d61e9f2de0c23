"""Checks of a store that several nodes share: how many slots of an agent each of them holds."""

import asyncio

from trunkline.ports.cluster import SlotRequest, SlotShare
from trunkline.testing.stores.lanes import Node, Nodes

AGENT = "test/limited"


async def ask(
    node: Node, wanted: int, *, keep: int | None = None, limit: int = 4, agent: str = AGENT
) -> SlotShare:
    """Want this many slots. Without `keep`, the node gives back none of those that it wants."""
    keep = wanted if keep is None else keep
    request = SlotRequest(agent=agent, limit=limit, keep=keep, wanted=wanted)
    (share,) = await node.share_slots([request])
    return share


async def all_nodes_together_hold_the_limit(nodes: Nodes) -> None:
    one, two, three = [await nodes.join([]) for _ in range(3)]
    assert await ask(one, 3) == SlotShare(3)
    assert (await ask(two, 4)).held == 1
    assert (await ask(three, 1)).held == 0
    # To ask again changes nothing.
    assert [(await ask(node, 4)).held for node in (one, two, three)] == [3, 1, 0]


async def a_slot_that_is_given_back_goes_to_another_node(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await ask(one, 4)
    assert (await ask(two, 2)).held == 0
    assert await ask(one, 1) == SlotShare(1)
    assert await ask(two, 2) == SlotShare(2)
    assert (await ask(one, 4)).held == 2
    assert await ask(two, 0) == SlotShare(0)
    assert (await ask(one, 4)).held == 4


async def the_slots_of_a_dead_node_are_free(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    assert (await ask(one, 4)).held == 4
    assert (await ask(two, 4)).held == 0
    await nodes.let_die(one)
    assert await two.beat()
    assert (await ask(two, 3)).held == 3
    # A node that was given up gets none, whatever there is.
    assert await ask(one, 4) == SlotShare(0)
    assert await ask(one, 4, agent="test/another") == SlotShare(0)
    assert await ask(two, 4) == SlotShare(4)


async def a_node_that_beats_keeps_its_slots(nodes: Nodes) -> None:
    one, two, three = [await nodes.join([]) for _ in range(3)]
    await ask(one, 4)
    await nodes.let_die(two)
    assert await one.beat()
    assert await three.beat()
    assert (await ask(three, 4)).held == 0
    assert (await ask(one, 4)).held == 4


async def the_slots_of_a_node_that_resigned_are_free(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await ask(one, 4)
    await one.resign()
    assert await ask(two, 4) == SlotShare(4)


async def nodes_that_wait_get_equally_many(nodes: Nodes) -> None:
    one, two, three = [await nodes.join([]) for _ in range(3)]
    await ask(one, 4)
    assert (await ask(two, 9)).held == 0
    assert (await ask(three, 9)).held == 0
    await ask(one, 0)
    assert (await ask(two, 9)).held == 2
    assert (await ask(three, 9)).held == 2
    assert await ask(two, 9) == SlotShare(2)


async def the_node_that_waits_longest_is_the_next(nodes: Nodes) -> None:
    one, two, three = [await nodes.join([]) for _ in range(3)]
    assert await ask(one, 1, limit=1) == SlotShare(1)
    assert (await ask(two, 1, limit=1)).held == 0
    assert (await ask(three, 1, limit=1)).held == 0
    # It gives back its slot and wants another, and is the last now.
    assert (await ask(one, 1, keep=0, limit=1)).held == 0
    assert (await ask(three, 1, limit=1)).held == 0
    assert (await ask(two, 1, limit=1)) == SlotShare(1, is_contended=True)
    assert (await ask(two, 1, keep=0, limit=1)).held == 0
    assert (await ask(one, 1, limit=1)).held == 0
    assert (await ask(three, 1, limit=1)).held == 1


async def a_node_with_more_than_its_share_learns_it(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    assert await ask(one, 9, limit=3) == SlotShare(3)
    await ask(two, 9, limit=3)
    assert await ask(one, 9, limit=3) == SlotShare(3, is_contended=True)
    assert await ask(one, 9, keep=2, limit=3) == SlotShare(2)
    assert await ask(two, 9, limit=3) == SlotShare(1)
    # One more is fair, because the slots cannot be shared evenly.
    assert await ask(one, 9, limit=3) == SlotShare(2)
    # Not of slots that it has no use for.
    assert await ask(one, 1, keep=2, limit=3) == SlotShare(2, is_contended=True)
    assert await ask(one, 9, keep=2, limit=3) == SlotShare(2)
    # A node that wants no more of them leaves the others alone.
    await ask(two, 0, limit=3)
    assert await ask(one, 9, limit=3) == SlotShare(3)


async def a_lower_limit_holds_for_the_next_turns(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await ask(one, 3)
    await ask(two, 1)
    assert await ask(one, 3, limit=2) == SlotShare(3, is_contended=True)
    assert await ask(one, 3, keep=2, limit=2) == SlotShare(2, is_contended=True)
    assert await ask(one, 3, keep=1, limit=2) == SlotShare(1)
    assert await ask(two, 1, limit=2) == SlotShare(1)


async def every_agent_has_its_own_slots(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    both = [
        SlotRequest(agent="test/a", limit=2, keep=0, wanted=2),
        SlotRequest(agent="test/b", limit=5, keep=0, wanted=5),
    ]
    assert list(await one.share_slots(both)) == [SlotShare(2), SlotShare(5)]
    assert (await ask(two, 1, agent="test/c")).held == 1
    assert [share.held for share in await two.share_slots(both[::-1])] == [0, 0]
    assert not await two.share_slots([])


async def many_requests_at_once_stay_within_the_limit(nodes: Nodes) -> None:
    several = [await nodes.join([]) for _ in range(4)]
    held = [0, 0, 0, 0]

    async def take_and_give(number: int) -> None:
        for turn in range(8):
            keep = held[number] if turn % 3 else 0
            # Before the call, because the slots may be those of another node during it.
            held[number] = keep
            share = await ask(several[number], 5, keep=keep, limit=6)
            held[number] = share.held
            assert sum(held) <= 6, held

    await asyncio.gather(*(take_and_give(number) for number in range(4)))
    assert sum(held) > 0
