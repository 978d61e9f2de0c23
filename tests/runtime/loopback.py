"""An upstream without a network: a runtime of its own behind the calls of a remote agent."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from tests.runtime.world import World

from trunkline.backends.a2a import settings
from trunkline.backends.a2a.backend import A2aBackend
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.card import AgentCapabilities, AgentCard, AgentSkill
from trunkline.model.errors import TaskNotFound, TrunklineError, UnsupportedOperation
from trunkline.model.events import Entry
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Task
from trunkline.protocol.client_responses import StreamItem, TaskPage
from trunkline.remote.errors import PeerRefused, PeerUnreachable, RemoteError
from trunkline.runtime.fanout import CutOff, Opening, Reply, Subscription
from trunkline.testing import FakeClock

# As whom the gateway calls; all of its callers are one to the upstream.
GATEWAY = Caller(principal=Principal(id="gateway", grants=EVERYTHING))

_decode = msgspec.json.Decoder(Task).decode
_decode_message = msgspec.json.Decoder(Message).decode


class Loopback:
    """The agent of another world. Set `fails` to have calls of that name fail."""

    def __init__(self, there: World, *, streams: bool | None = True, lists: bool = True) -> None:
        self.there = there
        self.streams = streams
        self.lists = lists
        # Whether the answer to a further message begins with the task as it was before.
        self.looks_back = False
        self.name = "Upstream"
        self.requests: list[SendMessageRequest] = []
        self.calls: list[str] = []
        self.fails: dict[str, RemoteError] = {}

    async def _enter(self, call: str) -> None:
        self.calls.append(call)
        error = self.fails.get(call) or self.fails.get("all")
        if error is not None:
            raise error

    async def card(self, *, fresh: bool = False) -> AgentCard:
        await self._enter("card")
        return AgentCard(
            name=self.name,
            description="Says what it is told to",
            version="2.1",
            supported_interfaces=(),
            capabilities=AgentCapabilities(streaming=self.streams),
            default_input_modes=("text/plain",),
            default_output_modes=("text/plain",),
            skills=(AgentSkill(id="s", name="S", description="s", tags=("s",)),),
        )

    async def send(self, request: SendMessageRequest) -> Task | Message:
        await self._enter("send")
        self.requests.append(request)
        before = await self._before(request)
        try:
            answer = await self.there.service.send(self.there.agent, GATEWAY, request)
        except TrunklineError as error:
            raise refused(error) from None
        if before is not None:
            return before
        return (
            _decode_message(answer.message) if isinstance(answer, Reply) else _decode(answer.task)
        )

    async def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]:
        await self._enter("stream")
        if self.streams is not True:
            raise PeerRefused("no streams here", reason="UNSUPPORTED_OPERATION")
        self.requests.append(request)
        before = await self._before(request)
        try:
            reader = await self.there.service.stream(self.there.agent, GATEWAY, request)
        except TrunklineError as error:
            raise refused(error) from None
        if before is not None:
            yield before
        async for item in self._read(reader):
            yield item

    async def _before(self, request: SendMessageRequest) -> Task | None:
        task_id = request.message.task_id
        return await self.get(task_id) if task_id and self.looks_back else None

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        await self._enter("subscribe")
        if not self.streams:
            raise PeerRefused("no streams here", reason="UNSUPPORTED_OPERATION")
        service, agent = self.there.service, self.there.agent
        try:
            reader = await service.subscribe(agent, GATEWAY, SubscribeToTaskRequest(id=task_id))
        except TrunklineError as error:
            raise refused(error) from None
        async for item in self._read(reader):
            yield item

    async def _read(self, reader: Subscription) -> AsyncGenerator[StreamItem, None]:
        try:
            while items := await reader.next():
                for item in items:
                    error = self.fails.get("cut")
                    if error is not None:
                        raise error
                    match item:
                        case Opening():
                            yield _decode(item.task)
                        case Reply():
                            yield _decode_message(item.message)
                        case Entry():
                            yield item.public
                        case CutOff():
                            raise PeerUnreachable("cut off")
                        case _:
                            pass
        finally:
            reader.close()

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        await self._enter("get")
        request = GetTaskRequest(id=task_id, history_length=history_length)
        try:
            return _decode(await self.there.service.get(self.there.agent, GATEWAY, request))
        except TrunklineError as error:
            raise refused(error) from None

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage:
        await self._enter("list")
        if not self.lists:
            raise PeerRefused("no list here", reason="METHOD_NOT_FOUND")
        service, agent = self.there.service, self.there.agent
        answer = await service.list(agent, GATEWAY, request or ListTasksRequest())
        return TaskPage(tasks=tuple(map(_decode, answer.tasks)))

    async def cancel(self, task_id: str) -> Task:
        await self._enter("cancel")
        service, agent = self.there.service, self.there.agent
        try:
            return _decode(await service.cancel(agent, GATEWAY, CancelTaskRequest(id=task_id)))
        except TrunklineError as error:
            raise refused(error) from None

    def backend(self, *, clock: FakeClock | None = None, **options: Any) -> A2aBackend:
        return A2aBackend(
            settings.A2aBackend(url="http://upstream.example", **options),
            lambda headers, timeout_s: self,
            clock=clock or self.there.clock,
            turn_s=1800,
        )


def refused(error: TrunklineError) -> PeerRefused:
    reasons = {TaskNotFound: "TASK_NOT_FOUND", UnsupportedOperation: "UNSUPPORTED_OPERATION"}
    return PeerRefused(error.message, reason=reasons.get(type(error), "REFUSED"))
