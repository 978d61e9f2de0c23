"""`V1`: A2A 1.0 on both bindings, which is the canonical JSON with a name around it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from trunkline.model.calls import Operation, PushConfigQuery, TaskPushNotificationConfig
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidParams
from trunkline.model.events import (
    ARTIFACT,
    MESSAGE,
    RETRIED,
    SHOWN,
    STATUS,
    SUBMITTED,
    TASK,
    Entry,
)
from trunkline.protocol import cards, protojson
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.operations import PARAMETERS, Decoder
from trunkline.protocol.versions import Version

# A2A 1.0, 3.2.3: a StreamResponse holds one of four members. Entries of these kinds are stored
# in their public form.
_STORED_AS_SHOWN: Final = {
    TASK: b'{"task":',
    STATUS: b'{"statusUpdate":',
    ARTIFACT: b'{"artifactUpdate":',
}
# The public form of a further message is the status update that came with it.
_SHOWN_OTHERWISE: Final = {
    SUBMITTED: b'{"task":',
    MESSAGE: b'{"statusUpdate":',
    SHOWN: b'{"statusUpdate":',
    RETRIED: b'{"statusUpdate":',
}
_encode = msgspec.json.Encoder().encode


def _create_push_config(params: bytes) -> TaskPushNotificationConfig:
    config = protojson.decode(params, TaskPushNotificationConfig)
    if not config.task_id:
        raise InvalidParams.at("taskId", "is required")
    return config


def _query_push_config(params: bytes, *, needs_id: bool = True) -> PushConfigQuery:
    query = protojson.decode(params, PushConfigQuery)
    if not query.task_id:
        raise InvalidParams.at("taskId", "must not be empty")
    if needs_id and not query.id:
        raise InvalidParams.at("id", "is required")
    return query


class V1Dialect:
    """Encoders take the canonical JSON of the model, which is that of 1.0. The encoders of frequent
    responses return pieces, which the server joins when it writes them."""

    version = Version.V1_0
    # Whether each event of a stream is the whole task, and nothing is around it.
    streams_whole_tasks = False
    decoders: Mapping[Operation, Decoder] = {
        operation: partial(protojson.decode, into=value) for operation, value in PARAMETERS.items()
    } | {
        Operation.CREATE_PUSH_CONFIG: _create_push_config,
        Operation.GET_PUSH_CONFIG: _query_push_config,
        Operation.LIST_PUSH_CONFIGS: partial(_query_push_config, needs_id=False),
        Operation.DELETE_PUSH_CONFIG: _query_push_config,
    }

    def task(self, task: bytes) -> bytes:
        """A task as the response of get and cancel."""
        return task

    def sent_task(self, task: bytes) -> tuple[bytes, ...]:
        """A task as the response of send."""
        return b'{"task":', task, b"}"

    def streamed_task(self, task: bytes) -> tuple[bytes, ...]:
        """A whole task as an event of a stream."""
        return b'{"task":', task, b"}"

    def sent_message(self, message: bytes) -> tuple[bytes, ...]:
        """A message as the response of send, or as the only event of a stream."""
        return b'{"message":', message, b"}"

    def event(self, entry: Entry, *, goes_on: bool = False) -> tuple[bytes, ...]:
        """A journal entry as an event of a stream, which `goes_on` after it or ends there."""
        member = _STORED_AS_SHOWN.get(entry.kind)
        if member is not None:
            return member, entry.body, b"}"
        return _SHOWN_OTHERWISE[entry.kind], entry.public_body, b"}"

    def page(
        self, tasks: Sequence[bytes], *, next_page_token: str, page_size: int, total_size: int
    ) -> bytes:
        # A2A 1.0, 3.1.4: all four members are required, so they are written when empty or zero.
        return b'{"tasks":[%b],"nextPageToken":%b,"pageSize":%d,"totalSize":%d}' % (
            b",".join(tasks),
            _encode(next_page_token),
            page_size,
            total_size,
        )

    def card(self, card: AgentCard, shape: Shape = STANDARD) -> bytes:
        return cards.encode(card, "1.0")


V1: Final = V1Dialect()
