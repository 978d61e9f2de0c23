"""`V1AgentSession`: the side of an agent in protocol v1, over one connection.

Like `session`, it does no I/O and has no clock. There is nothing to resume: a request whose
connection is lost is never answered.
"""

import re
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from trunkline.protocol.relay.close_codes import (
    FORBIDDEN,
    NOT_AUTHENTICATED,
    SILENT,
    Close,
)
from trunkline.protocol.relay.frames import Violation
from trunkline.protocol.relay.v1 import frames as v1

# Time for the relay to answer the first frame.
GREETING_S: Final = 30.0
# Proxies forget connections on which nothing passes; some do not count WebSocket pings.
PING_S: Final = 25.0
# RFC 6455, 7.4.1: the relay has failed. After it the agent connects again.
_FAILED: Final = 1011
# What relays say of a token that they do not accept. The protocol has no codes for it.
_REFUSES_TOKEN: Final = re.compile(r"token|unauthori[sz]ed|authenticat|permission|forbidden", re.I)
_MAX_REASON_CHARS: Final = 100


class Greeted(Struct, frozen=True):
    """The relay has taken the agent, by this name."""

    agent: str


class Asked(Struct, frozen=True):
    """A request, to be answered by `answer`."""

    request: v1.RequestPayload


V1AgentEvent: TypeAlias = Greeted | Asked


class V1AgentSession:
    def __init__(self, *, agent: str, token: str, card: bytes, now: float) -> None:
        """`agent` is what the agent is called at the relay: tenant and id."""
        self.closing: Close | None = None
        self.is_greeted = False
        # What the relay has said before it closes the connection.
        self.trouble = ""
        # The ids of the requests that were not answered.
        self.asked: set[str] = set()
        self._agent = agent
        self._began_at = self._pinged_at = now
        tenant, _, id = agent.partition("/")
        auth = v1.Auth(token=token, tenant=tenant, agent_id=id, agent_card=Raw(card))
        self._output = [v1.encode(auth)]
        self._events: list[V1AgentEvent] = []

    def receive(self, message: bytes | str) -> None:
        """Take a message of the relay; `closing` is set when the connection is to be closed."""
        if self.closing is not None:
            return
        try:
            frame = v1.decode(message)
        except Violation as violation:
            self.closing = violation.close
            return
        match frame:
            case v1.AuthOk() if not self.is_greeted:
                self._on_auth_ok(frame)
            case v1.Failed(text):
                self._on_failed(text)
            case v1.Ping():
                self._output.append(v1.encode(v1.Pong()))
            case v1.Request(payload) if self.is_greeted and payload.id not in self.asked:
                self.asked.add(payload.id)
                self._events.append(Asked(payload))
            case _:
                return

    def answer(self, payload: v1.ResponsePayload) -> None:
        self.asked.discard(payload.id)
        self._output.append(v1.encode(v1.Response(payload)))

    def tick(self, now: float) -> None:
        if not self.is_greeted and now - self._began_at >= GREETING_S:
            self.closing = Close(SILENT, "the relay does not answer")
        elif self.is_greeted and now - self._pinged_at >= PING_S:
            self._pinged_at = now
            self._output.append(v1.encode(v1.Ping()))

    def take_events(self) -> list[V1AgentEvent]:
        events, self._events = self._events, []
        return events

    def take_output(self) -> list[str]:
        output, self._output = self._output, []
        return output

    def _on_auth_ok(self, ok: v1.AuthOk) -> None:
        # A relay that leaves out the names has taken those of the token, which cannot be seen.
        tenant, _, id = self._agent.partition("/")
        agent = f"{ok.tenant or tenant}/{ok.agent_id or id}"
        if agent != self._agent:
            self.closing = Close(
                FORBIDDEN,
                f"the token is for the agent {agent[:60]}, and [relay] names {self._agent[:60]}",
            )
            return
        self.is_greeted = True
        self._events.append(Greeted(agent))

    def _on_failed(self, text: str) -> None:
        text = text.encode("ascii", "replace")[:_MAX_REASON_CHARS].decode() or "it says no reason"
        self.trouble = f"the relay says: {text}"
        if self.is_greeted:
            # The code with which the relay closes the connection says whether to come back.
            return
        is_token = _REFUSES_TOKEN.search(text) is not None
        self.closing = Close(NOT_AUTHENTICATED if is_token else _FAILED, self.trouble)
