"""`WrongTokens`: limits how often a source may try wrong credentials.

Credentials that memory knows always pass, so that a flood from behind a proxy, or from a shared
address, locks out no caller that is in.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final

from trunkline.engine.attempts import AttemptCounter, Rate, source_of
from trunkline.model.errors import TooManyRequests, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock

# Several people and programs may share an address, and a program tries again at once.
RATE: Final = Rate(30, 2.0)


class WrongTokens:
    def __init__(self, *, clock: Clock, rate: Rate = RATE) -> None:
        self._clock = clock
        self._counter = AttemptCounter(rate)

    async def identify(
        self,
        address: str,
        *,
        known: Callable[[], Principal | None],
        identify: Callable[[], Awaitable[Principal | None]],
    ) -> Principal | None:
        """The principal of a request from the address; `known` asks memory alone. Raises
        TooManyRequests, and whatever `identify` raises."""
        source = source_of(address)
        if wait_s := self._counter.wait_s(source, self._clock.monotonic()):
            principal = known()
            if principal is not None:
                return principal
            raise TooManyRequests(
                "Too many credentials from your address were wrong; wait and try again",
                retry_after_s=math.ceil(wait_s),
            )
        try:
            return await identify()
        except Unauthenticated as error:
            if error.has_credential:
                self._counter.take(source, self._clock.monotonic())
            raise
