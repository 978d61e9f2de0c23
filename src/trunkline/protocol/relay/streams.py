"""`Stream`: one HTTP exchange of a session, as one side of it sees it."""

from msgspec import Struct

from trunkline.protocol.relay.frames import PIECE_OVERHEAD_BYTES


class Stream(Struct, kw_only=True):
    """The half of each side ends by its last piece or by a cancel. The stream is over when both
    have ended."""

    number: int
    agent: str
    # The number of the frame that opened the stream, on the side that sent it.
    opened_by: int = 0
    # What this side may send, and what the peer may.
    credit: int
    granted: int
    # Of what the peer sent, the bytes that were read here and that no credit has returned.
    read: int = 0
    # Whether the head of the peer's half has come; pieces of its body follow it.
    peer_has_begun: bool = False
    is_accepted: bool = False
    has_ended: bool = False
    peer_has_ended: bool = False
    # Whether this side wants no more of the peer's half.
    is_cancelled: bool = False
    # Whether this side waits for credit.
    is_short: bool = False

    @property
    def is_over(self) -> bool:
        return self.has_ended and self.peer_has_ended

    def receive(self, size: int) -> bool:
        """Whether the peer had the credit for a piece of this size."""
        self.granted -= cost(size)
        return self.granted >= 0

    def consume(self, size: int, *, window: int) -> int:
        """A piece was read here. Returns the credit to give, which is 0 most of the time, so that
        not every piece is answered by a frame."""
        self.read += cost(size)
        if self.peer_has_ended or self.read < window // 2:
            return 0
        more, self.read = self.read, 0
        self.granted += more
        return more


def cost(size: int) -> int:
    """The credit that a piece of a body takes; an empty one, which only ends a body, takes none."""
    return size + PIECE_OVERHEAD_BYTES if size else 0
