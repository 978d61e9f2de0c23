"""`SignInLimits`: how often sign-ins may fail, by login and by source, in memory.

Each node of a cluster counts alone, so that a flood of attempts writes nothing to the store.
"""

from typing import Final

from trunkline.engine.attempts import AttemptCounter, Rate
from trunkline.model.errors import TooManyRequests

# A person mistypes a few times; a program that guesses gets 4,320 attempts a day from one source.
PAIR: Final = Rate(5, 20.0)
# Wide enough that others cannot lock a person out from a single address.
LOGIN: Final = Rate(30, 10.0)
# Many people may share an address.
SOURCE: Final = Rate(30, 2.0)
# Of anything that makes the gateway call a provider or read the store without a credential.
REQUESTS: Final = Rate(60, 0.5)


class SignInLimits:
    def __init__(self) -> None:
        self._requests = AttemptCounter(REQUESTS)
        self._failures = {
            "pair": AttemptCounter(PAIR),
            "login": AttemptCounter(LOGIN),
            "source": AttemptCounter(SOURCE),
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
