"""`Delivery`: a message from the mailbox of the relay, as the body of a request to the host.

The relay has answered the message with a task already. The host takes the first journal entry of
that task as it is, so the task is the same at both.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from trunkline.model.errors import InvalidParams
from trunkline.model.events import SUBMITTED, TASK, Entry, TaskSubmitted, TurnOptions
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import Task, TaskState
from trunkline.protocol.relay.frames import MAX_TASK_CHARS, Count

# PostgreSQL does not store the character U+0000.
_NO_NUL: Final = r"\A[^\x00]*\Z"
_Id = Annotated[str, Meta(min_length=1, max_length=MAX_TASK_CHARS, pattern=_NO_NUL)]
_Text = Annotated[str, Meta(pattern=_NO_NUL)]

_Hex = Annotated[str, Meta(max_length=128, pattern=r"\A(?:[0-9a-f]{2})*\Z")]
_Operation = Literal["SendMessage", "SendStreamingMessage"]


class Delivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    task_id: _Id
    context_id: _Id
    # When the relay made the task.
    created_ms: Count
    # The kind and the JSON of the first journal entry.
    kind: str
    entry: msgspec.Raw
    # The tenant of A2A that the request names.
    tenant: _Text = ""
    idempotency_key: _Text = ""
    operation: _Operation = "SendMessage"
    binding: str = ""
    # Tells the request from others with the same key: a hash in hex, which gateways of one release
    # compute alike. Without it, each request with the key is a repeat.
    digest: _Hex = ""

    @property
    def first_entry(self) -> Entry:
        """The first journal entry, with the bytes that the relay has made."""
        return Entry(1, self.kind, bytes(self.entry))

    @property
    def options(self) -> TurnOptions | None:
        event = self.first_entry.event
        return event.options if isinstance(event, TaskSubmitted) else None

    @property
    def task(self) -> Task:
        task = self.first_entry.public
        assert isinstance(task, Task)
        return task


_KINDS: Final = (TASK, SUBMITTED)
_decode = msgspec.json.Decoder(Delivery).decode
encode: Final = msgspec.json.Encoder().encode


def decode(body: bytes, *, task_id: str) -> Delivery:
    """The delivery of a request for this task. Raises InvalidParams for one that no host can
    take."""
    try:
        delivery = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams(f"The delivery cannot be read: {error}") from None
    if delivery.task_id != task_id:
        raise InvalidParams.at("task_id", "is not the task that the request names")
    if delivery.kind not in _KINDS:
        raise InvalidParams.at("kind", f"must be {' or '.join(_KINDS)}")
    try:
        task = delivery.task
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams.at("entry", f"cannot be read: {error}") from None
    _check(task, delivery)
    return delivery


def _check(task: Task, delivery: Delivery) -> None:
    if min(bytes(delivery.entry)) < 0x20:
        # A stream sends it as one line.
        raise InvalidParams.at("entry", "must have no line breaks and no other control characters")
    if task.id != delivery.task_id:
        raise InvalidParams.at("entry.id", "is not the task that the request names")
    if task.context_id != delivery.context_id:
        raise InvalidParams.at("entry.contextId", "is not the context of the delivery")
    if task.status.state is not TaskState.SUBMITTED or task.artifacts:
        raise InvalidParams.at("entry.status", "a task from the mailbox is in the state SUBMITTED")
    try:
        parse_timestamp(task.status.timestamp)
    except (ValueError, OverflowError):
        raise InvalidParams.at(
            "entry.status.timestamp", "must be a timestamp such as 2026-01-31T23:59:59.000Z"
        ) from None
    options = delivery.options
    if options is not None and options.call is not None:
        # It names a principal of the host, by whose rights the turn would call other agents.
        raise InvalidParams.at("entry.options.call", "is not for relays to say; leave it out")
    if len(task.history) != 1:
        raise InvalidParams.at("entry.history", "must hold the message of the client, and no other")
