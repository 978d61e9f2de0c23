"""`SharedService`: the operations of the protocol where several nodes share the store."""

from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import Unavailable
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import Reply
from trunkline.runtime.service import Service, TaskAnswer


class SharedService(Service, frozen=True, kw_only=True, eq=False):
    async def send(
        self, agent: PublishedAgent, caller: Caller, request: SendMessageRequest
    ) -> TaskAnswer | Reply:
        try:
            return await super().send(agent, caller, request)
        except Unavailable:
            if not (caller.idempotency_key or agent.profile.deduplicate_messages):
                raise
        # Another node may have got a request with the same key at the same time, and then its task
        # or answer is in the store now. Without it, the key makes a second attempt harmless.
        return await super().send(agent, caller, request)
