import pytest

from trunkline.remote.attempts import Attempts
from trunkline.remote.breaker import OPEN_S, Breaker
from trunkline.remote.errors import PeerTimeout, RemoteError, noted
from trunkline.remote.target import Limits
from trunkline.testing import FakeClock

LATE = PeerTimeout("the agent took too long")


async def fail(attempts: Attempts, error: RemoteError) -> None:
    async def work(limits: Limits) -> None:
        raise error

    with pytest.raises(PeerTimeout):
        await attempts.make(work, Limits(), is_repeatable=False)


async def test_a_failure_that_many_waited_for_counts_once() -> None:
    clock, breaker = FakeClock(), Breaker(failures=2)
    attempts = Attempts(breaker, clock, lambda: 0.0)
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
