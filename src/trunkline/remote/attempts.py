"""How often a peer is tried: again where that is safe, and not at all while its circuit is open."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from trunkline.ports.clock import Clock
from trunkline.remote.breaker import Breaker
from trunkline.remote.errors import PeerUnreachable, RemoteError
from trunkline.remote.retries import delay_s, is_failure_of_peer, may_retry
from trunkline.remote.target import Limits

T = TypeVar("T")


class Attempts:
    def __init__(self, breaker: Breaker, clock: Clock, chance: Callable[[], float]) -> None:
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
        """The result of the first one that succeeds. Raises the RemoteError of the last.

        A probe finds out whether the peer is back, and so does not care for its circuit.
        """
        attempt = 0
        while True:
            try:
                if not is_probe:
                    self._check_circuit()
                result = await work(limits)
            except RemoteError as error:
                self._note(error)
                attempt += 1
                if attempt >= limits.attempts or not may_retry(error, is_repeatable=is_repeatable):
                    raise
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
        # Its clock is asked only when it matters.
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
