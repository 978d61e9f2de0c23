"""How often sign-ins may fail, by login and by source."""

import pytest

from trunkline.hub.sign_in_limits import (
    LOGIN,
    PAIR,
    REQUESTS,
    SOURCE,
    SignInLimits,
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
