"""`OneUseCodes`: the codes in the URLs that open the page, in memory.

A code stands in a URL, which terminals and histories keep, so it counts once and for a short time.
"""

import hashlib
import hmac
import secrets
from typing import Final

from trunkline.engine.attempts import AttemptCounter, Rate
from trunkline.model.errors import TooManyRequests
from trunkline.ports.clock import Clock

# The code that `serve` prints, and one that `trunkline open` asks for.
FIRST_CODE_S: Final = 3600.0
CODE_S: Final = 120.0
# A person asks for one at a time; the oldest leaves first.
MAX_CODES: Final = 32
# 192 bits cannot be guessed. The limit keeps a program that tries from filling the log.
WRONG: Final = Rate(20, 2.0)


class OneUseCodes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When each code ends, by the monotonic clock and the SHA-256 of the code.
        self._ends: dict[bytes, float] = {}
        self._wrong = AttemptCounter(WRONG)

    def new(self, valid_s: float = CODE_S) -> str:
        code = secrets.token_urlsafe(24)
        now = self._clock.monotonic()
        self._ends = {digest: ends for digest, ends in self._ends.items() if ends > now}
        while len(self._ends) >= MAX_CODES:
            del self._ends[next(iter(self._ends))]
        self._ends[_digest(code)] = now + valid_s
        return code

    def redeem(self, code: str, source: str) -> bool:
        """Whether the code is valid, which ends it. `source` is where the request came from.
        Raises TooManyRequests after many wrong codes."""
        now = self._clock.monotonic()
        given = _digest(code)
        # All codes are compared, whichever of them it is.
        found = [digest for digest in self._ends if hmac.compare_digest(digest, given)]
        for digest in found:
            if self._ends.pop(digest) > now:
                return True
        # A valid code counts also behind many wrong ones: all programs of this machine have one
        # source, and none of them may keep the operator out.
        if wait_s := self._wrong.wait_s(source, now):
            raise TooManyRequests(
                "Too many wrong codes; wait and try again", retry_after_s=int(wait_s) + 1
            )
        self._wrong.take(source, now)
        return False

    def give_back(self, code: str) -> None:
        """A valid code that became no session counts again."""
        self._ends[_digest(code)] = self._clock.monotonic() + CODE_S


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
