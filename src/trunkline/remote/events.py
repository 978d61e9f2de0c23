"""The bytes of one connection of a stream, as the events that are new."""

from collections.abc import Iterator

from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import Task
from trunkline.protocol.client_responses import ANSWERS, StreamItem
from trunkline.protocol.sse import Parser
from trunkline.remote.errors import BadPeerAnswer
from trunkline.remote.interfaces import Way
from trunkline.remote.overlap import Overlap
from trunkline.remote.reading import Reader
from trunkline.remote.seen import Hole, Seen


class Events:
    """`id` is that of the JSON-RPC request that opened the stream.

    `overlap` is with a task that was shown since the stream was opened: what it holds already
    is passed over. With `is_resumed`, so is a task that comes first and holds nothing new.
    """

    def __init__(
        self,
        way: Way,
        id: bytes,
        reader: Reader,
        seen: Seen,
        *,
        overlap: Overlap | None,
        is_resumed: bool,
        max_event_bytes: int,
    ) -> None:
        self._way = way
        self._id = id
        self._reader = reader
        self._seen = seen
        self._read = ANSWERS[way.binding, way.version].event
        self._parser = Parser(max_event_bytes=max_event_bytes)
        self._overlap = overlap
        self._may_be_old = self._is_first = is_resumed
        # How many events came, and whether they are no more than the task as it is. Counted
        # until there are more.
        self.count = 0
        self.is_bare = True
        # What stands before the result in each envelope of JSON-RPC, once one was read.
        self._head = b""

    def of(self, chunk: bytes) -> Iterator[StreamItem]:
        """Noted as seen, without those that were before. Raises BadPeerAnswer and PeerRefused."""
        seen = self._seen
        try:
            for event in self._parser.feed(chunk):
                data = event.data
                if event.event == "gap":
                    seen.forget_id()
                    continue
                if not data:
                    continue
                head = self._head
                is_usual = head and data.startswith(head) and data.endswith(b"}")
                is_error = event.event == "error"
                payload = data[len(head) : -1] if is_usual else self._opened(data, is_error)
                if event.has_id and seen.is_repeated(event.id, payload):
                    continue
                try:
                    item = self._read(payload)
                except InvalidAgentResponse:
                    # The envelope may have more in it than the result, an error above all.
                    item = self._read(self._opened(data))
                if self.is_bare:
                    self._count(item)
                is_old = self._may_be_old and self._is_old(item, event.has_id)
                if not is_old:
                    seen.note(item)
                if event.has_id:
                    seen.last_id = event.id
                if not is_old:
                    yield item
        except InvalidAgentResponse as error:
            raise self._reader.bad(error) from None
        except Hole:
            raise BadPeerAnswer("an event of the stream is missing") from None

    def _count(self, item: StreamItem) -> None:
        self.is_bare = not self.count and isinstance(item, Task)
        self.count += 1

    def _opened(self, data: bytes, is_error: bool = False) -> bytes:
        """The JSON of the result. Peers write their envelopes alike, so one is read in full."""
        payload = self._reader.event(self._way, data, self._id, is_error=is_error)
        if self._way.binding == "JSONRPC" and data.endswith(payload + b"}"):
            self._head = data[: -len(payload) - 1]
        return payload

    def _is_old(self, item: StreamItem, has_id: bool) -> bool:
        """Raises InvalidAgentResponse."""
        is_first, self._is_first = self._is_first, False
        if is_first and isinstance(item, Task):
            self._seen.meet(item.id)
            if self._overlap is not None and self._overlap.holds(item):
                # The task was asked for meanwhile, and was further on.
                return True
            if not has_id:
                self._overlap = Overlap(item, self._seen.sizes)
                return self._seen.shows(item)
            if self._seen.shows(item):
                return True
        if self._overlap is not None and self._overlap.holds(item):
            return True
        self._may_be_old = False
        return False
