"""`RecordedResponse`: a response that is recorded as it arrives, with its request."""

import asyncio

from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.wire_log import ClientTap, Exchange, HeaderLines, Start
from trunkline.remote.errors import RemoteError
from trunkline.remote.http.request import Request
from trunkline.remote.http.response import Response

_CLOSED = "The gateway closed the response before its end."


def begin_exchange(tap: ClientTap, request: Request) -> Exchange | None:
    """Record a request of the agent's backend. Called by what sends it, so that its turn is
    known."""
    if tap.recorder is None:
        return None
    start, _, rest = request.head.partition(b"\r\n")
    method, _, target = start.decode("utf-8", "replace").rpartition(" ")[0].partition(" ")
    path = CALL_PATH.get()
    exchange = tap.recorder.begin(
        Start(
            side="client",
            agent=tap.agent,
            binding="http",
            http_method=method,
            url=f"{request.origin}{target}",
            peer=request.origin.address,
            headers=_header_lines(rest),
            task_id=path.task_id,
            context_id=path.context_id,
            parent=path.wire_id,
        )
    )
    if exchange is not None and request.body:
        exchange.take_request(request.body)
    return exchange


def _header_lines(head: bytes) -> HeaderLines:
    lines = [line.partition(b":") for line in head.split(b"\r\n") if line]
    return [(name, value.strip()) for name, _, value in lines]


class RecordedResponse(Response):
    is_recorded = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        exchange: Exchange,
        *,
        max_bytes: int | None,
        is_reused: bool,
    ) -> None:
        super().__init__(loop, max_bytes=max_bytes, is_reused=is_reused)
        self._exchange = exchange

    def note_head(self, status: int, lines: HeaderLines) -> None:
        self._exchange.begin_response(status, lines)

    def take(self, data: bytes) -> None:
        if not self.is_over:
            self._exchange.take_response(data)
        super().take(data)

    def complete(self) -> None:
        self._exchange.end("" if self.error is None else self.error.message)
        super().complete()

    def fail(self, error: RemoteError) -> None:
        if not self.is_over:
            self._exchange.end(error.message)
        super().fail(error)

    def close(self) -> None:
        if not self.is_over:
            self._exchange.end(_CLOSED)
        super().close()
