"""`SignInLimits`: how often sign-ins may fail, by login and by source, in memory.

Each node of a cluster counts alone, so that a flood of attempts writes nothing to the store.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from trunkline.model.errors import TooManyRequests

# Entries of a table. The oldest leaves first, and one that has recovered is worth nothing.
_MAX_KEYS: Final = 20_000


class Rate(Struct, frozen=True):
    """`burst` attempts at once, then one more every `every_s` seconds."""

    burst: int
    every_s: float


# A person mistypes a few times; a program that guesses gets 4,320 attempts a day from one source.
PAIR: Final = Rate(5, 20.0)
# Wide enough that others cannot lock a person out from a single address.
LOGIN: Final = Rate(30, 10.0)
# Many people may share an address.
SOURCE: Final = Rate(30, 2.0)
# Of anything that makes the gateway call a provider or read the store without a credential.
REQUESTS: Final = Rate(60, 0.5)


class Counter:
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


class SignInLimits:
    def __init__(self) -> None:
        self._requests = Counter(REQUESTS)
        self._failures = {
            "pair": Counter(PAIR),
            "login": Counter(LOGIN),
            "source": Counter(SOURCE),
        }

    def request(self, source: str, now: float) -> None:
        """Count a request of a source. Raises TooManyRequests."""
        if wait_s := self._requests.wait_s(source, now):
            raise _too_many(wait_s)
        self._requests.take(source, now)

    def begin(self, login: str, source: str, now: float) -> None:
        """Count an attempt before its password is checked, so that attempts at the same time count
        as well. Raises TooManyRequests, whether or not there is such a user."""
        keys = _keys(login, source)
        if wait_s := max(self._failures[name].wait_s(key, now) for name, key in keys.items()):
            raise _too_many(wait_s)
        for name, key in keys.items():
            self._failures[name].take(key, now)

    def succeeded(self, login: str, source: str) -> None:
        for name, key in _keys(login, source).items():
            self._failures[name].give_back(key)


def _keys(login: str, source: str) -> dict[str, str]:
    return {"pair": f"{login} {source}", "login": login, "source": source}


def _too_many(wait_s: float) -> TooManyRequests:
    return TooManyRequests(
        "Too many attempts to sign in; wait and try again", retry_after_s=int(wait_s) + 1
    )


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
