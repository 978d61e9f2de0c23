"""`RelaySession`: the side of the relay, which opens the streams."""

from collections.abc import Mapping, Sequence
from typing import Final

from trunkline.protocol.relay.callers import Caller, Request, sign
from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    NOT_AUTHENTICATED,
    OUT_OF_ORDER,
    RESTART,
    Close,
)
from trunkline.protocol.relay.events import Accepted, AgentsOffered, Answered, TokenOffered
from trunkline.protocol.relay.frames import (
    PIECE_OVERHEAD_BYTES,
    Accept,
    Agents,
    Header,
    Hello,
    Leases,
    Limits,
    Reauth,
    Reauthed,
    Req,
    Res,
    Violation,
    Welcome,
    decode,
)
from trunkline.protocol.relay.session import MAX_PIECE_BYTES, Session, SessionSettings
from trunkline.protocol.relay.streams import Stream


class CannotOpen(Exception):
    """The session takes no request for the agent now. The text says why."""


def read_hello(message: bytes | str, limits: Limits) -> Hello:
    """The first message of a connection. Raises Violation."""
    frame, _ = decode(message, max_bytes=limits.max_frame_bytes)
    if not isinstance(frame, Hello):
        raise Violation(BAD_FRAME, "the first frame of a host is hello")
    return frame


class RelaySession(Session):
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
        super().__init__(settings, now=now)
        self.id = id
        self._key: Final = key
        self.leases: Mapping[str, int] = {}
        self._last_stream = 0
        self._token_ends_at: float | None = None
        self._handlers |= {
            Agents: self._on_agents,
            Reauth: self._on_reauth,
            Accept: self._on_accept,
            Res: self._on_res,
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
        if self.is_connected:
            self._push(Reauthed(self._token_lasts(now)))

    def end(self, close: Close) -> None:
        """End the session: its token does not count, or another session has its agents now."""
        if self.is_connected:
            self._close(close)
        elif not self.is_ended:
            self._end(close.reason)

    @property
    def first_room(self) -> int:
        """The bytes of a body that `open` takes."""
        return min(self.peer_limits.stream_bytes - PIECE_OVERHEAD_BYTES, MAX_PIECE_BYTES)

    def open(
        self,
        *,
        agent: str,
        caller: Caller,
        method: str,
        target: str,
        headers: Sequence[Header],
        data: bytes = b"",
        is_last: bool = True,
    ) -> int:
        """The number of a new stream for a request, with the first piece of its body. Raises
        CannotOpen."""
        self._check_open(agent)
        number = self._last_stream + 1
        request = Request(session=self.id, stream=number, agent=agent, method=method, target=target)
        frame = Req(
            n=self._number,
            stream=number,
            agent=agent,
            epoch=self.leases[agent],
            caller=sign(caller, request, self._key),
            method=method,
            target=target,
            headers=tuple(headers),
            fin=is_last,
        )
        stream = Stream(
            number=number,
            agent=agent,
            opened_by=frame.n,
            credit=self.peer_limits.stream_bytes,
            granted=self.limits.stream_bytes,
        )
        self.streams[number] = stream
        try:
            self._send_piece(stream, frame, data, is_last=is_last)
        except ValueError as error:
            del self.streams[number]
            raise CannotOpen(str(error)) from None
        self._last_stream = number
        return number

    def _check_open(self, agent: str) -> None:
        if self.is_ended or agent not in self.leases:
            raise CannotOpen("the agent is not attached")
        if self.is_draining or self.peer_is_draining:
            raise CannotOpen("the agent is about to stop")
        most = min(self.limits.max_streams, self.peer_limits.max_streams)
        if len(self.streams) >= most:
            raise CannotOpen(f"the agent has {most} requests under way")
        if not self._outbox.room:
            raise CannotOpen("the agent is behind with what it was sent")

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

    def _on_accept(self, accept: Accept, _: bytes) -> None:
        stream = self._stream(accept.stream)
        if stream.is_accepted or stream.peer_has_ended:
            raise Violation(BAD_FRAME, f"stream {accept.stream} was accepted, or has ended")
        stream.is_accepted = True
        if not stream.is_cancelled:
            self._events.append(Accepted(accept.stream))

    def _on_res(self, res: Res, body: bytes) -> None:
        stream = self._stream(res.stream)
        if stream.peer_has_begun:
            raise Violation(BAD_FRAME, f"stream {res.stream} has a response")
        stream.peer_has_begun = stream.is_accepted = True
        if not stream.is_cancelled:
            self._events.append(Answered(res.stream, res.status, res.headers))
        self._receive_piece(stream, body, is_last=res.fin)
