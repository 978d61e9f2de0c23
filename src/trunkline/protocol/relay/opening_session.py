"""`OpeningSession`: a session whose side opens the streams."""

from collections.abc import Sequence

from trunkline.protocol.relay.callers import Caller, Request, sign
from trunkline.protocol.relay.close_codes import BAD_FRAME, SILENT, Close
from trunkline.protocol.relay.events import Accepted, Answered
from trunkline.protocol.relay.frames import (
    PIECE_OVERHEAD_BYTES,
    Accept,
    Header,
    Req,
    Res,
    Violation,
)
from trunkline.protocol.relay.session import MAX_PIECE_BYTES, Session, SessionSettings
from trunkline.protocol.relay.streams import Stream


class CannotOpen(Exception):
    """The session takes no request for the agent now. The text says why."""


class OpeningSession(Session):
    def __init__(
        self, settings: SessionSettings, *, now: float, id: str = "", key: bytes = b""
    ) -> None:
        """The key signs the callers of the session."""
        super().__init__(settings, now=now)
        self.id = id
        self._key = key
        self._last_stream = 0
        self._handlers |= {Accept: self._on_accept, Res: self._on_res}

    def end(self, close: Close) -> None:
        """End the session, and its connection with this code."""
        if self.is_connected:
            self._close(close)
        elif not self.is_ended:
            self._end(close.reason)

    def tick(self, now: float) -> None:
        super().tick(now)
        if self.is_connected and self._outbox.last > self._outbox.acknowledged:
            self._check_peer(now)

    def _check_peer(self, now: float) -> None:
        """Leave a peer that is gone without a word much sooner than in quiet times, because callers
        wait for it."""
        waits_since = max(self._heard_at, self._moved_at)
        if self._pinged_at is None:
            if now - waits_since >= self.settings.ack_wait_s:
                self._ping()
        elif now - max(waits_since, self._pinged_at) >= self.settings.ping_wait_s:
            self._close(Close(SILENT, "the peer answers neither requests nor pings"))

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
        task: str = "",
        data: bytes = b"",
        is_last: bool = True,
    ) -> int:
        """The number of a new stream for a request, with the first piece of its body. `task` is the
        id of the task that the request delivers from the mailbox. Raises CannotOpen."""
        epoch = self._epoch_of(agent)
        self._check_open()
        number = self._last_stream + 1
        request = Request(
            session=self.id, stream=number, agent=agent, method=method, target=target, task=task
        )
        frame = Req(
            n=self._number,
            stream=number,
            agent=agent,
            epoch=epoch,
            caller=sign(caller, request, self._key),
            method=method,
            target=target,
            headers=tuple(headers),
            task=task,
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

    def _epoch_of(self, agent: str) -> int:
        """The epoch of the lease of an agent. Raises CannotOpen."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self.is_ended:
            raise CannotOpen("the session has ended")
        # A side that drains itself goes on until the peer has its agents elsewhere.
        if self.peer_is_draining:
            raise CannotOpen("the agent is about to stop")
        most = min(self.limits.max_streams, self.peer_limits.max_streams)
        if len(self.streams) >= most:
            raise CannotOpen(f"the agent has {most} requests under way")
        if not self._outbox.room:
            raise CannotOpen("the agent is behind with what it was sent")

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
