"""HTTP/1.1 responses from bytes: as little parsing as a load generator can get away with."""

# A line that holds nothing but the zero of the last chunk. A2A bodies are JSON and SSE lines,
# neither of which has such a line, so the end of a stream is seen without decoding its chunks.
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class BadResponse(Exception):
    """The server sent something this reader does not take for an HTTP/1.1 response."""


class Response:
    """One response on a keep-alive connection: feed it until it is complete, then read `body`."""

    __slots__ = ("_body_at", "_buffer", "_chunked", "_end")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_at = 0  # 0: the head is not there yet
        self._end = 0
        self._chunked = False

    def feed(self, data: bytes | memoryview) -> bool:
        """Take what arrived; True once the response is complete."""
        buffer = self._buffer
        buffer += data
        if not self._body_at and not self._read_head():
            return False
        if self._chunked:
            return buffer.endswith(_LAST_CHUNK)
        return len(buffer) >= self._end

    def _read_head(self) -> bool:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        if not self._buffer.startswith(b"HTTP/1.1 "):
            raise BadResponse(bytes(self._buffer[:80]))
        self._body_at = head_end + 4
        head = bytes(self._buffer[: head_end + 2]).lower()
        at = head.find(b"\r\ncontent-length:")
        if at >= 0:
            at += 17
            self._end = self._body_at + int(head[at : head.index(b"\r\n", at)])
        elif b"\r\ntransfer-encoding: chunked\r\n" in head:
            self._chunked = True
        else:
            raise BadResponse("neither Content-Length nor chunked")
        return True

    @property
    def status(self) -> int:
        return int(self._buffer[9:12])

    @property
    def received(self) -> int:
        """Bytes of the body so far, chunk framing included."""
        return len(self._buffer) - self._body_at if self._body_at else 0

    def body(self) -> bytes:
        """The body of a complete response, chunks joined."""
        raw = bytes(memoryview(self._buffer)[self._body_at :])
        return join_chunks(raw) if self._chunked else raw


def join_chunks(raw: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while True:
        line_end = raw.find(b"\r\n", at)
        if line_end < 0:
            raise BadResponse("truncated chunk")
        size = int(raw[at:line_end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        start = line_end + 2
        at = start + size + 2
        if raw[at - 2 : at] != b"\r\n":
            raise BadResponse("chunk does not end where it says")
        pieces.append(raw[start : start + size])
