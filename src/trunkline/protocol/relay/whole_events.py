"""`WholeEvents`: passes server-sent events on as whole ones.

Pieces of a stream end anywhere. If the stream breaks off within an event, an error that is written
behind the half event would be read as a part of it, and a client would resume behind an event that
it does not have (WHATWG HTML, 9.2.6: an event that is not complete is discarded).
"""

from typing import Final

# An event that grows beyond this passes as it comes.
MAX_HELD_BYTES: Final = 64 * 1024
_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = 4


class WholeEvents:
    def __init__(self) -> None:
        # The beginning of an event whose end has not come; of one that is torn, its last bytes.
        self._held = b""
        # Whether a part of an event was passed on, and its end was not.
        self.is_torn = False

    @property
    def rest(self) -> bytes:
        """What is left when the stream has ended."""
        return b"" if self.is_torn else self._held

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now."""
        known = self._held + data
        end = _end_of_last(known)
        rest = known[end:]
        if self.is_torn and not end:
            self._held = known[-_LONGEST_END + 1 :]
            return data
        if self.is_torn:
            self._held, self.is_torn = rest, False
            return data[: len(data) - len(rest)]
        if len(rest) > MAX_HELD_BYTES:
            self._held, self.is_torn = known[-_LONGEST_END + 1 :], True
            return known
        self._held = rest
        return known[:end]


def _end_of_last(data: bytes) -> int:
    """Where the last complete event ends; 0 if there is none."""
    return max(data.rfind(end) + len(end) if end in data else 0 for end in _ENDS)
