"""Tasks that another gateway began, as tests hand them to a runtime."""

import msgspec
from msgspec.structs import replace
from tests.runtime.world import ALICE, World, caller

from trunkline.model.calls import Caller
from trunkline.model.events import SUBMITTED, TASK, TaskSubmitted, TurnOptions
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Message, Part, Role, Task, TaskState, TaskStatus
from trunkline.runtime.given_tasks import GivenTask

SENT_MS = 1_700_000_000_000


def given(
    text: str = "say hi",
    *,
    id: str = "given-1",
    context: str = "",
    options: TurnOptions | None = None,
    message_id: str = "",
    sent_ms: int = SENT_MS,
    digest: bytes = b"",
    parts: tuple[Part, ...] = (),
    task: str = "",
) -> GivenTask:
    """With a `context` that the client has named, or a new one."""
    message = Message(
        message_id=message_id or f"message of {id}",
        context_id=context or id,
        task_id=task or id,
        role=Role.USER,
        parts=parts or (Part(text=text),),
    )
    status = TaskStatus(state=TaskState.SUBMITTED, timestamp=format_timestamp(sent_ms))
    event = Task(id=id, context_id=context or id, status=status, history=(message,))
    body = msgspec.json.encode(
        event if options is None else TaskSubmitted(task=event, options=options)
    )
    # Not the bytes that this gateway would write.
    body = body.replace(b'"contextId":', b'"contextId": ', 1)
    return GivenTask(
        task_id=id,
        context_id=context or id,
        created_ms=sent_ms,
        kind=TASK if options is None else SUBMITTED,
        entry=msgspec.Raw(body),
        digest=digest,
    )


async def adopt(w: World, task: GivenTask, *, key: str = "", by: Caller = ALICE) -> None:
    by = replace(by, idempotency_key=key) if key else by
    await w.runtime.adoptions.adopt(w.agent, by, task)


def sender(key: str = "", operation: str = "SendMessage") -> Caller:
    return replace(caller(key), operation=operation)
