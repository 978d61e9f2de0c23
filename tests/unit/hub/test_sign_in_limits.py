"""How often sign-ins may fail, by login and by source."""

import pytest

from trunkline.hub.sign_in_limits import (
    LOGIN,
    PAIR,
    REQUESTS,
    SOURCE,
    Counter,
    Rate,
    SignInLimits,
    source_of,
)
from trunkline.model.errors import TooManyRequests


def failures(limits: SignInLimits, login: str, source: str, now: float) -> int:
    """How many attempts are let in before one is refused."""
    for count in range(1000):
        try:
            limits.begin(login, source, now)
        except TooManyRequests:
            return count
    return 1000


def test_a_burst_and_then_one_at_a_time() -> None:
    counter = Counter(Rate(3, 10.0))
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


def test_one_source_guesses_five_passwords_of_a_login() -> None:
    limits = SignInLimits()
    assert failures(limits, "ada", "192.0.2.1", 0.0) == PAIR.burst
    with pytest.raises(TooManyRequests) as caught:
        limits.begin("ada", "192.0.2.1", 1.0)
    assert caught.value.retry_after_s == 20
    # The person itself, elsewhere, is not locked out by that.
    limits.begin("ada", "192.0.2.2", 1.0)


def test_one_source_cannot_try_many_logins() -> None:
    limits = SignInLimits()
    tried = sum(failures(limits, f"user{i}", "192.0.2.1", 0.0) for i in range(100))
    assert tried == SOURCE.burst


def test_many_sources_cannot_guess_one_password() -> None:
    limits = SignInLimits()
    tried = sum(failures(limits, "ada", f"192.0.2.{i}", 0.0) for i in range(100))
    assert tried == LOGIN.burst


def test_a_refused_attempt_counts_for_nothing() -> None:
    limits = SignInLimits()
    failures(limits, "ada", "192.0.2.1", 0.0)
    for _ in range(500):
        with pytest.raises(TooManyRequests):
            limits.begin("ada", "192.0.2.1", 1.0)
    limits.begin("ada", "192.0.2.1", PAIR.every_s)


def test_a_success_gives_the_attempt_back() -> None:
    limits = SignInLimits()
    for _ in range(500):
        limits.begin("ada", "192.0.2.1", 0.0)
        limits.succeeded("ada", "192.0.2.1")
    assert failures(limits, "ada", "192.0.2.1", 0.0) == PAIR.burst


def test_requests_of_one_source_are_limited() -> None:
    limits = SignInLimits()
    for _ in range(REQUESTS.burst):
        limits.request("192.0.2.1", 0.0)
    with pytest.raises(TooManyRequests):
        limits.request("192.0.2.1", 0.0)
    limits.request("192.0.2.2", 0.0)


def test_memory_is_bounded_and_keeps_the_latest() -> None:
    counter = Counter(Rate(1, 1000.0))
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
