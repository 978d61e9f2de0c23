"""How nodes share the slots of an agent, decided without a store."""

from trunkline.engine.slot_shares import WAITS_MS, NodeSlots, share
from trunkline.ports.cluster import SlotRequest, SlotShare


def ask(
    slots: dict[str, NodeSlots],
    node: str,
    wanted: int,
    *,
    keep: int | None = None,
    limit: int = 4,
    now_ms: int = 0,
) -> SlotShare:
    keep = wanted if keep is None else keep
    request = SlotRequest(agent="test/limited", limit=limit, keep=keep, wanted=wanted)
    return share(slots, node, request, now_ms=now_ms)


def test_all_nodes_together_hold_the_limit() -> None:
    slots: dict[str, NodeSlots] = {}
    assert ask(slots, "one", 3) == SlotShare(3)
    assert ask(slots, "two", 4).held == 1
    assert ask(slots, "three", 1).held == 0
    assert {node: each.held for node, each in slots.items()} == {"one": 3, "two": 1, "three": 0}


def test_a_node_that_wants_and_holds_nothing_is_forgotten() -> None:
    slots: dict[str, NodeSlots] = {}
    ask(slots, "one", 2)
    assert ask(slots, "one", 0) == SlotShare(0)
    assert slots == {}


def test_a_slot_that_is_given_back_goes_to_the_node_that_waits_longest() -> None:
    slots: dict[str, NodeSlots] = {}
    ask(slots, "one", 1, limit=1)
    ask(slots, "two", 1, limit=1)
    ask(slots, "three", 1, limit=1)
    assert ask(slots, "one", 1, keep=0, limit=1).held == 0
    assert ask(slots, "three", 1, limit=1).held == 0
    assert ask(slots, "two", 1, limit=1) == SlotShare(1, is_contended=True)


def test_nodes_that_wait_get_equally_many() -> None:
    slots: dict[str, NodeSlots] = {}
    ask(slots, "one", 4)
    ask(slots, "two", 9)
    ask(slots, "three", 9)
    ask(slots, "one", 0)
    assert ask(slots, "two", 9).held == 2
    assert ask(slots, "three", 9).held == 2


def test_a_node_that_asks_no_more_holds_up_no_other() -> None:
    slots: dict[str, NodeSlots] = {}
    ask(slots, "one", 1, limit=1)
    ask(slots, "two", 1, limit=1)
    assert ask(slots, "one", 1, keep=0, limit=1, now_ms=WAITS_MS - 1).held == 0
    assert ask(slots, "one", 1, limit=1, now_ms=WAITS_MS).held == 1


def test_a_node_with_more_than_its_share_learns_it() -> None:
    slots: dict[str, NodeSlots] = {}
    assert ask(slots, "one", 9, limit=3) == SlotShare(3)
    ask(slots, "two", 9, limit=3)
    assert ask(slots, "one", 9, limit=3) == SlotShare(3, is_contended=True)
    assert ask(slots, "one", 9, keep=2, limit=3) == SlotShare(2)
    assert ask(slots, "two", 9, limit=3) == SlotShare(1)


def test_a_lower_limit_contends_the_slots_above_it() -> None:
    slots: dict[str, NodeSlots] = {}
    ask(slots, "one", 4)
    assert ask(slots, "one", 4, limit=2) == SlotShare(4, is_contended=True)
    assert ask(slots, "one", 4, keep=2, limit=2) == SlotShare(2)
