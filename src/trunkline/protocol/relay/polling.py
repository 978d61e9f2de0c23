"""`Outgoing` and `Incoming`: the two directions of a connection that is made of HTTP requests.

Each direction counts its messages from 1. The sender keeps a message until the receiver has
confirmed it, and the receiver passes over what it has already. So a request or a response that is
lost can be repeated, and one that comes twice, or late, changes nothing.

A *batch* is the body of such a request or response: messages, each behind its length.
"""

from collections import deque
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE, Close
from trunkline.protocol.relay.frames import Violation

# Below the path of the WebSocket.
CONNECTIONS_PATH: Final = "/connections"
CONTENT_TYPE: Final = "application/octet-stream"
# Common proxies refuse bodies of more than 1 MB (nginx: client_max_body_size).
MAX_BATCH_BYTES: Final = 512 * 1024
# So that a batch of the smallest frames takes little time.
MAX_BATCH_MESSAGES: Final = 1024
# Common proxies give up after 60 s, some after 30 s.
POLL_S: Final = 20.0
_MAX_POLL_S: Final = 300.0
_LENGTH_BYTES: Final = 4


class Offer(Struct, frozen=True):
    """From the host, with the request that opens a connection: the protocols that it speaks."""

    protocols: tuple[str, ...]


class Opened(Struct, frozen=True, kw_only=True):
    """The answer to it."""

    connection: str
    protocol: str
    # A poll is answered within this time, whether or not there is a message.
    poll_s: Annotated[float, Meta(gt=0, le=_MAX_POLL_S)] = POLL_S


class Received(Struct, frozen=True):
    """The answer to a batch: the number of the last message that has come."""

    received: int


_decode_close: Final = msgspec.json.Decoder(Close).decode


def close_of(body: bytes) -> Close | None:
    """The close in the body of a response; None for one that is not of a relay."""
    try:
        return _decode_close(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Outgoing:
    """`last` is the number of the last message, `confirmed` of the last one that the receiver
    has."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self.bytes = 0
        self.confirmed = 0

    @property
    def last(self) -> int:
        return self.confirmed + len(self._messages)

    def add(self, message: bytes) -> None:
        self._messages.append(message)
        self.bytes += len(message)

    def confirm(self, number: int) -> bool:
        """False if the receiver cannot have just the messages up to this number."""
        if not self.confirmed <= number <= self.last:
            return False
        while self.confirmed < number:
            self.bytes -= len(self._messages.popleft())
            self.confirmed += 1
        return True

    def batch(self) -> tuple[bytes, int]:
        """A batch of the messages after `confirmed`, as many as fit, and the number of its last
        one."""
        pieces: list[bytes] = []
        size, count = 0, 0
        for message in self._messages:
            size += _LENGTH_BYTES + len(message)
            if count == MAX_BATCH_MESSAGES or (count and size > MAX_BATCH_BYTES):
                break
            pieces += (len(message).to_bytes(_LENGTH_BYTES, "big"), message)
            count += 1
        return b"".join(pieces), self.confirmed + count


class Incoming:
    """`received` is the number of the last message that has come."""

    def __init__(self) -> None:
        self.received = 0

    def take(self, first: int, batch: bytes) -> list[bytes] | None:
        """The messages of a batch that are new; `first` is the number of its first one. None for a
        batch that comes too early, because an earlier one is missing. Raises Violation."""
        if first > self.received + 1:
            return None
        new = messages_of(batch)[self.received + 1 - first :]
        self.received += len(new)
        return new


def batch_of(messages: Iterable[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(_LENGTH_BYTES, "big") + each for each in messages)


def messages_of(batch: bytes) -> list[bytes]:
    """Raises Violation."""
    if len(batch) > MAX_BATCH_BYTES:
        raise Violation(TOO_LARGE, f"a batch has more than {MAX_BATCH_BYTES} bytes")
    messages: list[bytes] = []
    start = 0
    while start < len(batch):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(batch[start:begin], "big")
        if begin > len(batch) or start > len(batch):
            raise Violation(BAD_FRAME, "a batch ends within a message")
        messages.append(batch[begin:start])
        if len(messages) > MAX_BATCH_MESSAGES:
            raise Violation(TOO_LARGE, f"a batch has more than {MAX_BATCH_MESSAGES} frames")
    return messages
