from trunkline.protocol.relay.leases import Lease, LeaseTable

PLACE = ("acme", "helper")


def test_the_newest_session_has_the_agent() -> None:
    table = LeaseTable()
    first = table.take("a", PLACE)
    second = table.take("b", PLACE)
    assert second.epoch > first.epoch
    assert table.find(PLACE) == second == Lease("b", second.epoch)


def test_a_session_that_offers_its_agent_again_keeps_its_lease() -> None:
    table = LeaseTable()
    assert table.take("a", PLACE) == table.take("a", PLACE)


def test_a_late_release_does_not_end_the_lease_of_the_successor() -> None:
    """B1: the cleanup of an old connection removed the new one."""
    table = LeaseTable()
    first = table.take("a", PLACE)
    second = table.take("b", PLACE)
    assert not table.release(PLACE, first.epoch)
    assert table.find(PLACE) == second
    assert table.release(PLACE, second.epoch)
    assert not table.release(PLACE, second.epoch)
    assert table.find(PLACE) is None


def test_a_session_that_comes_back_gets_a_higher_epoch() -> None:
    table = LeaseTable()
    first = table.take("a", PLACE)
    table.release(PLACE, first.epoch)
    assert table.take("a", PLACE).epoch > first.epoch


def test_tenants_have_agents_of_their_own() -> None:
    table = LeaseTable()
    table.take("a", ("acme", "helper"))
    table.take("b", ("other", "helper"))
    assert table.find(PLACE) == Lease("a", 1)
    assert len(table) == 2
