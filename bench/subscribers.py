"""Many subscribers on one waiting task: attach, let it go, collect."""

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from bench.answers import sse_events, streamed
from bench.calls import Fixed
from bench.client import Connection
from bench.target import Target, WrongAnswers

# fasta2a sends the snapshot first and joins the task's bus after it.
SETTLE_S = 0.5
COLLECT_S = 120.0


class Subscribers:
    """`count` subscribers attached to one task that waits to emit `deltas` deltas."""

    def __init__(self, target: Target, *, count: int, deltas: int) -> None:
        self._target = target
        self._deltas = deltas
        self._client = target.client(count)
        self._connections = self._client.connections

    def attach(self) -> None:
        """Return when every subscriber has been sent the snapshot of the task."""
        caller = self._target.caller
        subscribe = Fixed(caller.call(caller.dialect.subscribe, {"id": self._start()}))
        for connection in self._connections:
            connection.ask(subscribe)
        waiting = set(self._connections)
        while waiting:
            for connection in self._client.ready(silence_s=30):
                if connection.receive():
                    raise WrongAnswers(f"not a stream: {connection.response.body()[:200]!r}")
                if connection.response.received:
                    waiting.discard(connection)
        time.sleep(SETTLE_S)

    def _start(self) -> str:
        caller = self._target.caller
        # A server that never waits for the end has no word for it either.
        params: dict[str, Any] = (
            {"configuration": {"returnImmediately": True}}
            if caller.dialect.answers_when_done
            else {}
        )
        start = Fixed(caller.message(caller.dialect.send, f"fanout {self._deltas}", **params))
        self._target.ask(start)
        task_id: str = start.answer["result"]["task"]["id"]
        return task_id

    def release(self) -> None:
        """Let the task go and read until the last subscriber has seen its stream end."""
        caller = self._target.caller
        self._target.ask(Fixed(caller.message(caller.dialect.send, "go")))
        give_up = time.monotonic() + COLLECT_S
        waiting = len(self._connections)
        while waiting:
            if time.monotonic() > give_up:
                raise WrongAnswers(f"{waiting} subscribers still open after {COLLECT_S:g} s")
            for connection in self._client.ready(silence_s=30):
                if connection.receive():
                    self._client.ignore(connection)
                    waiting -= 1

    def events(self) -> float:
        """SSE events per subscriber, the snapshot included; raises if any stream was not whole."""
        return sum(map(self._whole, self._connections)) / len(self._connections)

    def _whole(self, connection: Connection) -> int:
        events = sse_events(connection.response.body())
        wrong = streamed(events, self._target.server.dialect, self._deltas)
        if wrong is not None:
            raise WrongAnswers(f"a subscriber: {wrong}")
        return len(events)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._client.close)
            self.attach()
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()
