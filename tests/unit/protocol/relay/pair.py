"""`Pair`: a relay and a host, joined by a wire that a test cuts and delays."""

from collections import deque
from typing import Final

from trunkline.protocol.relay.accepting_session import read_hello
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.close_codes import REPLACED, Close
from trunkline.protocol.relay.events import (
    AgentsOffered,
    Cancelled,
    HostEvent,
    Opened,
    Piece,
    RelayEvent,
)
from trunkline.protocol.relay.host_session import HostSession
from trunkline.protocol.relay.relay_session import RelaySession
from trunkline.protocol.relay.session import Session, SessionSettings

ALICE: Final = Caller(id="jwt:alice")
KEY: Final = b"k" * 32
AGENT: Final = "acme/helper"


class Pair:
    """The relay leases every agent that it is offered."""

    def __init__(
        self,
        *,
        relay: SessionSettings = SessionSettings(),  # noqa: B008 - a frozen value
        host: SessionSettings = SessionSettings(),  # noqa: B008
        token_lasts_s: float | None = None,
    ) -> None:
        self.now = 1000.0
        self._settings = relay
        self._token_lasts_s = token_lasts_s
        self._sessions = 0
        self.relay = self._new_relay()
        self.host = HostSession(host, now=self.now, agents=[AGENT])
        self.to_relay: deque[bytes] = deque()
        self.to_host: deque[bytes] = deque()
        self.is_up = False
        self._has_greeted = False
        self.relay_events: list[RelayEvent] = []
        self.host_events: list[HostEvent] = []
        # The codes that connections were closed with.
        self.closes: list[int] = []

    def _new_relay(self) -> RelaySession:
        self._sessions += 1
        self._is_fresh = True
        return RelaySession(id=f"s{self._sessions}", key=KEY, settings=self._settings, now=self.now)

    def restart_relay(self) -> None:
        """The relay forgets the session."""
        self.cut()
        self.relay = self._new_relay()

    def dial(self) -> None:
        self.cut()
        self.is_up, self._has_greeted = True, False
        self.host.connect(self.now)
        self.collect()

    def cut(self) -> None:
        """Lose the connection, and all that is on its way."""
        if self.is_up:
            self.is_up = False
            self.to_relay.clear()
            self.to_host.clear()
            self.host.disconnect(self.now)
            self.relay.disconnect(self.now)
            self.collect()

    def collect(self) -> None:
        """Take what both have to say."""
        self._take_from_relay()
        for event in self.host.take_events():
            self.on_host_event(event)
        if self.is_up:
            self.to_host += self.relay.take_output()
            self.to_relay += self.host.take_output()
            self._close_if_asked(self.relay, self.host)
            self._close_if_asked(self.host, self.relay)

    def _take_from_relay(self) -> None:
        for event in self.relay.take_events():
            self.on_relay_event(event)
            if isinstance(event, AgentsOffered):
                self.relay.lease({agent: self._sessions for agent in event.agents})

    def on_relay_event(self, event: RelayEvent) -> None:
        self.relay_events.append(event)

    def on_host_event(self, event: HostEvent) -> None:
        self.host_events.append(event)

    def _close_if_asked(self, closes: Session, other: Session) -> None:
        if closes.closing is None or not self.is_up:
            return
        close, closes.closing = closes.closing, None
        self.closes.append(close.code)
        self.is_up = False
        self.to_relay.clear()
        self.to_host.clear()
        other.disconnect(self.now, close)
        self.collect()

    def deliver_to_relay(self) -> bool:
        if not self.to_relay:
            return False
        message = self.to_relay.popleft()
        if self._has_greeted:
            self.relay.receive(message, self.now)
        else:
            self._has_greeted = True
            self._greet(message)
        self.collect()
        return True

    def _greet(self, message: bytes) -> None:
        hello = read_hello(message, self._settings.limits)
        resume = hello.resume
        is_resumed = resume is not None and resume.session == self.relay.id
        if not self._is_fresh and (not is_resumed or self.relay.is_ended):
            self.relay.end(Close(REPLACED, "the host came again"))
            self._take_from_relay()
            self.relay = self._new_relay()
        self._is_fresh = False
        ends_at = None if self._token_lasts_s is None else self.now + self._token_lasts_s
        self.relay.connect(hello, self.now, token_ends_at=ends_at)

    def deliver_to_host(self) -> bool:
        if not self.to_host:
            return False
        self.host.receive(self.to_host.popleft(), self.now)
        self.collect()
        return True

    def settle(self) -> None:
        """Deliver until nothing is on its way."""
        self.collect()
        while self.deliver_to_relay() or self.deliver_to_host():
            pass

    def pass_time(self, seconds: float) -> None:
        """Each second both look at the time, and all that was sent arrives."""
        for _ in range(int(seconds)):
            self.now += 1
            self.relay.tick(self.now)
            self.host.tick(self.now)
            self.settle()

    def open(
        self, data: bytes = b"", *, is_last: bool = True, target: str = "/a2a", task: str = ""
    ) -> int:
        return self.relay.open(
            agent=AGENT,
            caller=ALICE,
            method="POST",
            target=target,
            headers=[("a2a-version", "1.0")],
            task=task,
            data=data,
            is_last=is_last,
        )

    def opened(self) -> list[Opened]:
        return [event for event in self.host_events if isinstance(event, Opened)]


def body(events: list[RelayEvent] | list[HostEvent], stream: int) -> tuple[bytes, bool]:
    """The body that has come on a stream, and whether it is complete."""
    pieces = [event for event in events if isinstance(event, Piece) and event.stream == stream]
    return b"".join(piece.data for piece in pieces), any(piece.is_last for piece in pieces)


def ends(events: list[RelayEvent] | list[HostEvent], stream: int) -> list[Cancelled]:
    return [event for event in events if isinstance(event, Cancelled) and event.stream == stream]
