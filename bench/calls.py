"""The calls of the benchmark: each prepares its requests and judges the answers."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from bench.answers import finished, parse, sse_events, streamed
from bench.dialects import Dialect
from bench.exchange import FIRST_NUMBER, Prepared


class Caller:
    """Prepares the calls of one server."""

    def __init__(self, dialect: Dialect, path: str) -> None:
        self.dialect = dialect
        self._path = path

    def call(self, method: str, params: dict[str, Any]) -> Prepared:
        payload = {"jsonrpc": "2.0", "id": FIRST_NUMBER, "method": method, "params": params}
        return Prepared(self._path, payload, dict(self.dialect.headers))

    def message(self, method: str, text: str, **params: Any) -> Prepared:
        message = {
            "messageId": f"m-{FIRST_NUMBER}",
            "role": self.dialect.user,
            "parts": [{"text": text}],
        }
        return self.call(method, {"message": message, **params})


class Send:
    """A send that is answered with the finished task; keeps the ids of the last tasks."""

    def __init__(self, caller: Caller, *, remember: int = 500, text_bytes: int = 0) -> None:
        """`text_bytes`: how long the text is at least, and with it the agent's echo."""
        self._dialect = caller.dialect
        # Words, as people and models write; one letter repeated would be an easy case.
        words = " ".join(f"word{index}" for index in range(text_bytes // 6))
        self._tail = f" {words[:text_bytes]}" if text_bytes else ""
        text = f"hello {FIRST_NUMBER}{self._tail}"
        self._prepared = caller.message(caller.dialect.send, text)
        self.task_ids: deque[str] = deque(maxlen=remember)

    def request(self, number: int) -> bytes:
        return self._prepared.numbered(number)

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        answer = parse(status, body)
        if not isinstance(answer, dict):
            return answer
        try:
            task = answer["result"]["task"]
            self.task_ids.append(task["id"])
            if not self._dialect.echoes:
                number = FIRST_NUMBER
            if answer["id"] != number:
                return "answer to another request"
            if not self._dialect.answers_when_done:
                return None
            return finished(task, self._dialect, f"hello {number}{self._tail}")
        except (KeyError, TypeError, IndexError):
            return f"not a task: {body[:120]!r}"


class Get:
    """Look-ups of finished tasks, one after the other."""

    def __init__(self, caller: Caller, task_ids: Iterable[str]) -> None:
        self._dialect = caller.dialect
        self._prepared = [caller.call(caller.dialect.get, {"id": task_id}) for task_id in task_ids]

    def request(self, number: int) -> bytes:
        return self._prepared[number % len(self._prepared)].numbered(number)

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        answer = parse(status, body)
        if not isinstance(answer, dict):
            return answer
        try:
            if answer["id"] != number:
                return "answer to another request"
            return finished(answer["result"], self._dialect, "hello ")
        except (KeyError, TypeError, IndexError):
            return f"not a task: {body[:120]!r}"


class ListPage:
    """The newest page of tasks."""

    def __init__(self, caller: Caller, *, page_size: int) -> None:
        self._page_size = page_size
        self._prepared = caller.call(caller.dialect.list, {"pageSize": page_size})

    def request(self, number: int) -> bytes:
        return self._prepared.numbered(number)

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        answer = parse(status, body)
        if not isinstance(answer, dict):
            return answer
        tasks = answer["result"].get("tasks", ())
        return None if len(tasks) == self._page_size else f"page of {len(tasks)} tasks"


class Stream:
    """A streaming send; counts the streams and the SSE events it was sent."""

    def __init__(self, caller: Caller, *, deltas: int) -> None:
        self._dialect = caller.dialect
        self._deltas = deltas
        self._prepared = caller.message(caller.dialect.stream, f"stream {deltas}")
        self.streams = 0
        self.events = 0

    def request(self, number: int) -> bytes:
        return self._prepared.numbered(number)

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        events = sse_events(body)
        self.streams += 1
        self.events += len(events)
        return streamed(events, self._dialect, self._deltas)


class Fixed:
    """One prepared call whose answer the caller reads itself."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.answer: dict[str, Any] = {}

    def request(self, number: int) -> bytes:
        return self._prepared.numbered(number)

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        answer = parse(status, body)
        if not isinstance(answer, dict):
            return answer
        self.answer = answer
        return None
