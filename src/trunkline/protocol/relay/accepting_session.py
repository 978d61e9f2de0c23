"""`AcceptingSession`: the side of a session that is dialled and greeted."""

from trunkline.protocol.relay.close_codes import BAD_FRAME, OUT_OF_ORDER, Close
from trunkline.protocol.relay.frames import Hello, Limits, Violation, Welcome, decode
from trunkline.protocol.relay.session import Session, SessionSettings


def read_hello(message: bytes | str, limits: Limits) -> Hello:
    """The first message of a connection. Raises Violation."""
    frame, _ = decode(message, max_bytes=limits.max_frame_bytes)
    if not isinstance(frame, Hello):
        raise Violation(BAD_FRAME, "the first frame of a connection is hello")
    return frame


class AcceptingSession(Session):
    """A new one has no connection; `connect` gives it the first, and each later one."""

    def __init__(
        self, settings: SessionSettings, *, now: float, id: str = "", key: bytes = b""
    ) -> None:
        """`id` is random, and the key signs callers."""
        super().__init__(settings, now=now)
        self.id = id
        self._key = key

    def _accept(self, hello: Hello, now: float) -> None:
        """Take a connection whose peer has sent this `hello`.

        A hello that asks for a session asks for this one: the owner has looked it up. A connection
        that the session still has is replaced.
        """
        resume = hello.resume
        is_resumed = resume is not None and resume.session == self.id
        if resume is not None and is_resumed and not self._outbox.rewind(resume.received):
            self._close(Close(OUT_OF_ORDER, f"frame {resume.received} cannot be the last one"))
            return
        self._output.clear()
        self._connect(hello.limits, now)
        self._push(self._welcome(now, is_resumed=is_resumed))
        self._wake()

    def _welcome(self, now: float, *, is_resumed: bool) -> Welcome:
        return Welcome(
            session=self.id,
            resumed=is_resumed,
            limits=self.limits,
            key=self._key.hex(),
            received=self._received,
            heartbeat_s=self.settings.heartbeat_s,
            resume_s=self.settings.resume_s,
        )
