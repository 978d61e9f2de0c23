"""`DialingSession`: the side of a session that dials and greets."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from trunkline.protocol.relay.close_codes import BAD_FRAME, OUT_OF_ORDER, SILENT, Close
from trunkline.protocol.relay.events import Welcomed
from trunkline.protocol.relay.frames import Frame, Hello, Resume, Violation, Welcome
from trunkline.protocol.relay.session import Session, SessionSettings

# Time for the peer to answer a hello.
GREETING_S: Final = 10.0


class DialingSession(Session):
    """One for all connections: where the peer does not resume the session, it begins anew."""

    def __init__(self, settings: SessionSettings, *, now: float) -> None:
        super().__init__(settings, now=now)
        self._key = b""
        self._last_stream = 0
        self._is_greeting = False
        self._greeted_at = now
        # There is no session before the first welcome.
        self.is_ended = True

    def connect(self, now: float) -> None:
        """Greet the peer on a new connection."""
        if self.is_connected:
            self.disconnect(now)
        self._now = self._greeted_at = now
        self.closing = None
        self._is_greeting = True
        self._push(self._hello(None if self.is_ended else Resume(self.id, self._received)))

    def tick(self, now: float) -> None:
        super().tick(now)
        if self._is_greeting and now - self._greeted_at >= GREETING_S:
            self._close(Close(SILENT, "the peer does not answer"))

    def disconnect(self, now: float, close: Close | None = None) -> None:
        if self._is_greeting:
            self._let_go()
        super().disconnect(now, close)

    @property
    def _is_listening(self) -> bool:
        return self.is_connected or self._is_greeting

    def _hello(self, resume: Resume | None) -> Hello:
        return Hello(self.limits, resume)

    def _handler_of(self, frame: Frame) -> Callable[[Any, bytes], None] | None:
        if self._is_greeting:
            return self._on_welcome if isinstance(frame, Welcome) else None
        return super()._handler_of(frame)

    def _let_go(self) -> None:
        self._is_greeting = False
        super()._let_go()

    def _on_welcome(self, welcome: Welcome, _: bytes) -> None:
        self._is_greeting = False
        if not welcome.resumed:
            self._begin(welcome)
        elif (
            self.is_ended or welcome.session != self.id or not self._outbox.rewind(welcome.received)
        ):
            raise Violation(OUT_OF_ORDER, "the peer resumes another session")
        self.settings = replace(
            self.settings, heartbeat_s=welcome.heartbeat_s, resume_s=welcome.resume_s
        )
        self._connect(welcome.limits, self._now)
        self._events.append(Welcomed(welcome.resumed))
        if welcome.resumed:
            self._wake()
        self._welcomed(welcome)

    def _welcomed(self, welcome: Welcome) -> None:
        """There is a connection, and maybe a new session."""

    def _begin(self, welcome: Welcome) -> None:
        """Begin a session in place of the one before."""
        if not self.is_ended:
            self._end("the peer does not have the session any more")
        try:
            self._key = bytes.fromhex(welcome.key)
        except ValueError:
            raise Violation(BAD_FRAME, "the key of a session is hexadecimal") from None
        self.id = welcome.session
        self.is_ended = False
        self._last_stream = self._received = 0
        self._outbox = self._new_outbox()
