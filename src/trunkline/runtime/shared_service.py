"""`SharedService`: the operations of the protocol where several nodes share the store."""

from typing import Any

from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.errors import Unavailable
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.service import ListAnswer, Service, TaskAnswer
from trunkline.runtime.store_waits import StoreWaits


class SharedService(Service, frozen=True, kw_only=True, eq=False):
    waits: StoreWaits

    async def send(
        self, agent: PublishedAgent, caller: Caller, request: SendMessageRequest
    ) -> TaskAnswer | Reply:
        with self.waits.request():
            try:
                return await super().send(agent, caller, request)
            except Unavailable:
                if not (caller.idempotency_key or agent.profile.deduplicate_messages):
                    raise
            # Another node may have got a request with the same key at the same time, and then its
            # task or answer is in the store now. Without it, the key makes a second attempt
            # harmless.
            return await super().send(agent, caller, request)

    async def stream(
        self,
        agent: PublishedAgent,
        caller: Caller,
        request: SendMessageRequest,
        *,
        is_whole: bool = False,
    ) -> Subscription:
        with self.waits.request():
            reader = await super().stream(agent, caller, request, is_whole=is_whole)
            try:
                # The first event of a new task comes with its commit.
                await reader.begun()
            except BaseException:
                reader.close()
                raise
            return reader

    async def get(self, agent: PublishedAgent, caller: Caller, request: GetTaskRequest) -> bytes:
        with self.waits.request():
            return await super().get(agent, caller, request)

    async def list(
        self, agent: PublishedAgent, caller: Caller, request: ListTasksRequest
    ) -> ListAnswer:
        with self.waits.request():
            return await super().list(agent, caller, request)

    async def cancel(
        self, agent: PublishedAgent, caller: Caller, request: CancelTaskRequest
    ) -> bytes:
        with self.waits.request():
            return await super().cancel(agent, caller, request)

    async def subscribe(
        self, agent: PublishedAgent, caller: Caller, request: SubscribeToTaskRequest, **options: Any
    ) -> Subscription:
        with self.waits.request():
            return await super().subscribe(agent, caller, request, **options)
