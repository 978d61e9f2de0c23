"""Remote agents that say what a test has written down, and remember what they were asked."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec import Struct

from trunkline.model.calls import SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Task
from trunkline.protocol.client_responses import StreamItem
from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.target import Target


class Asked(Struct, frozen=True, kw_only=True):
    method: str
    target: Target
    headers: Mapping[str, str]
    timeout_s: float
    value: Any = None


class Peers:
    """By URL: `peers.says(url, "send", task)`. What nobody wrote down is an error."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._scripts: dict[tuple[str, str], deque[Any]] = {}

    def says(self, url: str, method: str, *answers: Any) -> None:
        """An answer is a value, an error to raise, an event to wait for first, or, for a
        stream, a list of those. The last card is given again and again.
        """
        self._scripts.setdefault((url, method), deque()).extend(answers)

    def requests(self) -> list[str]:
        return [asked.method for asked in self.asked]

    def sent(self) -> SendMessageRequest:
        """The one message that was sent."""
        (request,) = [one.value for one in self.asked if one.method in ("send", "stream")]
        assert isinstance(request, SendMessageRequest)
        return request

    def at(
        self, target: Target, *, headers: Mapping[str, str] | None = None, timeout_s: float = 0
    ) -> "Peer":
        return Peer(self, target, {**target.headers, **(headers or {})}, timeout_s)

    async def close(self) -> None:
        """There is nothing open."""

    async def answer(self, url: str, method: str) -> Any:
        script = self._scripts.get((url, method), deque())
        while script:
            answer = script[0]
            if method != "card" or len(script) > 1:
                script.popleft()
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                if method == "card" and not script:
                    break
            elif isinstance(answer, Exception):
                raise answer
            else:
                return answer
        raise PeerUnreachable(f"nobody answers {method} at {url}")


class Peer:
    def __init__(
        self, peers: Peers, target: Target, headers: dict[str, str], timeout_s: float
    ) -> None:
        self._peers, self._target = peers, target
        self._headers, self._timeout_s = headers, timeout_s

    def _note(self, method: str, value: Any = None) -> None:
        asked = Asked(
            method=method,
            target=self._target,
            headers=self._headers,
            timeout_s=self._timeout_s,
            value=value,
        )
        self._peers.asked.append(asked)

    async def card(self, *, fresh: bool = False) -> AgentCard:
        self._note("card", fresh)
        card: AgentCard = await self._peers.answer(self._target.url, "card")
        return card

    async def send(self, request: SendMessageRequest) -> Task | Message:
        self._note("send", request)
        answer: Task | Message = await self._peers.answer(self._target.url, "send")
        return answer

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        self._note("get", (task_id, history_length))
        task: Task = await self._peers.answer(self._target.url, "get")
        return task

    async def cancel(self, task_id: str) -> Task:
        self._note("cancel", task_id)
        task: Task = await self._peers.answer(self._target.url, "cancel")
        return task

    def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]:
        return self._events("stream", request)

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        return self._events("subscribe", task_id)

    async def _events(self, method: str, value: Any) -> AsyncGenerator[StreamItem, None]:
        self._note(method, value)
        for item in await self._peers.answer(self._target.url, method):
            if isinstance(item, asyncio.Event):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            else:
                yield item
