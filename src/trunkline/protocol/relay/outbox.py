"""`Outbox`: the numbered frames that were sent and not acknowledged; `Turns`: who may add to it.

They are what one side keeps for a resume, and what limits how much is on its way.
"""

from collections import deque


class Outbox:
    """`last` is the number of the last frame, `acknowledged` of the last one that the peer has, and
    `written` of the last one that the connection has taken."""

    def __init__(self, *, max_frames: int, max_bytes: int) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self.bytes = 0
        self.acknowledged = 0
        self.written = 0

    @property
    def last(self) -> int:
        return self.acknowledged + len(self._frames)

    @property
    def room(self) -> int:
        """The bytes that bodies may take now. Frames without a body always find room: the number
        of streams limits how many there can be."""
        if len(self._frames) >= self._max_frames:
            return 0
        return max(0, self._max_bytes - self.bytes)

    def add(self, frame: bytes) -> None:
        """The frame has the number after `last`."""
        self._frames.append(frame)
        self.bytes += len(frame)

    def write(self) -> list[bytes]:
        """The frames that the connection has not taken yet. It takes them now."""
        start = self.written - self.acknowledged
        self.written = self.last
        return [self._frames[index] for index in range(start, len(self._frames))]

    def acknowledge(self, number: int) -> bool:
        """False if the peer cannot have received just the frames up to this number."""
        if not self.acknowledged <= number <= self.written:
            return False
        while self.acknowledged < number:
            self.bytes -= len(self._frames.popleft())
            self.acknowledged += 1
        return True

    def rewind(self, received: int) -> bool:
        """Have another connection take the frames after `received`, which is all that the peer
        has. False as for `acknowledge`."""
        if not self.acknowledge(received):
            return False
        self.written = received
        return True


class Turns:
    """Streams that wait for room in the outbox, first come, first served."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        # Those whose turn it is, and who have not used it yet.
        self._called: set[int] = set()

    @property
    def are_waited_for(self) -> bool:
        return bool(self._waiting)

    def ask(self, stream: int, *, has_room: bool) -> bool:
        """Whether the stream may add a piece now; else it waits for its turn."""
        if has_room and (stream in self._called or not self._waiting):
            return True
        self._called.discard(stream)
        self._waiting[stream] = None
        return False

    def give(self, pieces: int) -> list[int]:
        """The streams whose turn it is, now that there is room for this many pieces."""
        called: list[int] = []
        while self._waiting and len(self._called) < pieces:
            stream = next(iter(self._waiting))
            del self._waiting[stream]
            self._called.add(stream)
            called.append(stream)
        return called

    def end(self, stream: int) -> None:
        """The stream has used its turn, or wants none."""
        self._waiting.pop(stream, None)
        self._called.discard(stream)
