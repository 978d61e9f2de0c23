"""`Tapped`: a request and its response while their agent is recorded or gets faults.

Both pass everything on, so that a request is served as without them.
"""

import re
from collections.abc import Sequence
from typing import Final

from trunkline.ports.wire_log import Binding, Exchange, Fault, HeaderLines, Start, Tap
from trunkline.server.calls import Call
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Request, Response
from trunkline.server.memory_budget import MemoryBudget

_LEFT: Final = "The client left before the end of the answer."
# An event larger than this is not sent twice.
_MAX_REPEATED_BYTES: Final = 1024 * 1024
_EVENT_END: Final = b"\n\n"
_HAS_DATA: Final = re.compile(rb"^data:", re.MULTILINE)
_EVENT_STREAM: Final = b"text/event-stream"


class TappedRequest(Request, kw_only=True):
    inner: Request
    exchange: Exchange | None = None

    @classmethod
    def of(cls, inner: Request, exchange: Exchange | None) -> "TappedRequest":
        return cls(
            inner.method,
            inner.path,
            inner.raw_path,
            inner.query,
            inner.header_lines,
            inner.headers,
            caller=inner.caller,
            is_local=inner.is_local,
            upgrade=inner.upgrade,
            wire_id="" if exchange is None else exchange.id,
            inner=inner,
            exchange=exchange,
        )

    @property
    def peer(self) -> str:
        return self.inner.peer

    @property
    def budget(self) -> MemoryBudget | None:
        return self.inner.budget

    def whole_body(self, *, limit: int) -> bytes | None:
        body = self.inner.whole_body(limit=limit)
        if body and self.exchange is not None:
            self.exchange.take_request(body)
        return body

    async def piece(self) -> tuple[bytes, bool]:
        piece = await self.inner.piece()
        if self.exchange is not None:
            self.exchange.take_request(piece[0])
        return piece

    async def disconnected(self) -> None:
        await self.inner.disconnected()

    async def ended(self) -> None:
        await self.inner.ended()


class TappedResponse(Response, kw_only=True):
    inner: Response
    request: TappedRequest
    tap: Tap
    exchange: Exchange | None = None
    is_stream: bool = False
    # Whether the connection is to break off.
    is_cut: bool = False
    has_ended: bool = False
    events: int = 0
    # The call, once it is known; the request for a card has none.
    call: Call | None = None
    card_operation: str = ""
    # The event that is not complete yet; None if it is too large to be sent twice.
    _begun: bytearray | None = None

    @property
    def is_lost(self) -> bool:
        return self.is_cut or self.inner.is_lost

    @property
    def fault(self) -> Fault | None:
        injection = self.tap.injection
        return None if injection is None else injection.fault

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        await self._delay()
        self._pass_caller_on()
        await self.inner.answer(status, *body, content_type=content_type, headers=headers)
        self.has_begun = self.has_ended = True
        if self.exchange is not None:
            self.name()
            size = b"%d" % sum(map(len, body))
            own = ((b"content-type", content_type), (CONTENT_LENGTH, size))
            self.exchange.begin_response(status, [*self.inner.own_headers(), *own, *headers])
            for piece in body:
                self.exchange.take_response(piece)

    async def begin(self, status: int, headers: Sequence[Header]) -> None:
        self._pass_caller_on()
        await self.inner.begin(status, headers)
        self.has_begun = True
        self.is_stream = any(
            name.lower() == b"content-type" and value.startswith(_EVENT_STREAM)
            for name, value in headers
        )
        if self.exchange is not None:
            self.name()
            self.exchange.begin_response(status, [*self.inner.own_headers(), *headers])

    def admit(self, size: int) -> None:
        self._pass_caller_on()
        self.inner.admit(size)

    async def write(self, data: bytes) -> None:
        if self.is_cut:
            raise Disconnected
        await self._delay()
        fault = self.fault
        if fault is not None and self.is_stream and data:
            await self._write_with(fault, data)
            return
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        self._pass_caller_on()
        await self.inner.write(data)
        if data and self.exchange is not None:
            self.exchange.take_response(data)

    async def _write_with(self, fault: Fault, data: bytes) -> None:
        """Write the events, some of them twice, up to the one after which the stream is cut."""
        # What goes out, and whether it is there because of the fault.
        out: list[tuple[bytes, bool]] = []
        cut_after = fault.cut_after_events
        is_cut = cut_after is not None and self.events >= cut_after
        at = 0
        while at < len(data) and not is_cut:
            end = data.find(_EVENT_END, at)
            piece = data[at:] if end < 0 else data[at : end + len(_EVENT_END)]
            at += len(piece)
            out.append((piece, False))
            event = self._grow(piece, is_whole=end >= 0)
            if event is None or not _HAS_DATA.search(event):
                continue
            self.events += 1
            if fault.duplicate_every and self.events % fault.duplicate_every == 0:
                out.append((event, True))
                self._note(f"event {self.events} was sent twice")
            is_cut = cut_after is not None and self.events >= cut_after
        self._pass_caller_on()
        # Also without an event, so that the client gets the head of the response.
        await self.inner.write(b"".join([piece for piece, _ in out]))
        if self.exchange is not None:
            for piece, is_injected in out:
                self.exchange.take_response(piece, is_injected=is_injected)
        if is_cut:
            self.is_cut = True
            self._note(f"the stream was cut after {self.events} events")
            # A response without an end: the connection is closed.
            raise Disconnected

    def _grow(self, piece: bytes, *, is_whole: bool) -> bytes | None:
        """The event that ends with the piece, or None."""
        begun = self._begun
        if is_whole:
            self._begun = None
            return piece if begun is None else bytes(begun + piece)
        if begun is None:
            begun = self._begun = bytearray()
        if len(begun) + len(piece) <= _MAX_REPEATED_BYTES:
            begun += piece
        return None

    async def end(self) -> None:
        if self.is_cut:
            return
        await self._delay()
        await self.inner.end()
        self.has_ended = True

    async def _delay(self) -> None:
        fault = self.fault
        if fault is not None and fault.delay_ms:
            self._note(f"{fault.delay_ms} ms were added before each write")
            await self.tap.clock.sleep(fault.delay_ms / 1000)

    def name(self) -> None:
        call = self.call
        if self.exchange is not None:
            self.exchange.name(
                operation=self.card_operation if call is None else call.operation or "",
                version="" if call is None else call.dialect.version,
                principal=self.request.caller,
            )

    def _note(self, text: str) -> None:
        if self.exchange is not None:
            self.exchange.note_fault(text)

    def _pass_caller_on(self) -> None:
        """The connection counts large answers by the caller of its own request."""
        self.request.inner.caller = self.request.caller


class Tapped:
    """One request of an agent with a tap."""

    def __init__(self, tap: Tap, binding: Binding, request: Request, response: Response) -> None:
        exchange = None
        if tap.recorder is not None:
            exchange = tap.recorder.begin(_start(tap.agent, binding, request))
        self.request = TappedRequest.of(request, exchange)
        self.response = TappedResponse(
            inner=response, request=self.request, tap=tap, exchange=exchange
        )

    def end(self) -> None:
        self.request.release()
        self.request.inner.caller = self.request.caller
        exchange, response = self.request.exchange, self.response
        if exchange is None:
            return
        if not response.has_begun:
            response.name()
        is_left = response.inner.is_lost or not response.has_ended
        exchange.end(_LEFT if is_left and not response.is_cut else "")


def _start(agent: str, binding: Binding, request: Request) -> Start:
    raw = request.raw_path
    path = request.path.encode("utf-8", "replace") if raw is None else raw.partition(b"?")[0]
    url = path + (b"?" + request.query if request.query else b"")
    headers: HeaderLines = request.header_lines
    return Start(
        side="server",
        agent=agent,
        binding=binding,
        http_method=request.method,
        url=url.decode("latin-1"),
        peer=request.peer,
        headers=headers,
    )
