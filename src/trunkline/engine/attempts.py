"""`AttemptCounter`: how often each source may try a credential, in memory.

Each node of a cluster counts alone, so that a flood of attempts writes nothing to the store.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

# Entries of a table. The oldest leaves first, and one that has recovered is worth nothing.
_MAX_KEYS: Final = 20_000


class Rate(Struct, frozen=True):
    """`burst` attempts at once, then one more every `every_s` seconds."""

    burst: int
    every_s: float


class AttemptCounter:
    """How far ahead of its rate each key is."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        # When each key has recovered, by the monotonic clock.
        self._free_at: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, key: str, now: float) -> float:
        """The seconds until the next attempt; 0 if one may come now."""
        ahead = self._free_at.get(key, now) - now
        return max(0.0, ahead - (self._rate.burst - 1) * self._rate.every_s)

    def take(self, key: str, now: float) -> None:
        self._free_at[key] = max(self._free_at.pop(key, now), now) + self._rate.every_s
        if len(self._free_at) > _MAX_KEYS:
            self._free_at.popitem(last=False)

    def give_back(self, key: str) -> None:
        if key in self._free_at:
            self._free_at[key] -= self._rate.every_s


def source_of(address: str) -> str:
    """The source of a connection. A customer has a whole network of IPv6 addresses (/64)."""
    if ":" not in address:
        return address
    import ipaddress

    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
