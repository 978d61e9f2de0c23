"""How often a source may try a credential."""

import pytest

from trunkline.engine.attempts import AttemptCounter, Rate, source_of


def test_a_burst_and_then_one_at_a_time() -> None:
    counter = AttemptCounter(Rate(3, 10.0))
    for _ in range(3):
        assert counter.wait_s("a", 100.0) == 0
        counter.take("a", 100.0)
    assert counter.wait_s("a", 100.0) == 10.0
    assert counter.wait_s("b", 100.0) == 0
    assert counter.wait_s("a", 109.0) == 1.0
    assert counter.wait_s("a", 110.0) == 0
    counter.take("a", 110.0)
    assert counter.wait_s("a", 110.0) == 10.0
    # After a long rest there is one burst, not more.
    assert counter.wait_s("a", 9999.0) == 0


def test_memory_is_bounded_and_keeps_the_latest() -> None:
    counter = AttemptCounter(Rate(1, 1000.0))
    for number in range(30_000):
        counter.take(f"login{number}", 0.0)
    assert counter.wait_s("login29999", 0.0) == 1000.0
    assert counter.wait_s("login0", 0.0) == 0
    assert len(counter._free_at) == 20_000


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_a_source_is_a_network_with_ipv6(address: str, source: str) -> None:
    assert source_of(address) == source
