"""`RelaySession`: the side of the relay towards a host."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from trunkline.protocol.relay.accepting_session import AcceptingSession
from trunkline.protocol.relay.close_codes import NOT_AUTHENTICATED, OVER_LIMIT, RESTART, Close
from trunkline.protocol.relay.events import AgentsOffered, TokenOffered
from trunkline.protocol.relay.frames import (
    Agents,
    Hello,
    Leases,
    Reauth,
    Reauthed,
    Violation,
    Welcome,
)
from trunkline.protocol.relay.opening_session import CannotOpen, OpeningSession
from trunkline.protocol.relay.session import SessionSettings

# A host may change its agents this many times at once, and then once in this many seconds.
MAX_OFFERS: Final = 10
OFFER_EVERY_S: Final = 1.0


class RelaySession(AcceptingSession, OpeningSession):
    def __init__(self, *, id: str, key: bytes, settings: SessionSettings, now: float) -> None:
        super().__init__(settings, now=now, id=id, key=key)
        self.leases: Mapping[str, int] = {}
        # The running host that the session is of, as it says itself.
        self.host = ""
        self._token_ends_at: float | None = None
        self._owes_reauthed = False
        # How many lists of agents it may still send now.
        self._offers = float(MAX_OFFERS)
        self._offered_at = now
        self._handlers |= {
            Agents: self._on_agents,
            Reauth: self._on_reauth,
        }

    def connect(self, hello: Hello, now: float, *, token_ends_at: float | None = None) -> None:
        """Take a connection whose host has sent this `hello`, and whose token ends at that time."""
        self._token_ends_at = token_ends_at
        self.host = hello.host
        self._accept(hello, now)

    def _welcome(self, now: float, *, is_resumed: bool) -> Welcome:
        welcome = super()._welcome(now, is_resumed=is_resumed)
        return replace(welcome, token_ends_in_s=self._token_lasts(now))

    def lease(self, epochs: Mapping[str, int]) -> None:
        """The session is reachable for these agents, with these epochs, and for no others."""
        if epochs != self.leases and not self.is_ended:
            self.leases = dict(epochs)
            self._add(Leases(self._number, self.leases))

    def renew(self, token_ends_at: float | None, now: float) -> None:
        """The token that was offered counts from now on."""
        self._now, self._token_ends_at = now, token_ends_at
        self._owes_reauthed = self.is_connected

    def take_output(self) -> list[bytes]:
        if self._owes_reauthed and self.is_connected:
            self._push(Reauthed(self._token_lasts(self._now)))
        self._owes_reauthed = False
        return super().take_output()

    def _epoch_of(self, agent: str) -> int:
        if self.is_ended or agent not in self.leases:
            raise CannotOpen("the agent is not attached")
        return self.leases[agent]

    def tick(self, now: float) -> None:
        super().tick(now)
        if not self.is_connected:
            return
        ends_at = self._token_ends_at
        if ends_at is not None and now >= ends_at + self.settings.token_grace_s:
            self._close(Close(NOT_AUTHENTICATED, "the token has ended"))
        elif self._drained_at is not None and now >= self._drained_at:
            self._close(Close(RESTART, "the relay stops"))

    def _token_lasts(self, now: float) -> float | None:
        return None if self._token_ends_at is None else max(0.0, self._token_ends_at - now)

    def _on_agents(self, agents: Agents, _: bytes) -> None:
        # Each costs the relay a lease, a card and a place in its store for each new agent.
        waited_s = self._now - self._offered_at
        self._offers = min(MAX_OFFERS, self._offers + waited_s / OFFER_EVERY_S) - 1
        self._offered_at = self._now
        if self._offers < 0:
            raise Violation(OVER_LIMIT, "the agents change too often")
        self._events.append(AgentsOffered(agents.agents))

    def _on_reauth(self, reauth: Reauth, _: bytes) -> None:
        self._events.append(TokenOffered(reauth.token))
