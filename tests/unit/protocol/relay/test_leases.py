from trunkline.protocol.relay.leases import Lease, LeaseTable

AGENT = "acme/helper"


def test_the_newest_session_has_the_agent() -> None:
    table = LeaseTable()
    first = table.take("a", AGENT)
    second = table.take("b", AGENT)
    assert second.epoch > first.epoch
    assert table.find(AGENT) == second == Lease("b", second.epoch)


def test_a_session_that_offers_its_agent_again_keeps_its_lease() -> None:
    table = LeaseTable()
    assert table.take("a", AGENT) == table.take("a", AGENT)


def test_a_late_release_does_not_end_the_lease_of_the_successor() -> None:
    """B1: the cleanup of an old connection removed the new one."""
    table = LeaseTable()
    first = table.take("a", AGENT)
    second = table.take("b", AGENT)
    assert not table.release(AGENT, first.epoch)
    assert table.find(AGENT) == second
    assert table.release(AGENT, second.epoch)
    assert not table.release(AGENT, second.epoch)
    assert table.find(AGENT) is None


def test_a_session_that_comes_back_gets_a_higher_epoch() -> None:
    table = LeaseTable()
    first = table.take("a", AGENT)
    table.release(AGENT, first.epoch)
    assert table.take("a", AGENT).epoch > first.epoch


def test_each_agent_has_a_lease_of_its_own() -> None:
    table = LeaseTable()
    table.take("a", AGENT)
    table.take("b", "other/helper")
    assert table.find(AGENT) == Lease("a", 1)
    assert len(table) == 2


def test_a_lease_that_was_taken_elsewhere_gives_way_to_later_ones_alone() -> None:
    table = LeaseTable()
    assert table.put(AGENT, Lease("a", 7))
    assert not table.put(AGENT, Lease("b", 6))
    assert table.find(AGENT) == Lease("a", 7)
    assert table.put(AGENT, Lease("b", 9))
    assert table.epochs == {AGENT: 9}


def test_agents_are_counted_by_their_tenants() -> None:
    table = LeaseTable()
    assert table.with_more([]) == 0
    first = table.take("a", AGENT)
    table.take("a", "other/x")
    table.put("acme/b", Lease("b", 7))
    table.put("acme/b", Lease("c", 9))
    assert table.with_more([AGENT]) == 0
    assert table.with_more([AGENT, "acme/c", "acme/c", "acme/d"]) == 4
    assert table.with_more(["other/y", "third/z"]) == 2
    assert table.release(AGENT, first.epoch)
    assert table.release("acme/b", 9)
    assert table.with_more(["acme/c"]) == 1
