"""`HostSession`: the side of the host, which dials."""

from collections.abc import Mapping, Sequence
from typing import Final

from trunkline.protocol.relay.close_codes import GOING_AWAY, Close
from trunkline.protocol.relay.dialing_session import DialingSession
from trunkline.protocol.relay.events import Leased, TokenWanted
from trunkline.protocol.relay.frames import (
    Agents,
    Hello,
    Leases,
    Reauth,
    Reauthed,
    Req,
    Resume,
    Welcome,
)
from trunkline.protocol.relay.serving_session import ServingSession
from trunkline.protocol.relay.session import SessionSettings

# A new token is wanted when this share of the last one's time is left, and at the latest this many
# seconds before its end.
_RENEW_SHARE: Final = 0.2
_RENEW_S: Final = 60.0


class HostSession(DialingSession, ServingSession):
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
        self._token_wanted_at: float | None = None
        self._handlers |= {
            Leases: self._on_leases,
            Reauthed: self._on_reauthed,
        }

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
        if not self.is_connected:
            return
        if self._token_wanted_at is not None and now >= self._token_wanted_at:
            self._token_wanted_at = None
            self._events.append(TokenWanted())
        if self._drained_at is not None and (
            now >= self._drained_at or not (self.leases or self.streams)
        ):
            self._close(Close(GOING_AWAY, "the host stops"))

    def _hello(self, resume: Resume | None) -> Hello:
        return Hello(self.limits, resume, self._host)

    def _begin(self, welcome: Welcome) -> None:
        super()._begin(welcome)
        self.leases = {}

    def _welcomed(self, welcome: Welcome) -> None:
        self._expect_end(welcome.token_ends_in_s)
        # So that the round trip is known from the beginning, and not only after a silence.
        self._ping()
        if not welcome.resumed:
            self.offer(self._agents)

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
