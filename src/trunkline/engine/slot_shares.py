"""`share`: how the nodes of a cluster share the slots of an agent (see `Cluster.share_slots`)."""

from collections.abc import Sequence

from msgspec import Struct

from trunkline.ports.cluster import SlotRequest, SlotShare

# How long a node waits for slots after it has asked for them, unless it asks again.
WAITS_MS = 3000


class NodeSlots(Struct, array_like=True):
    """The slots of one agent at one node."""

    held: int = 0
    wanted: int = 0
    # Higher than that of the nodes that waited already when this one began to wait.
    since: int = 0
    # When a node that waits asked last; 0 for one that does not wait.
    asked_ms: int = 0

    @property
    def is_waiting(self) -> bool:
        return self.wanted > self.held


def share(
    slots: dict[str, NodeSlots], node: str, request: SlotRequest, *, now_ms: int
) -> SlotShare:
    """Give back and take slots of an agent for a node. `slots` has all living nodes that hold or
    want some, and is changed."""
    own = slots.pop(node, None) or NodeSlots()
    others = slots.values()
    last = max((each.since for each in others), default=0) + 1
    was_waiting, before = own.is_waiting, own.held
    own.held, own.wanted = min(own.held, request.keep), request.wanted
    if not was_waiting or own.held != before:
        own.since = last
    waiting = [each for each in others if each.is_waiting and now_ms - each.asked_ms < WAITS_MS]
    free = request.limit - own.held - sum(each.held for each in others)
    while own.is_waiting and free > _ahead(own, waiting):
        own.held += 1
        free -= 1
        own.since = last
    own.asked_ms = now_ms if own.is_waiting else 0
    if own.held or own.wanted:
        slots[node] = own
    is_contended = free < 0 or any(_lacks(each, own, free) for each in waiting)
    return SlotShare(own.held, is_contended and own.held > 0)


def _ahead(own: NodeSlots, waiting: Sequence[NodeSlots]) -> int:
    """The number of slots that go to other nodes before this one gets its next."""
    ahead = 0
    for each in waiting:
        until = own.held + (each.since < own.since)
        ahead += max(0, min(each.wanted, until) - each.held)
    return ahead


def _lacks(other: NodeSlots, own: NodeSlots, free: int) -> bool:
    """Whether this node should give a slot to the other, which may take the free ones first."""
    could_hold = other.held + free
    if could_hold >= other.wanted:
        return False
    return own.held > own.wanted or not could_hold or could_hold + 1 < own.held
