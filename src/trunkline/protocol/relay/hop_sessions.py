"""`EntrySession` and `HolderSession`: the session between two relay nodes.

A call has come to the entry node, which dials the node that has the agent. Each of the entry's
streams is one request, as between relay and host, with the epoch of the lease that it has seen. One
session has the requests of one direction; for the other direction there is another session.
"""

import hmac
from collections.abc import Callable

from trunkline.protocol.relay.accepting_session import AcceptingSession
from trunkline.protocol.relay.close_codes import (
    GOING_AWAY,
    NOT_AUTHENTICATED,
    Close,
)
from trunkline.protocol.relay.dialing_session import DialingSession
from trunkline.protocol.relay.frames import Hello, Reason, Req, Violation, Welcome
from trunkline.protocol.relay.opening_session import CannotOpen, OpeningSession
from trunkline.protocol.relay.serving_session import ServingSession
from trunkline.protocol.relay.session import SessionSettings
from trunkline.protocol.relay.streams import Stream


class EntrySession(DialingSession, OpeningSession):
    def __init__(
        self,
        settings: SessionSettings,
        *,
        now: float,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_refused` is called with an agent to which a request has certainly not begun."""
        super().__init__(settings, now=now)
        # The epochs of the leases that the other node has, as far as this one knows.
        self.epochs: dict[str, int] = {}
        # The key that a new session has to have. The other node can only know it by the secret that
        # all of them share.
        self.expected_key = b""
        self._on_refused = on_refused

    def _begin(self, welcome: Welcome) -> None:
        if not hmac.compare_digest(welcome.key, self.expected_key.hex()):
            raise Violation(NOT_AUTHENTICATED, "what answers there is not the relay node")
        super()._begin(welcome)
        self.epochs.clear()
        self.peer_is_draining = False

    def _epoch_of(self, agent: str) -> int:
        if agent not in self.epochs:
            raise CannotOpen("the agent is not attached there")
        return self.epochs[agent]

    def _cancelled(self, stream: Stream, reason: Reason, text: str, *, is_unsent: bool) -> None:
        if is_unsent:
            self._on_refused(stream.agent)
        super()._cancelled(stream, reason, text, is_unsent=is_unsent)


class HolderSession(AcceptingSession, ServingSession):
    def connect(self, hello: Hello, now: float) -> None:
        """Take a connection of the entry node, which has sent this `hello`."""
        self._accept(hello, now)

    def end(self, text: str) -> None:
        """End the session, with its connection."""
        if self.is_connected:
            self._close(Close(GOING_AWAY, text))
        elif not self.is_ended:
            self._end(text)

    def _has(self, req: Req) -> bool:
        # Its owner compares the epoch with that of the lease.
        return True
