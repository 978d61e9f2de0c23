"""`RelaySession`: the side of the relay towards a host."""

from collections.abc import Mapping

from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    NOT_AUTHENTICATED,
    OUT_OF_ORDER,
    RESTART,
    Close,
)
from trunkline.protocol.relay.events import AgentsOffered, TokenOffered
from trunkline.protocol.relay.frames import (
    Agents,
    Hello,
    Leases,
    Limits,
    Reauth,
    Reauthed,
    Violation,
    Welcome,
    decode,
)
from trunkline.protocol.relay.opening_session import CannotOpen, OpeningSession
from trunkline.protocol.relay.session import SessionSettings


def read_hello(message: bytes | str, limits: Limits) -> Hello:
    """The first message of a connection. Raises Violation."""
    frame, _ = decode(message, max_bytes=limits.max_frame_bytes)
    if not isinstance(frame, Hello):
        raise Violation(BAD_FRAME, "the first frame of a host is hello")
    return frame


class RelaySession(OpeningSession):
    """A new one has no connection; `connect` gives it the first, and each later one."""

    def __init__(
        self,
        *,
        id: str,
        key: bytes,
        settings: SessionSettings,
        now: float,
    ) -> None:
        """`id` and `key` are random; the key signs the callers of the session."""
        super().__init__(settings, now=now, id=id, key=key)
        self.leases: Mapping[str, int] = {}
        # The running host that the session is of, as it says itself.
        self.host = ""
        self._token_ends_at: float | None = None
        self._owes_reauthed = False
        self._handlers |= {
            Agents: self._on_agents,
            Reauth: self._on_reauth,
        }

    def connect(self, hello: Hello, now: float, *, token_ends_at: float | None = None) -> None:
        """Take a connection whose host has sent this `hello`, and whose token ends at that time.

        A hello that asks for a session asks for this one: the owner has looked it up. A connection
        that the session still has is replaced.
        """
        resume = hello.resume
        is_resumed = resume is not None and resume.session == self.id
        if resume is not None and is_resumed and not self._outbox.rewind(resume.received):
            self._close(Close(OUT_OF_ORDER, f"frame {resume.received} cannot be the last one"))
            return
        self._token_ends_at = token_ends_at
        self.host = hello.host
        self._output.clear()
        welcome = Welcome(
            session=self.id,
            resumed=is_resumed,
            limits=self.limits,
            key=self._key.hex(),
            received=self._received,
            heartbeat_s=self.settings.heartbeat_s,
            resume_s=self.settings.resume_s,
            token_ends_in_s=self._token_lasts(now),
        )
        self._connect(hello.limits, now)
        self._push(welcome)
        self._wake()

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
        self._events.append(AgentsOffered(agents.agents))

    def _on_reauth(self, reauth: Reauth, _: bytes) -> None:
        self._events.append(TokenOffered(reauth.token))
