"""`RateWindows`: how many queries each caller has sent to an agent in the current window.

They are in memory, for stores that belong to one process. A restart begins anew.
"""

from typing import Final

from msgspec import Struct

# Windows that are over are looked for when this many callers are known.
_MAX_CALLERS: Final = 10_000


class _Window(Struct, eq=False):
    ends_s: int
    # The ids of the attempts that count.
    attempts: set[str]


class RateWindows:
    def __init__(self) -> None:
        self._windows: dict[tuple[str, str], _Window] = {}
        self._next_look = _MAX_CALLERS

    def __len__(self) -> int:
        return len(self._windows)

    def count(self, agent: str, caller: str, attempt: str, *, ends_s: int, at_most: int) -> bool:
        """Count an attempt in the window that ends then; False when it has no room."""
        window = self._windows.get((agent, caller))
        if window is None or window.ends_s != ends_s:
            if len(self._windows) >= self._next_look:
                self._forget(ends_s)
            window = self._windows[agent, caller] = _Window(ends_s, set())
        if len(window.attempts) >= at_most:
            return False
        window.attempts.add(attempt)
        return True

    def uncount(self, agent: str, caller: str, attempt: str) -> None:
        window = self._windows.get((agent, caller))
        if window is not None:
            window.attempts.discard(attempt)

    def _forget(self, ends_s: int) -> None:
        """Forget the windows that ended before this one began, whatever their lengths."""
        self._windows = {key: each for key, each in self._windows.items() if each.ends_s >= ends_s}
        self._next_look = max(_MAX_CALLERS, 2 * len(self._windows))
