"""`RecordedExchange`: one exchange as it is recorded, within a bounded share of the wire log."""

import base64
import logging
import re
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol

from msgspec import Struct

from trunkline.console.wire.ids import ids_in, ids_in_path
from trunkline.console.wire.masking import Masker
from trunkline.console.wire.operations import named
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import (
    Direction,
    HeaderLines,
    Start,
    WireBody,
    WireFrame,
    WireRecord,
    WireSummary,
)

_log = logging.getLogger("trunkline.console.wire")

# What is kept of a body, and of each event or message.
MAX_KEPT_BYTES: Final = 256 * 1024
# The frames of an exchange that are kept: the first ones, and the last ones.
FIRST_FRAMES: Final = 200
LAST_FRAMES: Final = 200
# The share of the wire log that one exchange may take, so that a stream of large events does not
# push all others out.
SHARE: Final = 8
# What the objects of a record and of a frame take beside their texts, roughly.
_RECORD_BYTES: Final = 3072
_FRAME_BYTES: Final = 320
# An event ends with an empty line; the lines of a peer may end in any of three ways.
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_EVENT_STREAM: Final = "text/event-stream"
_FORM: Final = "application/x-www-form-urlencoded"

P = ParamSpec("P")


class Space(Protocol):
    """The wire log, as an exchange of it sees it."""

    @property
    def max_bytes(self) -> int: ...

    def grew(self, exchange: "RecordedExchange", size: int) -> None: ...

    def changed(self, exchange: "RecordedExchange") -> None: ...


def _guarded(
    method: "Callable[Concatenate[RecordedExchange, P], None]",
) -> "Callable[Concatenate[RecordedExchange, P], None]":
    """A fault of the recording ends the recording, and the request goes on."""

    @wraps(method)
    def guarded(self: "RecordedExchange", /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.is_dropped:
            return
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - logged; the request must not fail for it
            _log.exception("an exchange could not be recorded", extra={"agent": self.agent})
            self.is_dropped = True

    return guarded


class _Frame(Struct, frozen=True, gc=False):
    ms: float
    direction: Direction
    data: bytes
    size: int
    event_id: str
    event: str
    task_id: str
    parent: str
    is_injected: bool

    @property
    def held_bytes(self) -> int:
        return _FRAME_BYTES + len(self.data)

    def view(self) -> WireFrame:
        return WireFrame(
            ms=self.ms,
            direction=self.direction,
            data=self.data.decode("utf-8", "replace"),
            size=self.size,
            event_id=self.event_id,
            event=self.event,
            task_id=self.task_id,
            parent=self.parent,
            is_injected=self.is_injected,
        )


class _Body:
    """A body as it comes: the beginning is kept, and masked once it is whole."""

    __slots__ = ("_held", "_max_bytes", "_pieces", "is_cut", "kept", "size")

    def __init__(self, max_bytes: int) -> None:
        # With what is needed behind it to mask it.
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self.size = 0
        self.kept = b""
        self.is_cut = False

    def take(self, data: bytes) -> int:
        """Returns how much more is held."""
        self.size += len(data)
        piece = data[: self._max_bytes - self._held]
        if piece:
            # A copy, because the buffer of a caller may be much larger than the piece.
            self._pieces.append(bytes(piece))
            self._held += len(piece)
        return len(piece)

    def finish(self, masked: "Callable[[bytes, bool], tuple[bytes, bool]]") -> int:
        """Mask what has come. Returns how much less is held."""
        data, self._pieces = b"".join(self._pieces), []
        self.kept, self.is_cut = masked(data, self.size > len(data))
        held, self._held = self._held, 0
        self._max_bytes = 0
        return held - len(self.kept)

    @property
    def is_open(self) -> bool:
        return bool(self._pieces)

    def view(self) -> WireBody:
        try:
            return WireBody(size=self.size, text=self.kept.decode("utf-8"))
        except UnicodeDecodeError:
            return WireBody(size=self.size, base64=base64.b64encode(self.kept).decode())


class RecordedExchange:
    """It implements `ports.wire_log.Exchange`."""

    __slots__ = (
        "_at",
        "_began",
        "_begun",
        "_begun_size",
        "_clock",
        "_error",
        "_faults",
        "_first",
        "_first_bytes",
        "_frame_room",
        "_http_method",
        "_is_cut",
        "_is_stream",
        "_last",
        "_last_bytes",
        "_left_out",
        "_masker",
        "_ms",
        "_operation",
        "_parent",
        "_peer",
        "_principal",
        "_request",
        "_request_headers",
        "_request_type",
        "_response",
        "_response_headers",
        "_response_type",
        "_space",
        "_status",
        "_tail",
        "_url",
        "_version",
        "agent",
        "binding",
        "context_id",
        "events",
        "held_bytes",
        "id",
        "is_dropped",
        "is_over",
        "more_tasks",
        "side",
        "task_id",
    )

    def __init__(
        self, id: str, start: Start, *, masker: Masker, clock: Clock, space: Space
    ) -> None:
        self.id: Final = id
        self.side: Final = start.side
        self.agent: Final = start.agent
        self.binding = start.binding
        # Whether it has left the wire log, or could not be recorded further.
        self.is_dropped = False
        self.is_over = False
        self.held_bytes = _RECORD_BYTES
        self._masker = masker
        self._clock = clock
        self._space = space
        self._at = format_timestamp(clock.now_ms())
        self._began = clock.monotonic()
        self._ms: float | None = None
        self._http_method = start.http_method[:32]
        self._url = masker.url(start.url)[:8192]
        self._peer = start.peer
        self._operation = self._version = self._principal = ""
        self.task_id = start.task_id
        self.context_id = start.context_id
        self._parent = start.parent
        # The tasks of a WebSocket, over which several turns send.
        self.more_tasks: set[str] = set()
        self._status: int | None = None
        self._error = ""
        self._faults: list[str] = []
        self._request_headers = self._masked_headers(start.headers)
        self._response_headers: list[tuple[str, str]] = []
        self._request_type = _media_type(self._request_headers)
        self._response_type = ""
        room = MAX_KEPT_BYTES + masker.margin_chars
        self._frame_room = room
        self._request = _Body(room)
        self._response = _Body(room)
        self._is_stream = False
        self._is_cut = False
        # The event that is not complete yet: its beginning, its size, and its last bytes, in which
        # its end may begin.
        self._begun = bytearray()
        self._begun_size = 0
        self._tail = b""
        self.events = 0
        self._first: list[_Frame] = []
        self._last: deque[_Frame] = deque()
        self._first_bytes = self._last_bytes = 0
        self._left_out = 0
        self.held_bytes += sum(
            len(name) + len(value) + 128 for name, value in self._request_headers
        ) + len(self._url)

    @_guarded
    def name(self, *, operation: str, version: str, principal: str) -> None:
        self._operation, self._version = operation, version
        self._principal = self._masker.known(principal)

    @_guarded
    def take_request(self, data: bytes) -> None:
        self._hold(self._request.take(data))

    @_guarded
    def begin_response(self, status: int, headers: HeaderLines) -> None:
        # The request has been read, or will not be.
        self._finish(self._request, self._request_type)
        self._name_request()
        self._status = status
        self._response_headers = self._masked_headers(headers)
        self._response_type = _media_type(self._response_headers)
        self._is_stream = self._response_type == _EVENT_STREAM
        self._hold(sum(len(n) + len(v) + 128 for n, v in self._response_headers))
        if self._is_stream:
            # It may be open for long.
            self._space.changed(self)

    @_guarded
    def take_response(self, data: bytes, *, is_injected: bool = False) -> None:
        if not self._is_stream:
            self._hold(self._response.take(data))
            return
        self._response.size += len(data)
        at = 0
        # Its end may have begun with the bytes before.
        joined = self._tail + data
        offset = len(self._tail)
        while (found := _EVENT_END.search(joined, at)) is not None:
            self._grow(joined[max(at, offset) : found.end()])
            self._end_event(is_injected=is_injected)
            at = offset = found.end()
        rest = joined[max(at, offset) :]
        self._grow(rest)
        self._tail = joined[at:][-3:]

    @_guarded
    def take_message(
        self, data: str | bytes, direction: Direction, *, task_id: str = "", parent: str = ""
    ) -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
        if direction == "out":
            self._request.size += len(raw)
        else:
            self._response.size += len(raw)
        if task_id:
            if not self.task_id:
                self.task_id = task_id
            elif task_id != self.task_id:
                self.more_tasks.add(task_id)
        kept, is_cut = self._masked(raw[: self._frame_room], len(raw) > self._frame_room, "")
        self._is_cut = self._is_cut or is_cut
        self._add(self._frame(kept, len(raw), direction, task_id=task_id, parent=parent))

    @_guarded
    def note_fault(self, text: str) -> None:
        if text not in self._faults:
            self._faults.append(text)

    def end(self, error: str = "") -> None:
        if not self.is_over:
            self.is_over = True
            self._end(error)
            self._space.changed(self)

    @_guarded
    def _end(self, error: str) -> None:
        self._ms = self._elapsed_ms()
        self._error = self._masker.plain(error)[:1000]
        self._finish(self._request, self._request_type)
        self._name_request()
        self._finish(self._response, self._response_type)
        if self._begun_size and self._begun.strip():
            self._end_event(is_injected=False)
        self._tail = b""
        self._find_ids()

    def _name_request(self) -> None:
        """The server tells what a request is. Of one that a backend sends only its bytes tell."""
        if self.side == "client" and self.binding == "http" and not self._operation:
            version = _header(self._request_headers, "a2a-version")[:16]
            found = named(self._http_method, self._url, version, self._request.kept)
            self._operation, self._version = found.operation, found.version
            self.binding = found.binding

    def _finish(self, body: _Body, media_type: str) -> None:
        if body.is_open:
            less = body.finish(lambda data, is_cut: self._masked(data, is_cut, media_type))
            self._is_cut = self._is_cut or body.is_cut
            self._hold(-less)

    def _masked(self, data: bytes, is_cut: bool, media_type: str) -> tuple[bytes, bool]:
        """What is kept of the data, and whether that is not all. `is_cut` says whether more came
        behind the data; a secret at its end may then be there in part."""
        text = data.decode("utf-8", "surrogateescape")
        text = self._masker.body(text, is_form=media_type == _FORM)
        if is_cut:
            text = text[: -self._masker.margin_chars]
        kept = text.encode("utf-8", "surrogateescape")
        if len(kept) > MAX_KEPT_BYTES:
            kept, is_cut = kept[:MAX_KEPT_BYTES], True
            # A character at the end may be cut in two.
            kept = kept.decode("utf-8", "ignore").encode() if _is_text(data) else kept
        return kept, is_cut

    def _masked_headers(self, headers: HeaderLines) -> list[tuple[str, str]]:
        lines = []
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("utf-8", "replace")
            lines.append((self._masker.plain(name), self._masker.header(name, value)))
        return lines

    def _grow(self, data: bytes) -> None:
        if data:
            piece = data[: self._frame_room - len(self._begun)]
            self._begun += piece
            self._begun_size += len(data)
            self._hold(len(piece))

    def _end_event(self, *, is_injected: bool) -> None:
        data, size = bytes(self._begun), self._begun_size
        self._hold(-len(data))
        self._begun, self._begun_size = bytearray(), 0
        event_id, event, has_data = _fields(data[:4096])
        if has_data:
            self.events += 1
        kept, is_cut = self._masked(data, size > len(data), "")
        self._is_cut = self._is_cut or is_cut
        if has_data and not (self.task_id and self.context_id):
            self._note_ids(*ids_in(_data_of(kept)))
        direction: Direction = "out" if self.side == "server" else "in"
        self._add(
            self._frame(
                kept, size, direction, event_id=event_id, event=event, is_injected=is_injected
            )
        )

    def _frame(
        self,
        data: bytes,
        size: int,
        direction: Direction,
        *,
        event_id: str = "",
        event: str = "",
        task_id: str = "",
        parent: str = "",
        is_injected: bool = False,
    ) -> _Frame:
        return _Frame(
            self._elapsed_ms(),
            direction,
            data,
            size,
            self._masker.plain(event_id),
            self._masker.plain(event),
            task_id,
            parent,
            is_injected,
        )

    def _add(self, frame: _Frame) -> None:
        """Keep the first frames and the last ones."""
        share = self._space.max_bytes // SHARE
        size = frame.held_bytes
        if (
            not self._left_out
            and not self._last
            and len(self._first) < FIRST_FRAMES
            and self._first_bytes + size <= share // 2
        ):
            self._first.append(frame)
            self._first_bytes += size
            self._hold(size)
            return
        self._last.append(frame)
        self._last_bytes += size
        while len(self._last) > LAST_FRAMES or (
            self._last_bytes > share // 2 and len(self._last) > 1
        ):
            left = self._last.popleft().held_bytes
            self._last_bytes -= left
            size -= left
            self._left_out += 1
        self._hold(size)

    @property
    def messages(self) -> int:
        return len(self._first) + len(self._last) + self._left_out

    def _hold(self, size: int) -> None:
        if size:
            self.held_bytes += size
            self._space.grew(self, size)

    def drop(self) -> None:
        """Forget it: the wire log has no more room for it."""
        self.is_dropped = True
        self._request, self._response = _Body(0), _Body(0)
        self._begun, self._tail = bytearray(), b""
        self._first, self._last = [], deque()
        # What serves the request may keep this object for long.
        self._request_headers, self._response_headers = [], []
        self.more_tasks = set()
        self._url = ""

    def _elapsed_ms(self) -> float:
        return round((self._clock.monotonic() - self._began) * 1000, 3)

    def _find_ids(self) -> None:
        """The task and the context, from the answer or, where it has none, from the request."""
        if self.task_id and self.context_id:
            return
        if not self._is_stream and self.binding != "websocket":
            self._note_ids(*ids_in(self._response.kept))
        if not (self.task_id and self.context_id):
            self._note_ids(*ids_in(self._request.kept))
        if not self.task_id and self.binding == "rest":
            self.task_id = ids_in_path(self._url)

    def _note_ids(self, task_id: str, context_id: str) -> None:
        self.task_id = self.task_id or task_id
        self.context_id = self.context_id or context_id

    def is_of_task(self, task_id: str) -> bool:
        return task_id == self.task_id or task_id in self.more_tasks

    def texts(self) -> "list[bytes]":
        """All in which a search looks."""
        headers = [*self._request_headers, *self._response_headers]
        heads = "\n".join([f"{name}: {value}" for name, value in headers])
        summary = self.summary()
        words = (summary.url, summary.operation, summary.task_id, summary.context_id)
        more = (summary.principal, summary.error, summary.fault, summary.peer, self.id, self.agent)
        return [
            "\n".join((*words, *more, heads)).encode("utf-8", "replace"),
            self._request.kept,
            self._response.kept,
            *(frame.data for frame in self._first),
            *(frame.data for frame in self._last),
        ]

    def _summary_fields(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "side": self.side,
            "agent": self.agent,
            "at": self._at,
            "ms": self._ms,
            "operation": self._operation,
            "binding": self.binding,
            "version": self._version,
            "http_method": self._http_method,
            "url": self._url,
            "peer": self._peer,
            "status": self._status,
            "request_bytes": self._request.size,
            "response_bytes": self._response.size,
            "events": self.messages if self.binding == "websocket" else self.events,
            "task_id": self.task_id,
            "context_id": self.context_id,
            "principal": self._principal,
            "parent": self._parent,
            "error": self._error,
            "fault": "; ".join(self._faults),
        }

    def summary(self) -> WireSummary:
        return WireSummary(**self._summary_fields())

    def record(self) -> WireRecord:
        return WireRecord(
            **self._summary_fields(),
            request_headers=[[*line] for line in self._request_headers],
            request_body=self._request.view(),
            truncated=self._is_cut,
            response_headers=[[*line] for line in self._response_headers],
            response_body=self._response.view(),
            frames=[frame.view() for frame in (*self._first, *self._last)],
            frames_left_out=self._left_out,
            frames_before_gap=len(self._first),
        )


def _header(headers: list[tuple[str, str]], wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")


def _media_type(headers: list[tuple[str, str]]) -> str:
    return _header(headers, "content-type").partition(";")[0].strip().lower()


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # The end of what was kept may be in the middle of a character.
        return error.start >= len(data) - 3
    return True


def _lines(event: bytes) -> list[bytes]:
    return event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _fields(event: bytes) -> tuple[str, str, bool]:
    """The id and the name of a server-sent event, and whether it has data, as a comment has not."""
    event_id = name = ""
    has_data = False
    for line in _lines(event):
        field, _, value = line.partition(b":")
        if field == b"data":
            has_data = True
        elif field in (b"id", b"event"):
            text = value.removeprefix(b" ").decode("utf-8", "replace")[:256]
            event_id, name = (text, name) if field == b"id" else (event_id, text)
    return event_id, name, has_data


def _data_of(event: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in _lines(event) if line.startswith(b"data:")]
    return b"\n".join(lines)
