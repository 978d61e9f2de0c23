"""`HubDialect` and `hub_card`: tasks, streams and cards in the form of seed hubs.

A hub answers requests that state no version: the result is a task without a name around it, its
states have no prefix, and the answer is the last message of the history. A stream has one whole
task per event, without JSON-RPC around it. Requests that state a version never come here.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from trunkline.model.calls import Operation, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from trunkline.protocol import protojson
from trunkline.protocol.v1 import V1Dialect

_PREFIX: Final = "TASK_STATE_"
# The hub has no state for a task that waits for its turn.
STATE_NAMES: Final = {state: state.value.removeprefix(_PREFIX) for state in TaskState} | {
    TaskState.SUBMITTED: "WORKING"
}

_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode


class _Text(Struct, frozen=True, gc=False):
    text: str


class _Message(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    message_id: str
    role: Role
    parts: tuple[_Text, ...]
    # Why a task failed, and when to try again, for programs.
    metadata: dict[str, Any] | None = None


class _Status(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    state: str
    timestamp: str
    message: _Message | None = None


class _Task(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    context_id: str
    status: _Status
    history: tuple[_Message, ...] = ()


class _StatusUpdate(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    task_id: str
    context_id: str
    status: _Status


class HubDialect(V1Dialect):
    streams_whole_tasks = True

    def __init__(self, *, reads_text_alone: bool) -> None:
        if reads_text_alone:
            sends = (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)
            self.decoders = {**V1Dialect.decoders, **dict.fromkeys(sends, _read_text)}

    def task(self, task: bytes) -> bytes:
        return _encode(_task(_decode_task(task)))

    def sent_task(self, task: bytes) -> tuple[bytes, ...]:
        return (self.task(task),)

    def streamed_task(self, task: bytes) -> tuple[bytes, ...]:
        return b'{"task":', self.task(task), b"}"

    def event(self, entry: Entry, *, goes_on: bool = False) -> tuple[bytes, ...]:
        event = entry.public
        if isinstance(event, TaskArtifactUpdateEvent):
            return super().event(entry, goes_on=goes_on)
        if isinstance(event, Task):
            return b'{"task":', _encode(_task(event)), b"}"
        update = _StatusUpdate(
            task_id=event.task_id, context_id=event.context_id, status=_status(event.status)
        )
        return b'{"statusUpdate":', _encode(update), b"}"


def _read_text(params: bytes) -> SendMessageRequest:
    """The request with the text parts of its message alone."""
    request = protojson.decode(params, SendMessageRequest)
    message = request.message
    parts = tuple([part for part in message.parts if part.text is not None])
    if len(parts) == len(message.parts):
        return request
    if not parts:
        raise InvalidParams.at("message.parts", "holds no text, and this agent reads nothing else")
    return structs.replace(request, message=structs.replace(message, parts=parts))


def _task(task: Task) -> _Task:
    history = tuple([_message(message) for message in task.history])
    is_completed = task.status.state is TaskState.COMPLETED
    # Clients read the answer from the last message of the history.
    if is_completed and history and history[-1].role is Role.USER:
        history = (*history, _message_of_artifacts(task))
    status = _status(task.status)
    return _Task(id=task.id, context_id=task.context_id, status=status, history=history)


def _status(status: TaskStatus) -> _Status:
    said = None
    # The answer is in the history.
    if status.message is not None and status.state is not TaskState.COMPLETED:
        said = structs.replace(_message(status.message), metadata=status.message.metadata)
    return _Status(state=STATE_NAMES[status.state], timestamp=status.timestamp, message=said)


def _message(message: Message) -> _Message:
    return _Message(message_id=message.message_id, role=message.role, parts=_texts(message.parts))


def _message_of_artifacts(task: Task) -> _Message:
    """The answer of an agent that put it into artifacts alone."""
    parts = tuple([part for artifact in task.artifacts for part in artifact.parts])
    return _Message(message_id=f"{task.id}.answer", role=Role.AGENT, parts=_texts(parts))


def _texts(parts: tuple[Part, ...]) -> tuple[_Text, ...]:
    """Parts as texts: JSON for data, the address of a file, and nothing for its bytes."""
    found: list[_Text] = []
    for part in parts:
        if part.text is not None:
            found.append(_Text(part.text))
        elif part.url is not None:
            found.append(_Text(part.url))
        elif part.raw is None:
            found.append(_Text(_encode(part.data).decode()))
    return tuple(found) or (_Text(""),)


class HubCard(Struct, frozen=True, kw_only=True):
    """The members of a hub's card that do not depend on the agent."""

    organization: str
    organization_url: str
    # Of session tokens, such as `tl_sess_<32hex>`.
    bearer_format: str
    bearer_description: str
    # Whether callers without a credential are refused.
    needs_credential: bool = True

    def of(self, card: AgentCard) -> dict[str, Any]:
        provider = card.provider
        organization, url = self.organization, self.organization_url
        if provider is not None:
            organization, url = provider.organization, provider.url
        scheme = {
            "type": "http",
            "scheme": "Bearer",
            "bearerFormat": self.bearer_format,
            "description": self.bearer_description,
        }
        tree: dict[str, Any] = {
            "name": card.name,
            "description": card.description,
            "version": "1",
            "url": _address(card),
            "provider": {"organization": organization, "url": url},
            "capabilities": {
                "streaming": bool(card.capabilities.streaming),
                "pushNotifications": False,
                "extendedAgentCard": False,
            },
            "skills": [
                {
                    "id": "ask",
                    "name": "ask",
                    "description": "Send a natural-language question; receive a textual answer.",
                }
            ],
            "securitySchemes": {"bearerSession": scheme},
        }
        if self.needs_credential:
            tree["security"] = [{"bearerSession": []}]
        return tree


def _address(card: AgentCard) -> str:
    return next(
        interface.url
        for interface in card.supported_interfaces
        if interface.protocol_binding == "JSONRPC"
    )
