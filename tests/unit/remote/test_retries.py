"""Retries and the circuit breaker."""

import pytest

from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    noted,
)
from trunkline.remote.retries import (
    OPEN_S,
    CircuitBreaker,
    Retrier,
    delay_s,
    may_retry,
    retry_after_s,
)
from trunkline.remote.target import Limits
from trunkline.testing import FakeClock

LATE = PeerTimeout("the agent took too long")


async def fail(attempts: Retrier, error: RemoteError) -> None:
    async def work(limits: Limits) -> None:
        raise error

    with pytest.raises(PeerTimeout):
        await attempts.make(work, Limits(), is_repeatable=False)


async def test_a_failure_that_many_waited_for_counts_once() -> None:
    clock, breaker = FakeClock(), CircuitBreaker(failures=2)
    attempts = Retrier(breaker, clock, lambda: 0.0)
    await fail(attempts, LATE)
    for _ in range(5):
        await fail(attempts, noted(LATE))
    was_open = breaker.is_open
    await fail(attempts, LATE)
    assert (was_open, breaker.is_open) == (False, True)
    # One of them may have been the one who was to find out whether the peer is back.
    await clock.advance(OPEN_S)
    await fail(attempts, noted(LATE))
    await fail(attempts, LATE)


def test_pauses_grow_are_spread_and_bounded() -> None:
    assert delay_s(0, 0.0) == pytest.approx(0.1)
    assert delay_s(0, 1.0) == pytest.approx(0.2)
    assert delay_s(1, 1.0) == pytest.approx(0.4)
    assert delay_s(1000, 1.0) == 10.0


def refused(status: int, retry_after_s: float | None = None) -> PeerRefused:
    error = PeerRefused("no", status=status)
    error.retry_after_s = retry_after_s
    return error


@pytest.mark.parametrize(
    ("error", "once", "repeatable"),
    [
        (PeerUnreachable("x", is_unsent=True), True, True),
        (PeerUnreachable("x"), False, True),
        (PeerUnreachable("x", reason="CIRCUIT_OPEN", is_unsent=True), False, False),
        (PeerTimeout("x", is_unsent=True), True, True),
        (PeerTimeout("x"), False, False),
        (refused(429), True, True),
        (refused(429, 31), False, False),
        (refused(503), False, True),
        (refused(503, 31), False, False),
        (refused(500), False, False),
        (refused(404), False, False),
        (BadPeerAnswer("x"), False, False),
    ],
)
def test_what_is_tried_again(error: RemoteError, once: bool, repeatable: bool) -> None:
    assert may_retry(error, is_repeatable=False) is once
    assert may_retry(error, is_repeatable=True) is repeatable


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("12", 12.0),
        (" 0 ", 0.0),
        ("Sun, 15 Jun 2025 15:06:50 GMT", 10.0),
        ("Sun, 15 Jun 2024 15:06:50 GMT", 0.0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after(header: str | None, expected: float | None) -> None:
    assert retry_after_s(header, 1_750_000_000_000) == expected


def test_a_circuit_opens_after_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(failures=2, open_s=10)
    breaker.failed(0)
    breaker.succeeded()
    breaker.failed(1)
    assert breaker.wait_s(1) == 0
    breaker.failed(2)
    assert breaker.is_open
    assert breaker.wait_s(3) == 9


def test_half_open_lets_one_probe_through() -> None:
    breaker = CircuitBreaker(failures=1, open_s=10)
    breaker.failed(0)
    assert breaker.wait_s(10) == 0
    assert breaker.wait_s(10) > 0, "the probe is out"
    breaker.failed(11)
    assert breaker.wait_s(12) == 9
    assert breaker.wait_s(21) == 0
    breaker.abandoned()
    assert breaker.wait_s(21) == 0, "a probe that told nothing is free again"
    breaker.succeeded()
    assert breaker.wait_s(21) == breaker.wait_s(21) == 0


@pytest.mark.parametrize(
    ("first", "is_unsent"),
    [
        (PeerUnreachable("broke off"), False),
        (refused(503), False),
        (refused(429), True),
        (PeerUnreachable("refused", is_unsent=True), True),
    ],
    ids=["broken", "answered", "not let in", "not reached"],
)
async def test_a_last_attempt_that_reached_nothing_does_not_speak_for_the_first(
    first: RemoteError, is_unsent: bool
) -> None:
    errors = [first, PeerUnreachable("refused", is_unsent=True)]

    async def work(limits: Limits) -> None:
        raise errors.pop(0)

    clock = Hasty()
    attempts = Retrier(CircuitBreaker(failures=9), clock, lambda: 0.0)
    with pytest.raises(PeerUnreachable) as error:
        await attempts.make(work, Limits(attempts=2), is_repeatable=True)
    assert errors == []
    assert error.value.is_unsent is is_unsent


class Hasty(FakeClock):
    """Makes no pauses."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)
