"""Checks of a store that several nodes share: claims of due records end with their node."""

from trunkline.model.errors import RecordConflict
from trunkline.ports.records import Defer, Delete, Put, Record
from trunkline.testing.stores.kit import assert_refused, change, key, must_change
from trunkline.testing.stores.lanes import AGENTS, Node, Nodes

# Longer than any test: what ends earlier does not end by its lease.
LEASE_MS = 3_600_000


async def _claims(node: Node) -> list[Record]:
    found = await node.claim_due({"check.1": 9}, lease_ms=LEASE_MS)
    return sorted(found, key=lambda record: record.key.scope)


async def _put_due(node: Node, *scopes: str) -> None:
    for scope in scopes:
        await must_change(node, Put(key=key("due", scope=scope), body=b"body", due_in_ms=0))


async def _die(nodes: Nodes, node: Node, *survivors: Node) -> None:
    """Have the survivors give the node up."""
    await nodes.let_die(node)
    for each in survivors:
        assert await each.beat()
        await each.take_over(agents=AGENTS, limit=9)


async def a_claim_ends_when_its_node_is_given_up(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await _put_due(one, "a", "b")
    first = await _claims(one)
    assert await _claims(two) == []
    await _die(nodes, one, two)
    second = await _claims(two)
    assert [record.key for record in second] == [record.key for record in first]
    for before, now in zip(first, second, strict=True):
        assert (now.version, now.attempts, now.body) == (before.version + 1, 2, b"body")
        late = await change(one, Delete(key=before.key, expected=before.version))
        assert_refused(late, RecordConflict)
        await must_change(two, Delete(key=now.key, expected=now.version))


async def a_claim_ends_when_its_node_resigns(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await _put_due(one, "a")
    (first,) = await _claims(one)
    await one.resign()
    (second,) = await _claims(two)
    assert (second.key, second.version) == (first.key, first.version + 1)


async def a_node_that_was_given_up_claims_nothing(nodes: Nodes) -> None:
    one, two = await nodes.join([]), await nodes.join([])
    await _die(nodes, one, two)
    await _put_due(two, "a")
    assert await _claims(one) == []
    assert len(await _claims(two)) == 1


async def a_claim_of_a_living_node_stays(nodes: Nodes) -> None:
    """Also one that the dead node had before."""
    one, two, three = [await nodes.join([]) for _ in range(3)]
    await _put_due(one, "a")
    (first,) = await _claims(one)
    await must_change(one, Put(key=first.key, due_in_ms=0, expected=first.version))
    (second,) = await _claims(two)
    await _die(nodes, one, two, three)
    assert await _claims(three) == []
    await must_change(two, Delete(key=second.key, expected=second.version))


async def what_a_dead_node_put_off_still_waits(nodes: Nodes) -> None:
    """The attempts of a record are not used up by nodes that restart again and again."""
    one, two = await nodes.join([]), await nodes.join([])
    await _put_due(one, "a")
    (first,) = await _claims(one)
    await must_change(one, Defer(key=first.key, in_ms=LEASE_MS // 2, expected=first.version))
    await _die(nodes, one, two)
    assert await _claims(two) == []
