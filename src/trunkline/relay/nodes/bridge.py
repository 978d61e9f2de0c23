"""`Bridge`: a request of another relay node, passed on to the host that has the agent.

Nothing is read and nothing is kept: a piece of either body is taken from one session when the
other one has room for it.
"""

from typing import Any, Final

from trunkline.background import BackgroundTasks
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Opened, Piece
from trunkline.protocol.relay.hop_sessions import HolderSession
from trunkline.protocol.relay.opening_session import CannotOpen, OpeningSession
from trunkline.relay.carrier import Carrier, OpenStream, StreamCancelled


class Bridge:
    def __init__(
        self, hop: Carrier[HolderSession], opened: Opened, *, tasks: BackgroundTasks
    ) -> None:
        self._hop: Final = hop
        self._opened = opened
        self._tasks = tasks
        # Made at once, so that the pieces behind the request find it.
        self.stream: Final = hop.stream(opened.stream)

    @property
    def caller(self) -> Caller:
        return self._opened.caller

    @property
    def agent(self) -> str:
        return self._opened.agent

    def refuse(self, text: str) -> None:
        """The request has certainly not begun."""
        self.stream.cancel("refused", text)
        self.stream.close()

    async def serve(self, carrier: Carrier[Any]) -> None:
        """Pass the request on to the session of the host."""
        own: OpenStream | None = None
        try:
            first = await self.stream.next()
            # Otherwise the client has left.
            if isinstance(first, Piece):
                own, rest = self._open(carrier, first)
                await self._pass_on(own, rest, is_last=first.is_last)
        except CannotOpen as error:
            self.stream.cancel("refused", str(error))
        except StreamCancelled:
            # The client has left, or the other node. The host learns it when its stream is closed.
            pass
        finally:
            if own is not None:
                own.close()
            self.stream.close()

    def _open(self, carrier: Carrier[Any], first: Piece) -> tuple[OpenStream, bytes]:
        """The stream to the host, and what of the first piece is still to be sent. Raises
        CannotOpen."""
        session: OpeningSession = carrier.session
        opened, room = self._opened, session.first_room
        number = session.open(
            agent=opened.agent,
            caller=opened.caller,
            method=opened.method,
            target=opened.target,
            headers=opened.headers,
            task=opened.task,
            data=first.data[:room],
            is_last=first.is_last and len(first.data) <= room,
        )
        own = carrier.stream(number)
        carrier.flush()
        return own, first.data[room:]

    async def _pass_on(self, own: OpenStream, rest: bytes, *, is_last: bool) -> None:
        upload = self._tasks.start(
            self._upload(own, rest, is_last=is_last), name="pass a request on"
        )
        try:
            await self._download(own)
        finally:
            upload.cancel()

    async def _upload(self, own: OpenStream, rest: bytes, *, is_last: bool) -> None:
        try:
            if rest:
                await own.write(rest, is_last=is_last)
            while isinstance(event := await self.stream.next(), Piece):
                await own.write(event.data, is_last=event.is_last)
        except StreamCancelled:
            return
        assert isinstance(event, Cancelled)
        own.cancel("closed", event.text or event.reason)

    async def _download(self, own: OpenStream) -> None:
        is_over = False
        while not is_over:
            event = await own.next()
            match event:
                case Accepted():
                    # With the answer, where that has come as well.
                    self._hop.session.accept(self.stream.number)
                    if not own.has_event:
                        self._hop.flush()
                case Answered():
                    is_over = await self._answer(own, event)
                case Piece():
                    is_over = event.is_last
                    await self.stream.write(event.data, is_last=is_over)
                case Cancelled():
                    self._cancel(event)
                    is_over = True

    async def _answer(self, own: OpenStream, answered: Answered) -> bool:
        """Send the head, with the first piece of the body if that has come with it. Returns whether
        that was all."""
        room = await self.stream.room()
        event = await own.next() if own.has_event else None
        piece = event if isinstance(event, Piece) else Piece(self.stream.number, b"", False)
        first, rest = piece.data[:room], piece.data[room:]
        try:
            self._hop.session.answer(
                self.stream.number,
                status=answered.status,
                headers=answered.headers,
                data=first,
                is_last=piece.is_last and not rest,
            )
        except ValueError:
            self.stream.cancel("failed", "the head of the answer is too large")
            return True
        self._hop.flush()
        if rest:
            await self.stream.write(rest, is_last=piece.is_last)
        return piece.is_last

    def _cancel(self, end: Cancelled) -> None:
        if end.is_unsent:
            self.stream.cancel("refused", end.text)
        else:
            # What is lost here is no more than an unfinished request to the other node.
            self.stream.cancel("failed" if end.reason == "lost" else end.reason, end.text)
