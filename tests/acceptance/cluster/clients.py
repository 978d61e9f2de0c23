"""Clients that turn to another node with every request, and go on when nodes are gone."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from tests.acceptance.cluster.history import Sent
from tests.acceptance.kill_clients import (
    ENDED,
    GONE,
    HEADERS,
    LIMITS,
    PAUSED,
    Facts,
    envelope,
    task_of,
)

from trunkline.protocol.sse import Parser
from trunkline.remote.http import SSE, HttpClient, Response, build_request

# How long a client waits for an answer before it asks another node: longer than any turn here
# takes, and shorter than a node is stopped.
_CALL_S = 5.0
# The same for the entries after a question, which perhaps nobody has answered.
_PAUSED_S = 0.2
_TASK_NOT_FOUND, _UNSUPPORTED = -32001, -32004


class Refused(Exception):
    """An answer that is an error, and so no acknowledgement."""

    def __init__(self, status: int, error: dict[str, Any], headers: Mapping[str, str]) -> None:
        super().__init__(status, error)
        self.status = status
        self.retry_after = headers.get("retry-after")
        self.code = error.get("code")

    @property
    def is_temporary(self) -> bool:
        return self.status in (429, 502, 503)


class SentMessage(Struct, frozen=True):
    """A send that can be repeated, because it has a key."""

    agent: str
    key: str
    params: dict[str, Any]


class Told(Facts):
    """What any node told any client."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, Sent] = {}
        self.keyed: list[SentMessage] = []
        self.refusals: dict[str, int] = {}
        # Clients end once this is set.
        self.is_over = False

    def task_of(self, agent: str, message_id: str, task: Any) -> None:
        self.acknowledge(message_id, task["id"])
        self.seen(agent, task)

    def acknowledge(self, message_id: str, task_id: str) -> None:
        sent = self.messages[message_id]
        if sent.acknowledged_ns is None:
            sent.task_id, sent.acknowledged_ns = task_id, time.monotonic_ns()
        known = sent.task_id
        assert known == task_id, f"{message_id} is in two tasks: {known} and {task_id}"

    def seen(self, agent: str, task: Any) -> None:
        """A task as one node has it, perhaps later than another node has told its end."""
        if task["id"] not in self.ended or task["status"]["state"] in ENDED:
            self.task(agent, task)


class ClusterClient:
    def __init__(
        self,
        http: HttpClient,
        url: Callable[[str], str],
        told: Told,
        chance: random.Random,
        name: str,
    ) -> None:
        """`url` gives the address of an agent, at another node each time."""
        self._http = http
        self._url = url
        self._told = told
        self._chance = chance
        self._name = name
        self._messages = 0

    async def work(self) -> None:
        while not self._told.is_over:
            try:
                await self._step()
            except GONE as error:
                await self._count(type(error).__name__)
            except Refused as refused:
                await self._count(f"{refused.status} {refused.code}")

    async def _count(self, refusal: str) -> None:
        refusals = self._told.refusals
        refusals[refusal] = refusals.get(refusal, 0) + 1
        # A node that is gone refuses at once: let the others have the processor.
        await asyncio.sleep(0.01)

    async def _step(self) -> None:
        chance = self._chance
        agent = chance.choice(("effects", "effects", "pure", "retrying"))
        shared = f"shared-{chance.randrange(4)}"
        match chance.randrange(12):
            case 0 | 1:
                await self._send(agent, "2 0.005", key=chance.random() < 0.7)
            case 2:
                await self._stream(agent, "20 0.002")
            case 3:
                await self._stream(agent, "10 0.05")
            case 4 | 5 | 6:
                key = chance.random() < 0.7
                await self._send(agent, "3 0.01", context=shared, returns=True, key=key)
            case 7:
                await self._send(agent, "1 0.01 ask", key=True)
            case 8:
                await self._answer_a_question()
            case 9:
                await self._repeat()
            case 10:
                await self._cancel()
            case _:
                await self._watch()

    async def _answer_a_question(self) -> None:
        told = self._told
        if told.paused:
            task_id = told.paused.pop(self._chance.randrange(len(told.paused)))
            await self._send(told.agents[task_id], "3 0.01", task=task_id, key=True)

    async def _repeat(self) -> None:
        """An earlier send once more: the same task, whatever node has it."""
        if self._told.keyed:
            await self._send_again(self._chance.choice(self._told.keyed[-50:]))

    async def _cancel(self) -> None:
        told = self._told
        if told.recent:
            task_id = self._chance.choice(told.recent[-20:])
            agent = told.agents[task_id]
            told.seen(agent, await self.call(agent, "CancelTask", {"id": task_id}))

    async def _watch(self) -> None:
        """Read a few entries of a task at one node, and the rest at others."""
        told = self._told
        if told.recent:
            task_id = self._chance.choice(told.recent[-20:])
            await self.follow(told.agents[task_id], task_id, after=0, breaks=True)

    def _params(self, text: str, context: str, task: str, returns: bool) -> dict[str, Any]:
        self._messages += 1
        message: dict[str, Any] = {
            "messageId": f"{self._name}-{self._messages}",
            "role": "ROLE_USER",
            "parts": [{"text": text}],
        }
        message |= {"contextId": context} if context else {}
        message |= {"taskId": task} if task else {}
        self._told.messages[message["messageId"]] = Sent(time.monotonic_ns())
        return {"message": message, "configuration": {"returnImmediately": returns}}

    async def _send(
        self,
        agent: str,
        text: str,
        *,
        context: str = "",
        task: str = "",
        returns: bool = False,
        key: bool = False,
    ) -> None:
        params = self._params(text, context, task, returns)
        message_id: str = params["message"]["messageId"]
        if not key:
            result = await self.call(agent, "SendMessage", params)
            self._told.task_of(agent, message_id, result["task"])
            return
        sent = SentMessage(agent, f"key-{message_id}", params)
        await self._send_again(sent)
        self._told.keyed.append(sent)

    async def _send_again(self, sent: SentMessage) -> None:
        """Until there is an answer: with a key that does no harm."""
        headers = {"idempotency-key": sent.key}
        while True:
            try:
                result = await self.call(sent.agent, "SendMessage", sent.params, headers)
            except GONE as error:
                await self._count(f"{type(error).__name__}, repeated")
            except Refused as refused:
                if not refused.is_temporary:
                    raise
                await self._count(f"{refused.status}, repeated")
            else:
                message_id = sent.params["message"]["messageId"]
                self._told.task_of(sent.agent, message_id, result["task"])
                return

    async def _stream(self, agent: str, text: str) -> None:
        """A streaming send, and the rest at other nodes when the stream breaks."""
        params = self._params(text, "", "", False)
        message_id: str = params["message"]["messageId"]
        headers = {"idempotency-key": f"key-{message_id}"}
        seen: dict[int, bytes] = {}
        is_repeat = False
        while not seen:
            try:
                await self._read(
                    agent, "SendStreamingMessage", params, headers, seen, is_repeat=is_repeat
                )
            except GONE as error:
                await self._count(f"{type(error).__name__}, repeated")
            except Refused as refused:
                if not refused.is_temporary:
                    raise
                await self._count(f"{refused.status}, repeated")
            is_repeat = True
        task_id = task_of(seen[min(seen)])
        self._told.acknowledge(message_id, task_id)
        await self.follow(agent, task_id, after=max(seen))

    async def follow(
        self, agent: str, task_id: str, *, after: int, breaks: bool = False
    ) -> dict[int, bytes]:
        """All entries after this one, until the task ends or asks. `breaks`: hang up at times."""
        seen: dict[int, bytes] = {}
        while True:
            last = max(seen, default=after)
            wants = self._chance.randrange(1, 10) if breaks else 1 << 30
            headers = {"last-event-id": str(last)}
            try:
                await self._read(
                    agent, "SubscribeToTask", {"id": task_id}, headers, seen, wants=wants
                )
            except GONE as error:
                await self._count(f"{type(error).__name__}, resumed")
            except Refused as refused:
                if refused.code == _TASK_NOT_FOUND:
                    raise AssertionError(f"{task_id} was told and is lost") from refused
                if refused.code == _UNSUPPORTED:
                    # All its entries are known, and it has ended.
                    return seen
                if not refused.is_temporary:
                    raise
                await self._count(f"{refused.status}, resumed")
            state = _state_of(seen[max(seen)]) if seen else None
            if state in ENDED or state == PAUSED or (self._told.is_over and breaks):
                return seen

    async def submit(self, agent: str, text: str) -> str:
        """The id of a task that perhaps runs."""
        params = self._params(text, "", "", True)
        result = await self.call(agent, "SendMessage", params)
        self._told.task_of(agent, params["message"]["messageId"], result["task"])
        return str(result["task"]["id"])

    async def find(self, task_id: str) -> Any:
        """A task that perhaps no client was told about, so that its agent is not known."""
        agents = (self._told.agents.get(task_id), "effects", "pure", "retrying")
        for agent in filter(None, agents):
            try:
                return await self.call(agent, "GetTask", {"id": task_id})
            except Refused as refused:
                if refused.code != _TASK_NOT_FOUND:
                    raise
        raise AssertionError(f"{task_id} is gone")

    async def fill_queue(self, agent: str, url: str) -> list[str]:
        """A context with one turn that runs and two that wait, all at one node."""
        context = f"queue-{self._name}-{self._messages}"
        elsewhere, self._url = self._url, lambda _: url
        try:
            for text in ("1 0.8", "1 0", "1 0"):
                # A node that is late with a beat, on a busy machine, refuses for a moment.
                await self._send(agent, text, context=context, returns=True, key=True)
        finally:
            self._url = elsewhere
        messages = range(self._messages - 2, self._messages + 1)
        return [self._told.messages[f"{self._name}-{number}"].task_id for number in messages]

    async def call(
        self,
        agent: str,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The result. Raises Refused, and GONE when there is none."""
        body = envelope(method, params)
        request = build_request("POST", self._url(agent), HEADERS | (headers or {}), body)
        async with asyncio.timeout(_CALL_S):
            answer = await self._http.fetch(request, LIMITS, max_bytes=1 << 30)
        return _result(answer.status, answer.body, answer.headers)

    async def _read(
        self,
        agent: str,
        method: str,
        params: dict[str, Any],
        headers: dict[str, str],
        seen: dict[int, bytes],
        *,
        wants: int = 1 << 30,
        is_repeat: bool = False,
    ) -> None:
        """Read entries into `seen`, until the stream ends or so many were read. The stream of a
        repeated message begins with the task as it is, which is no entry."""
        request = build_request(
            "POST", self._url(agent), HEADERS | headers, envelope(method, params)
        )
        after = int(headers.get("last-event-id", 0))
        response = await self._http.open(request, LIMITS, within_s=_CALL_S)
        try:
            if response.media_type != SSE:
                _result(response.status, await response.body(1 << 30), response.headers)
            parser = Parser()
            while wants > 0 and (chunk := await self._chunk(response, seen.get(after))):
                for event in parser.feed(chunk):
                    seq = int(event.id)
                    assert is_repeat or seq == after + 1, f"{params}: {seq} came after {after}"
                    after, seen[seq], wants = seq, event.data, wants - 1
                    if not is_repeat:
                        self._told.event(agent, task_of(event.data), seq, event.data)
                    is_repeat = False
        finally:
            response.close()

    async def _chunk(self, response: Response, last: bytes | None) -> bytes:
        """The next bytes, or none when the task waits for its caller and nothing comes."""
        is_paused = last is not None and _state_of(last) == PAUSED
        try:
            async with asyncio.timeout(_PAUSED_S if is_paused else _CALL_S):
                return await response.chunk()
        except TimeoutError:
            if is_paused:
                return b""
            raise


def _result(status: int, body: bytes, headers: Mapping[str, str]) -> Any:
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise Refused(status, {"message": body.decode(errors="replace")}, headers) from None
    if "result" not in answer:
        raise Refused(status, answer.get("error") or answer, headers)
    return answer["result"]


def _state_of(data: bytes) -> str | None:
    [event] = msgspec.json.decode(data)["result"].values()
    return event["status"]["state"] if "status" in event else None
