"""Retries of a call, and the circuit breaker of each peer."""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from trunkline.ports.clock import Clock
from trunkline.remote.errors import PeerRefused, PeerTimeout, PeerUnreachable, RemoteError
from trunkline.remote.target import Limits

T = TypeVar("T")
OPEN_S: Final = 30.0
_FIRST_S: Final = 0.2
_LONGEST_S: Final = 10.0
# A longer Retry-After is not waited for: the caller gets it with the error.
LONGEST_RETRY_AFTER_S: Final = 30.0
# Statuses of a proxy without its server, or of a server that is overloaded.
_PASSING: Final = frozenset({502, 503, 504})


def delay_s(attempt: int, chance: float) -> float:
    """Before the attempt after `attempt` (from 0): doubled each time, and spread by half."""
    whole: float = min(_LONGEST_S, _FIRST_S * 2 ** min(attempt, 16))
    return whole * (0.5 + chance / 2)


def may_retry(error: RemoteError, *, is_repeatable: bool) -> bool:
    """Whether trying again can do no harm. `is_repeatable`: twice is the same as once."""
    match error:
        case PeerRefused(status=429):
            # The peer refused the request before it did anything.
            return not _is_too_long(error)
        case PeerRefused():
            return is_repeatable and is_passing(error)
        case PeerUnreachable(reason="CIRCUIT_OPEN" | "CLOSED"):
            return False
        case PeerUnreachable() | PeerTimeout():
            return error.is_unsent or (is_repeatable and isinstance(error, PeerUnreachable))
        case _:
            return False


def is_failure_of_peer(error: RemoteError) -> bool:
    """Whether the circuit breaker counts it. A refusal or an invalid response is an answer."""
    if isinstance(error, PeerRefused):
        return error.status in _PASSING
    return isinstance(error, PeerUnreachable | PeerTimeout)


def is_passing(refusal: PeerRefused) -> bool:
    """Whether a later request may succeed."""
    return refusal.status in (*_PASSING, 429) and not _is_too_long(refusal)


def is_lost(refusal: PeerRefused) -> bool:
    """Whether a relay lost the agent amid its answer, as if the connection to it had broken.

    The status tells nothing: in a stream, the error comes after 200.
    """
    return refusal.reason == "AGENT_LOST" and not _is_too_long(refusal)


def _is_too_long(error: RemoteError) -> bool:
    return error.retry_after_s is not None and error.retry_after_s > LONGEST_RETRY_AFTER_S


def retry_after_s(header: str | None, now_ms: int) -> float | None:
    """The header as seconds from now; it may be a number or a date."""
    text = (header or "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, at - now_ms / 1000)


def _is_without_effect(error: RemoteError) -> bool:
    return error.is_unsent or (isinstance(error, PeerRefused) and error.status == 429)


def _with_earlier_attempt(error: RemoteError) -> RemoteError:
    """The last attempt did not reach the peer, but an earlier one may have."""
    again = copy(error).with_traceback(None)
    again.is_unsent = False
    return again


class CircuitBreaker:
    """Closed; open after `failures` in a row; half open for one probe after `open_s`.

    Times are the caller's, in seconds that never go back.
    """

    def __init__(self, *, failures: int, open_s: float = OPEN_S) -> None:
        self._limit = failures
        self._open_s = open_s
        self._failures = 0
        self._opened_at = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        return self._failures >= self._limit

    def wait_s(self, now: float) -> float:
        """0 if a call may go out now, which takes the probe if it is due; else the time to wait."""
        if not self.is_open:
            return 0.0
        left = self._opened_at + self._open_s - now
        if left > 0:
            return left
        if self._is_probing:
            return self._open_s
        self._is_probing = True
        return 0.0

    def succeeded(self) -> None:
        self._failures = 0
        self._is_probing = False

    def failed(self, now: float) -> None:
        self._failures += 1
        self._is_probing = False
        if self.is_open:
            self._opened_at = now

    def abandoned(self) -> None:
        """The call ended without any news about the peer."""
        self._is_probing = False


class Retrier:
    def __init__(self, breaker: CircuitBreaker, clock: Clock, chance: Callable[[], float]) -> None:
        self._breaker = breaker
        self._clock = clock
        self._chance = chance

    async def make(
        self,
        work: Callable[[Limits], Awaitable[T]],
        limits: Limits,
        *,
        is_repeatable: bool,
        is_probe: bool = False,
    ) -> T:
        """The result of the first attempt that succeeds. Raises the RemoteError of the last one.

        A probe finds out whether the peer is back, so it ignores an open circuit.
        """
        attempt = 0
        may_have_arrived = False
        while True:
            try:
                if not is_probe:
                    self._check_circuit()
                result = await work(limits)
            except RemoteError as error:
                self._note(error)
                attempt += 1
                if attempt >= limits.attempts or not may_retry(error, is_repeatable=is_repeatable):
                    if error.is_unsent and may_have_arrived:
                        raise _with_earlier_attempt(error) from None
                    raise
                may_have_arrived = may_have_arrived or not _is_without_effect(error)
                wait_s = error.retry_after_s
            except BaseException:
                self._breaker.abandoned()
                raise
            else:
                self._breaker.succeeded()
                return result
            if wait_s is None:
                wait_s = delay_s(attempt - 1, self._chance())
            await self._clock.sleep(wait_s)

    def _check_circuit(self) -> None:
        # A closed circuit does not need the clock.
        if not self._breaker.is_open:
            return
        wait_s = self._breaker.wait_s(self._clock.monotonic())
        if wait_s > 0:
            error = PeerUnreachable(
                "the agent failed several times in a row and is left alone for a while",
                reason="CIRCUIT_OPEN",
                is_unsent=True,
            )
            error.retry_after_s = wait_s
            raise error

    def _note(self, error: RemoteError) -> None:
        if error.reason == "CIRCUIT_OPEN":
            return
        if error.is_noted:
            self._breaker.abandoned()
            return
        if is_failure_of_peer(error):
            self._breaker.failed(self._clock.monotonic())
        else:
            self._breaker.succeeded()


class call_timeout:
    """A limit in time that raises PeerTimeout. A cancellation from outside passes through.

    `asyncio.timeout` does the same for 1.0 µs more CPU (1.6 with uvloop), which is 2 to 3 % of
    a call in `bench/clients.py`.
    """

    __slots__ = ("_cancelling", "_is_late", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_late = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = task.get_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_late = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._timer.cancel()
        if not self._is_late:
            return
        # Another cancellation that came meanwhile must not be lost.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise PeerTimeout(
                f"the agent did not answer within {self._seconds:g} s", reason="CALL_TIMEOUT"
            ) from None
