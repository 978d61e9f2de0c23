"""`HostSession`: the side of the host, which dials."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    GOING_AWAY,
    OUT_OF_ORDER,
    SILENT,
    Close,
)
from trunkline.protocol.relay.events import Leased, TokenWanted, Welcomed
from trunkline.protocol.relay.frames import (
    Agents,
    Frame,
    Hello,
    Leases,
    Reauth,
    Reauthed,
    Req,
    Resume,
    Violation,
    Welcome,
)
from trunkline.protocol.relay.serving_session import ServingSession
from trunkline.protocol.relay.session import SessionSettings

# Time for the relay to answer a hello.
GREETING_S: Final = 10.0
# A new token is wanted when this share of the last one's time is left, and at the latest this many
# seconds before its end.
_RENEW_SHARE: Final = 0.2
_RENEW_S: Final = 60.0


class HostSession(ServingSession):
    """One for the life of a host: where the relay does not resume the session, it begins anew."""

    def __init__(
        self,
        settings: SessionSettings,
        *,
        now: float,
        agents: Sequence[str] = (),
        host: str = "",
    ) -> None:
        """`host` tells the sessions of this running host from those of others."""
        super().__init__(settings, now=now)
        self._agents = tuple(agents)
        self._host = host
        self.leases: Mapping[str, int] = {}
        self._is_greeting = False
        self._greeted_at = now
        self._token_wanted_at: float | None = None
        # There is no session before the first welcome.
        self.is_ended = True
        self._handlers |= {
            Leases: self._on_leases,
            Reauthed: self._on_reauthed,
        }

    def connect(self, now: float) -> None:
        """Greet the relay on a new connection."""
        if self.is_connected:
            self.disconnect(now)
        self._now = self._greeted_at = now
        self.closing = None
        self._is_greeting = True
        resume = None if self.is_ended else Resume(self.id, self._received)
        self._push(Hello(self.limits, resume, self._host))

    def offer(self, agents: Sequence[str]) -> None:
        """The agents that the host has from now on."""
        self._agents = tuple(agents)
        if not self.is_ended:
            self._add(Agents(self._number, self._agents))

    def reauthenticate(self, token: str) -> None:
        if self.is_connected:
            self._push(Reauth(token))

    def drain(self, within_s: float, now: float, *, retry_after_s: float = 0.0) -> None:
        super().drain(within_s, now, retry_after_s=retry_after_s)
        if self._is_greeting:
            self._close(Close(GOING_AWAY, "the host stops"))

    def tick(self, now: float) -> None:
        super().tick(now)
        if self._is_greeting and now - self._greeted_at >= GREETING_S:
            self._close(Close(SILENT, "the relay does not answer"))
        if not self.is_connected:
            return
        if self._token_wanted_at is not None and now >= self._token_wanted_at:
            self._token_wanted_at = None
            self._events.append(TokenWanted())
        if self._drained_at is not None and (
            now >= self._drained_at or not (self.leases or self.streams)
        ):
            self._close(Close(GOING_AWAY, "the host stops"))

    def disconnect(self, now: float, close: Close | None = None) -> None:
        if self._is_greeting:
            self._let_go()
        super().disconnect(now, close)

    @property
    def _is_listening(self) -> bool:
        return self.is_connected or self._is_greeting

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
            raise Violation(OUT_OF_ORDER, "the relay resumes another session")
        self.settings = replace(
            self.settings, heartbeat_s=welcome.heartbeat_s, resume_s=welcome.resume_s
        )
        self._expect_end(welcome.token_ends_in_s)
        self._connect(welcome.limits, self._now)
        self._events.append(Welcomed(welcome.resumed))
        # So that the round trip is known from the beginning, and not only after a silence.
        self._ping()
        if welcome.resumed:
            self._wake()
        else:
            self.offer(self._agents)

    def _begin(self, welcome: Welcome) -> None:
        if not self.is_ended:
            self._end("the relay does not have the session any more")
        try:
            self._key = bytes.fromhex(welcome.key)
        except ValueError:
            raise Violation(BAD_FRAME, "the key of a session is hexadecimal") from None
        self.id = welcome.session
        self.is_ended = False
        self.leases = {}
        self._last_stream = self._received = 0
        self._outbox = self._new_outbox()

    def _on_leases(self, leases: Leases, _: bytes) -> None:
        self.leases = leases.epochs
        self._events.append(Leased(leases.epochs))

    def _on_reauthed(self, reauthed: Reauthed, _: bytes) -> None:
        self._expect_end(reauthed.token_ends_in_s)

    def _expect_end(self, ends_in_s: float | None) -> None:
        self._token_wanted_at = None
        if ends_in_s is not None:
            early_s = min(_RENEW_S, ends_in_s * _RENEW_SHARE)
            self._token_wanted_at = self._now + ends_in_s - early_s

    def _has(self, req: Req) -> bool:
        return self.leases.get(req.agent) == req.epoch
