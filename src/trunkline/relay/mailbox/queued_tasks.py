"""`QueuedTask`: the agent and the client of a message that waited, by the id of its task.

Clients of older relays ask for such a task by its tenant and id alone.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.ports.records import Change, Key, Put, Record
from trunkline.runtime.due_work import DueKind

QUEUED: Final = "relay-queued.1"
# As long as older relays keep a result, from the end of the message's time on.
_KEPT_MS: Final = 9 * 24 * 3600 * 1000


class QueuedTask(Struct, frozen=True, kw_only=True):
    # Tenant and id of its agent.
    agent: str
    # The principal of its client.
    owner: str


_encode = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(QueuedTask).decode


def key_of(tenant: str, task_id: str) -> Key:
    return Key(QUEUED, tenant, task_id)


def put_of(task_id: str, queued: QueuedTask, *, ends_in_ms: int) -> Put:
    """To commit with the message."""
    tenant = queued.agent.partition("/")[0]
    return Put(key=key_of(tenant, task_id), body=_encode(queued), due_in_ms=ends_in_ms + _KEPT_MS)


def due_kind() -> DueKind:
    return DueKind(name=QUEUED, handle=_forget)


async def _forget(_: Record) -> Sequence[Change]:
    # Due work deletes a record for which its handler has no change.
    return ()
