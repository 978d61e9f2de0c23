"""`ServingSession`: a session whose side serves the streams that the other one opens."""

from collections.abc import Sequence

from trunkline.protocol.relay.callers import Request, verify
from trunkline.protocol.relay.close_codes import BAD_FRAME, OVER_LIMIT
from trunkline.protocol.relay.events import Opened
from trunkline.protocol.relay.frames import Accept, Header, Req, Res, Violation
from trunkline.protocol.relay.session import Session, SessionSettings
from trunkline.protocol.relay.streams import Stream


class ServingSession(Session):
    def __init__(self, settings: SessionSettings, *, now: float) -> None:
        super().__init__(settings, now=now)
        # What the peer signs callers with.
        self._key = b""
        self._last_stream = 0
        self._handlers |= {Req: self._on_req}

    def accept(self, stream: int) -> None:
        """The request has begun and must not be sent again elsewhere."""
        state = self.streams.get(stream)
        if state is not None and not (state.is_accepted or state.has_ended):
            state.is_accepted = True
            self._add(Accept(self._number, stream))

    def answer(
        self,
        stream: int,
        *,
        status: int,
        headers: Sequence[Header],
        data: bytes = b"",
        is_last: bool = False,
    ) -> None:
        """The response, with the first piece of its body, for which there must be `room`. Raises
        ValueError for a head that is too large."""
        frame = Res(
            n=self._number, stream=stream, status=status, headers=tuple(headers), fin=is_last
        )
        self._send_piece(self.streams[stream], frame, data, is_last=is_last)

    def _has(self, req: Req) -> bool:
        """Whether this side takes requests to the agent, with the epoch of this one."""
        raise NotImplementedError

    def _on_req(self, req: Req, body: bytes) -> None:
        if req.stream != self._last_stream + 1:
            raise Violation(BAD_FRAME, f"the next stream is {self._last_stream + 1}")
        if len(self.streams) >= self.limits.max_streams:
            raise Violation(OVER_LIMIT, f"there are {self.limits.max_streams} streams")
        self._last_stream = req.stream
        stream = Stream(
            number=req.stream,
            agent=req.agent,
            credit=self.peer_limits.stream_bytes,
            granted=self.limits.stream_bytes,
            peer_has_begun=True,
        )
        self.streams[req.stream] = stream
        request = Request(
            session=self.id,
            stream=req.stream,
            agent=req.agent,
            method=req.method,
            target=req.target,
            task=req.task,
        )
        caller = verify(req.caller, request, self._key)
        if caller is None:
            self.cancel(req.stream, "refused", "the caller is not signed for this request")
        elif self.is_draining or not self._has(req):
            self.cancel(req.stream, "refused", "the agent is not here any more")
        else:
            self._events.append(
                Opened(
                    stream=req.stream,
                    agent=req.agent,
                    epoch=req.epoch,
                    caller=caller,
                    method=req.method,
                    target=req.target,
                    headers=req.headers,
                    task=req.task,
                )
            )
        self._receive_piece(stream, body, is_last=req.fin)
