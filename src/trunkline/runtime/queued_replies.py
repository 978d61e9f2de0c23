"""`QueuedReplies`: records a later reply of an agent as an artifact of its task.

The reply is an entry of the journal like any other, so readers of the task and later callers of
GetTask see it. A task that has ended stays ended and has one more artifact.
"""

from typing import Any

from msgspec import Struct

from trunkline.model.errors import TaskNotFound, Unavailable
from trunkline.model.session import Delivered, ReplyPayload
from trunkline.model.values import Artifact, Part, TaskArtifactUpdateEvent
from trunkline.ports.clock import Ids
from trunkline.ports.store import Scope, Store
from trunkline.runtime.forwarding import Forwarding
from trunkline.runtime.journal import Journal
from trunkline.runtime.registry import Registry

TASK_REQUIRED = (
    "A2A_QUEUED_REPLY_TASK_REQUIRED: queued A2A protocol replies require MessageThreadId to "
    "carry the local A2A task id."
)


class QueuedReplies(Struct, kw_only=True, eq=False):
    store: Store
    registry: Registry
    journal: Journal
    ids: Ids
    # Where several nodes share the store.
    forwarding: Forwarding | None = None

    async def deliver(
        self, task_id: str, payload: ReplyPayload, *, agent: str, to: str = "", key: str = ""
    ) -> Delivered:
        """Append the reply to a task of the agent. Committed when this returns.

        `to` is the address it was sent to, which the artifact repeats. A reply with a `key` is
        appended once, however often it is delivered.
        """
        if not task_id.strip():
            return Delivered(ok=False, error=TASK_REQUIRED)
        # An agent may know its task before the store has it, so memory comes first.
        known = self.registry.in_memory(task_id)
        scope = await self.store.owner(task_id) if known is None else known.scope
        if scope is None or scope.agent != agent:
            return _not_found(task_id)
        if not _parts(payload):
            return Delivered(ok=True)
        message_id = f"queued-reply-{key or self.ids.new()}"
        try:
            if self.forwarding is None or not await self.forwarding.deliver(
                scope, task_id, message_id, payload, to
            ):
                await self.record(scope, task_id, message_id, payload, to)
        except TaskNotFound:  # the task was pruned meanwhile
            return _not_found(task_id)
        return Delivered(ok=True, message_id=message_id)

    async def record(
        self, scope: Scope, task_id: str, message_id: str, payload: ReplyPayload, to: str
    ) -> None:
        """Append the reply to the task, unless the task has it. Raises TaskNotFound."""
        live = await self.registry.load(scope, task_id)
        metadata = {"source": "queued-reply", "channel": "a2a", **({"to": to} if to else {})}
        try:
            if any(each.artifact_id == message_id for each in live.ahead().artifacts):
                return
            event = TaskArtifactUpdateEvent(
                task_id=live.task_id,
                context_id=live.context_id,
                artifact=Artifact(
                    artifact_id=message_id,
                    name="Queued follow-up reply",
                    parts=self.journal.slim(live, _parts(payload)),
                    metadata=metadata,
                ),
                last_chunk=True,
            )
            self.journal.record(live, event, state=live.state, status_ms=live.status_ms)
            await self.journal.durable(live)
        except Unavailable:
            # The task may have been pruned, and still be in memory because a client follows it.
            if await self.store.owner(task_id) is None:
                raise TaskNotFound(task_id) from None
            raise
        finally:
            self.registry.forget_if_idle(live)


def _not_found(task_id: str) -> Delivered:
    return Delivered(
        ok=False,
        error=f'A2A_QUEUED_REPLY_TASK_NOT_FOUND: local A2A task "{task_id}" was not found.',
    )


def _parts(payload: ReplyPayload) -> tuple[Part, ...]:
    data: dict[str, Any] = {
        "mediaUrls": list(payload.media_urls),
        "channelData": payload.channel_data,
        "isError": payload.is_error,
        "audioAsVoice": payload.audio_as_voice,
        "replyToId": payload.reply_to_id,
    }
    data = {name: value for name, value in data.items() if value}
    text = (Part(text=payload.text),) if payload.text.strip() else ()
    return (*text, Part(data=data)) if data else text
