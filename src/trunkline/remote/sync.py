"""`SyncAgent`: the client library without asyncio."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from trunkline.model.calls import ListTasksRequest, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Task
from trunkline.protocol.client_responses import StreamItem, TaskPage
from trunkline.remote.agents import RemoteAgent, connect
from trunkline.remote.http.pool import closed_by_us
from trunkline.remote.target import Limits, Target

T = TypeVar("T")


class SyncAgent:
    """Every call waits. For one thread at a time, and not inside of a running event loop."""

    def __init__(self, agent: RemoteAgent) -> None:
        self._agent = agent
        self._runner = asyncio.Runner()
        # Streams that were not read to their end.
        self._open: set[Any] = set()
        self._is_closed = False

    def __enter__(self) -> "SyncAgent":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._is_closed:
            return
        for items in self._open:
            self._run(items.aclose())
        self._run(self._agent.close())
        self._is_closed = True
        self._runner.close()

    def card(self, *, fresh: bool = False) -> AgentCard:
        return self._run(self._agent.card(fresh=fresh))

    def extended_card(self) -> AgentCard:
        return self._run(self._agent.extended_card())

    def send(self, request: SendMessageRequest | str) -> Task | Message:
        return self._run(self._agent.send(request))

    def stream(self, request: SendMessageRequest | str) -> Iterator[StreamItem]:
        return self._each(self._agent.stream(request))

    def subscribe(self, task_id: str) -> Iterator[StreamItem]:
        return self._each(self._agent.subscribe(task_id))

    def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        return self._run(self._agent.get(task_id, history_length=history_length))

    def list(self, request: ListTasksRequest | None = None) -> TaskPage:
        return self._run(self._agent.list(request))

    def cancel(self, task_id: str) -> Task:
        return self._run(self._agent.cancel(task_id))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            coroutine.close()
            raise closed_by_us()
        return self._runner.run(coroutine)

    def _each(self, items: Any) -> Iterator[StreamItem]:
        self._open.add(items)
        try:
            while (item := self._run(_next(items))) is not None:
                yield item
        finally:
            self._open.discard(items)
            if not self._is_closed:
                self._run(items.aclose())


async def _next(items: Any) -> StreamItem | None:
    item: StreamItem | None = await anext(items, None)
    return item


def connect_sync(
    target: str | Target,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    limits: Limits | None = None,
) -> SyncAgent:
    """`with connect_sync(url) as agent`; the arguments are those of `connect`."""
    return SyncAgent(
        connect(target, token=token, headers=headers, timeout_s=timeout_s, limits=limits)
    )
