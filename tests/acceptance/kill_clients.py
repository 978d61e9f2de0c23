"""Clients that put a gateway under load and write down every fact it told them."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from trunkline.protocol.sse import Parser
from trunkline.remote import Limits, RemoteError
from trunkline.remote.http import SSE, HttpClient, build_request

ENDED = frozenset(f"TASK_STATE_{name}" for name in ("COMPLETED", "FAILED", "CANCELED", "REJECTED"))
PAUSED = "TASK_STATE_INPUT_REQUIRED"
# What an answer looks like when the gateway has just been killed.
GONE = (RemoteError, TimeoutError)
_CALL_S = 30.0


class Facts:
    """What the gateway acknowledged. None of it may ever be taken back."""

    def __init__(self) -> None:
        # The data of journal entries, by task and sequence, as they came over the wire.
        self.events: dict[str, dict[int, bytes]] = {}
        # The task as it ended.
        self.ended: dict[str, Any] = {}
        self.agents: dict[str, str] = {}
        self.paused: list[str] = []
        self.recent: list[str] = []
        # Tasks that were touched since the last start.
        self.touched: set[str] = set()
        self.count = 0
        self._enough: tuple[int, asyncio.Event] | None = None

    async def reach(self, count: int) -> None:
        """Wait until so many facts were told."""
        event = asyncio.Event()
        self._enough = (count, event)
        await event.wait()

    def _count(self) -> None:
        self.count += 1
        if self._enough is not None and self.count >= self._enough[0]:
            self._enough[1].set()

    def task(self, agent: str, task: Any) -> None:
        self._count()
        task_id = task["id"]
        state = task["status"]["state"]
        self.agents[task_id] = agent
        self.touched.add(task_id)
        if state in ENDED:
            known = self.ended.setdefault(task_id, task)
            assert known == task, f"{task_id} ended, and then changed"
        else:
            assert task_id not in self.ended, f"{task_id} ended, and then was {state}"
            self.recent.append(task_id)
            if state == PAUSED:
                self.paused.append(task_id)

    def event(self, agent: str, task_id: str, seq: int, data: bytes) -> None:
        self._count()
        self.agents[task_id] = agent
        self.touched.add(task_id)
        known = self.events.setdefault(task_id, {}).setdefault(seq, data)
        assert known == data, f"{task_id} has two entries {seq}: {known!r} and {data!r}"


class Client:
    """Calls one after the other, by chance but always the same chance."""

    def __init__(
        self,
        http: HttpClient,
        urls: dict[str, str],
        facts: Facts,
        chance: random.Random,
        name: str,
    ) -> None:
        self._http = http
        self._urls = urls
        self._facts = facts
        self._chance = chance
        self._name = name
        self._messages = 0

    async def work(self) -> None:
        """Until the gateway is gone."""
        try:
            while True:
                await self._step()
        except GONE:
            pass

    async def _step(self) -> None:
        agent = self._chance.choice(list(self._urls))
        shared = f"shared-{self._chance.randrange(3)}"
        match self._chance.randrange(8):
            case 0:
                await self._send(agent, "stream 5; artifact text a hello")
            case 1:
                await self._stream(agent, self._chance.choice(("stream 20", "chunks x 9; note n")))
            case 2:
                await self._stream(agent, "stream 10 every 0.003")
            case 3 | 4:
                script = self._chance.choice(("delay 0.02; say x", "stream 4 every 0.01"))
                await self._send(agent, script, context=shared, returns=True)
            case 5:
                script = self._chance.choice(("say hm; ask more?", "stream 30 every 0.1"))
                await self._send(agent, script, returns="ask" not in script)
            case 6:
                await self._answer_a_question()
            case _:
                await self._disturb()

    async def _answer_a_question(self) -> None:
        facts = self._facts
        if facts.paused:
            task_id = facts.paused.pop(self._chance.randrange(len(facts.paused)))
            call = self._chance.choice((self._send, self._stream))
            await call(facts.agents[task_id], "say thanks; stream 3", task=task_id)

    async def _disturb(self) -> None:
        facts = self._facts
        if not facts.recent:
            return
        task_id = self._chance.choice(facts.recent[-30:])
        agent = facts.agents[task_id]
        if self._chance.random() < 0.4:
            result = await self.call(agent, "CancelTask", {"id": task_id})
            if result is not None:
                facts.task(agent, result)
        else:
            await self.follow(agent, task_id, wants=self._chance.randrange(1, 40))

    def _request(self, text: str, context: str, task: str, returns: bool) -> dict[str, Any]:
        self._messages += 1
        message: dict[str, Any] = {
            "messageId": f"{self._name}-{self._messages}",
            "role": "ROLE_USER",
            "parts": [{"text": text}],
        }
        message |= {"contextId": context} if context else {}
        message |= {"taskId": task} if task else {}
        return {"message": message, "configuration": {"returnImmediately": returns}}

    async def _send(
        self, agent: str, text: str, *, context: str = "", task: str = "", returns: bool = False
    ) -> None:
        request = self._request(text, context, task, returns)
        result = await self.call(agent, "SendMessage", request)
        if result is not None:
            self._facts.task(agent, result["task"])

    async def _stream(self, agent: str, text: str, *, task: str = "") -> None:
        request = self._request(text, "", task, False)
        await self._read(agent, "SendStreamingMessage", request, {}, is_new=not task)

    async def call(self, agent: str, method: str, params: dict[str, Any]) -> Any:
        """The result, or None when the gateway refuses."""
        request = build_request("POST", self._urls[agent], HEADERS, envelope(method, params))
        async with asyncio.timeout(_CALL_S):
            answer = await self._http.fetch(request, LIMITS, max_bytes=1 << 30)
        return msgspec.json.decode(answer.body).get("result")

    async def follow(
        self, agent: str, task_id: str, *, wants: int, after: int | None = None
    ) -> dict[int, bytes]:
        """The entries of a task, until it ends or so many were read."""
        headers = {} if after is None else {"last-event-id": str(after)}
        return await self._read(
            agent, "SubscribeToTask", {"id": task_id}, headers, is_new=after == 0, wants=wants
        )

    async def _read(
        self,
        agent: str,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str],
        *,
        is_new: bool,
        wants: int = 1 << 30,
    ) -> dict[int, bytes]:
        seen: dict[int, bytes] = {}
        body = envelope(method, params)
        request = build_request("POST", self._urls[agent], HEADERS | headers, body)
        response = await self._http.open(request, LIMITS, within_s=_CALL_S)
        try:
            if response.media_type != SSE:
                return seen
            parser = Parser()
            while len(seen) < wants and (chunk := await response.chunk()):
                for event in parser.feed(chunk):
                    seq = int(event.id)
                    assert not seen or seq == max(seen) + 1, f"{seq} came after {max(seen)}"
                    seen[seq] = event.data
                    # A reader that joins later begins with a snapshot instead of an entry.
                    if is_new or len(seen) > 1:
                        self._facts.event(agent, task_of(event.data), seq, event.data)
        finally:
            response.close()
        return seen


LIMITS = Limits()
HEADERS = {"content-type": "application/json", "a2a-version": "1.0"}


def envelope(method: str, params: dict[str, Any]) -> bytes:
    # The same id always, so that the same entry is the same bytes.
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def task_of(data: bytes) -> str:
    [(kind, event)] = msgspec.json.decode(data)["result"].items()
    return str(event["id"] if kind == "task" else event["taskId"])


def states_of(events: dict[int, bytes]) -> Iterator[str]:
    """The states that the entries show, in order."""
    for seq in sorted(events):
        [event] = msgspec.json.decode(events[seq])["result"].values()
        if "status" in event:
            yield event["status"]["state"]
