"""`Reconnects`: when a host tries again to reach a relay. `wanted`: which of its relays it keeps.

Waits grow from half a second to a minute, each a random part of its limit, so that the hosts of a
relay that has restarted do not come back all at once.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 60.0
# A relay may ask for this at most, so that a wrong number keeps no host away for ever.
LONGEST_ASKED_S: Final = 3600.0
# A connection that lasted shorter counts as another failure.
STABLE_S: Final = 10.0
# Hosts that a relay asks to wait come back spread over this time after it: short, because such a
# relay is about to be back, and long enough for thousands of hosts.
ASKED_SPREAD_S: Final = 4.0
# A relay that does not have the host after this time counts as failing, though no attempt has
# failed: a network that drops packets takes longer to show it.
PATIENCE_S: Final = 3.0


class Reconnects:
    def __init__(self) -> None:
        self._failures = 0
        self._connected_at: float | None = None

    def connected(self, now: float) -> None:
        self._connected_at = now

    def failed(self, now: float, chance: float, *, retry_after_s: float = 0.0) -> float:
        """The seconds to wait after an attempt has failed, or a connection was lost. `chance` is a
        random number from 0 to 1; the relay may have said `retry_after_s`, and then it works, and
        the attempt counts as no failure."""
        if self._connected_at is not None and now - self._connected_at >= STABLE_S:
            self._failures = 0
        self._connected_at = None
        if retry_after_s > 0:
            return min(retry_after_s, LONGEST_ASKED_S) + chance * ASKED_SPREAD_S
        # The exponent is limited, so that a relay that is away for days costs no large numbers.
        limit = min(FIRST_S * 2.0 ** min(self._failures, 16), LONGEST_S)
        self._failures += 1
        return chance * limit


class Health(Enum):
    """What a host knows of one of its relays."""

    # The first attempt is under way, or a lost connection is made again.
    TRYING = "trying"
    FAILING = "failing"
    ATTACHED = "attached"
    # Attached for `STABLE_S`.
    STABLE = "stable"


def wanted(relays: Sequence[Health], *, kept: int) -> int:
    """How many of its relays, from the first, a host keeps, where it has kept `kept` until now.

    It begins with the first one, and adds the next while all before it are failing. It leaves those
    behind a relay that has been stable, and not before, so that its agents are never without one.
    """
    for count, health in enumerate(relays, start=1):
        if health is Health.STABLE:
            return count
        if health is not Health.FAILING:
            return max(count, kept)
    return len(relays)
