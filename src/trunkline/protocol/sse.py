"""Server-sent events: `frame` writes one, `Parser` reads a stream of them (WHATWG HTML, 9.2)."""

import re
from typing import Final

from msgspec import Struct

from trunkline.model.errors import InvalidAgentResponse

HEARTBEAT: Final = b": keep-alive\n\n"
HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # nginx would hold events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
)


def frame(data: bytes, *, id: int | None = None, event: str = "") -> bytes:
    """One event. The JSON of the gateway is one line, because some clients read each line alone."""
    head = b"" if id is None else b"id: %d\n" % id
    if event:
        head += b"event: %s\n" % event.encode()
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def comment(text: str) -> bytes:
    """A line that keeps the connection alive and that readers pass over."""
    return b": %b\n\n" % b" ".join(_LINE_END.split(text.encode()))


def gap(after: int, resumes_at: int) -> bytes:
    """Says that the events after `after` and before `resumes_at` are no longer kept."""
    return frame(b'{"after":%d,"resumesAt":%d}' % (after, resumes_at), event="gap")


class SseEvent(Struct, frozen=True, gc=False, kw_only=True):
    data: bytes
    event: str = "message"
    # The last id of the stream so far, to resume from.
    id: str = ""
    # Whether this event has the id.
    has_id: bool = False


_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
# A whole event as most servers write it: an id perhaps, and data of one line.
_usual = re.compile(rb"(?:id: ([^\n\0]*)\n)?data: ([^\n]*)\n\n").match


class Parser:
    """Bytes in, events out. The size of the chunks makes no difference.

    `feed` raises InvalidAgentResponse when one event grows beyond `max_event_bytes`; the parser
    cannot be used afterwards.
    """

    def __init__(self, *, max_event_bytes: int = 16 * 1024 * 1024) -> None:
        self._max_event_bytes = max_event_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._at_start = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._has_id = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        self._buffer += chunk
        if self._at_start:
            if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
                return []
            self._at_start = False
            if self._buffer.startswith(_BOM):
                del self._buffer[: len(_BOM)]
        events = self._take_lines()
        if len(self._buffer) + self._size > self._max_event_bytes:
            raise self._too_large()
        return events

    def _take_lines(self) -> list[SseEvent]:
        if not self._after_cr and self._buffer.find(b"\r", self._scanned) < 0:
            return self._take_plain_lines()
        buffer, events, start = self._buffer, [], 0
        if self._after_cr and buffer:
            # A CR at the end of the last chunk has ended its line, so an LF right after it belongs
            # to it.
            start = 1 if buffer[0] == 0x0A else 0
            self._after_cr = False
        for end in _LINE_END.finditer(buffer, max(start, self._scanned)):
            event = self._line(bytes(buffer[start : end.start()]))
            if event is not None:
                events.append(event)
            start = end.end()
            self._after_cr = end.group() == b"\r" and start == len(buffer)
        del buffer[:start]
        self._scanned = len(buffer)
        return events

    def _take_plain_lines(self) -> list[SseEvent]:
        """The same for lines that end with LF, as most servers write them."""
        end = self._buffer.rfind(b"\n") + 1
        if not end:
            self._scanned = len(self._buffer)
            return []
        text = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._scanned = len(self._buffer)
        events: list[SseEvent] = []
        start, is_between = 0, self._is_between()
        while start < end:
            if is_between and (usual := _usual(text, start)):
                id, data = usual.groups()
                if id is not None:
                    self._id = id.decode(errors="replace")
                if len(data) >= self._max_event_bytes:
                    raise self._too_large()
                events.append(SseEvent(data=data, id=self._id, has_id=id is not None))
                start = usual.end()
                continue
            line_end = text.index(b"\n", start)
            event = self._line(text[start:line_end])
            if event is not None:
                events.append(event)
            start, is_between = line_end + 1, self._is_between()
        return events

    def _is_between(self) -> bool:
        """Whether no field of the next event has arrived yet."""
        return not (self._data or self._event or self._has_id)

    def _too_large(self) -> InvalidAgentResponse:
        return InvalidAgentResponse(
            f"an event of the stream is larger than {self._max_event_bytes} bytes"
        )

    def _line(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._max_event_bytes:
                raise self._too_large()
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
            self._has_id = True
        return None

    def _dispatch(self) -> SseEvent | None:
        data, event, has_id = self._data, self._event, self._has_id
        self._data, self._event, self._size, self._has_id = [], "", 0, False
        if not data:
            return None
        return SseEvent(data=b"\n".join(data), event=event or "message", id=self._id, has_id=has_id)
