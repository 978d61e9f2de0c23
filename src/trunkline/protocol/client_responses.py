"""Answers of other agents as values of the model, whatever version they speak.

Every function raises InvalidAgentResponse, and nothing else, for an answer that is not A2A.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from trunkline.model.calls import TaskPushNotificationConfig
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse, TrunklineError
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.protocol import card_reading, protojson
from trunkline.protocol import v03_types as v03
from trunkline.protocol.client_requests import Binding
from trunkline.protocol.errors import REASONS
from trunkline.protocol.v03_reading import Reader03, read_push_config
from trunkline.protocol.versions import Version

T = TypeVar("T")
StreamItem: TypeAlias = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class TaskPage(Struct, frozen=True, kw_only=True, rename="camel"):
    tasks: tuple[Task, ...] = ()
    next_page_token: str = ""
    page_size: int = 0
    total_size: int = 0


def _read(payload: bytes, into: type[T]) -> T:
    try:
        return protojson.decode(payload, into)
    except TrunklineError as error:
        raise InvalidAgentResponse(f"the answer is not valid: {error.message}") from None


def _is_none() -> InvalidAgentResponse:
    return InvalidAgentResponse("the answer is neither a task nor a message nor an update")


def _sent(item: StreamItem) -> Task | Message:
    if isinstance(item, Task | Message):
        return item
    raise InvalidAgentResponse("the answer to a message is an update without its task")


class _Item1(Struct, rename="camel"):
    task: Task | None = None
    message: Message | None = None
    status_update: TaskStatusUpdateEvent | None = None
    artifact_update: TaskArtifactUpdateEvent | None = None


class _PushConfigs1(Struct, rename="camel"):
    configs: tuple[TaskPushNotificationConfig, ...] = ()


class Answers:
    """A2A 1.0 as a client reads it. All methods take the JSON of a result."""

    def sent(self, payload: bytes) -> Task | Message:
        return _sent(self.event(payload))

    def event(self, payload: bytes) -> StreamItem:
        item = _read(payload, _Item1)
        value = item.artifact_update or item.status_update or item.task or item.message
        if value is None:
            raise _is_none()
        return value

    def task(self, payload: bytes) -> Task:
        return _read(payload, Task)

    def page(self, payload: bytes) -> TaskPage:
        return _read(payload, TaskPage)

    def card(self, payload: bytes) -> AgentCard:
        return card_reading.decode(payload)

    def push_config(self, payload: bytes) -> TaskPushNotificationConfig:
        return _read(payload, TaskPushNotificationConfig)

    def push_configs(self, payload: bytes) -> tuple[TaskPushNotificationConfig, ...]:
        return _read(payload, _PushConfigs1).configs


class _Kind03(Struct, rename="camel"):
    """The members that tell the objects of 0.3 apart, also where the kind is missing."""

    kind: str = ""
    message_id: Raw = Raw(b"")
    artifact: Raw = Raw(b"")
    task_id: Raw = Raw(b"")


class _Page03(Struct, rename="camel"):
    tasks: tuple[v03.Task, ...] = ()
    next_page_token: str = ""
    page_size: int = 0
    total_size: int = 0


class _Item03(Struct, rename="camel"):
    """The members by which REST tells the objects apart."""

    task: v03.Task | None = None
    message: v03.Message | None = None
    msg: v03.Message | None = None
    status_update: v03.StatusUpdate | None = None
    artifact_update: v03.ArtifactUpdate | None = None


class _PushConfig03(Struct, kw_only=True, rename="camel"):
    """REST has the task in a name, `tasks/ID/pushNotificationConfigs/ID`."""

    task_id: str = ""
    name: str = ""
    push_notification_config: v03.PushConfig


class _PushConfigs03(Struct):
    """The list as REST has it."""

    configs: tuple[_PushConfig03, ...] = ()


_kind = msgspec.json.Decoder(_Kind03).decode


class _Answers03(Answers):
    """A2A 0.3 on one binding."""

    def __init__(self, *, is_rest: bool) -> None:
        self._reader = reader = Reader03(is_rest=is_rest)
        self._objects: dict[str, tuple[type, Callable[[Any], StreamItem]]] = {
            "task": (v03.Task, reader.task),
            "message": (v03.Message, partial(reader.message, path="message")),
            "status-update": (v03.StatusUpdate, reader.status_update),
            "artifact-update": (v03.ArtifactUpdate, reader.artifact_update),
        }
        self._converters = dict(self._objects.values())

    def _core(self, convert: Callable[..., T], value: object, *path: str) -> T:
        try:
            return convert(value, *path)
        except (TrunklineError, ValueError) as error:
            raise InvalidAgentResponse(f"the answer is not valid: {error}") from None

    def event(self, payload: bytes) -> StreamItem:
        if self._reader.is_rest:
            item = _read(payload, _Item03)
            value = (
                item.artifact_update or item.status_update or item.task or item.message or item.msg
            )
            if value is None:
                raise _is_none()
            return self._core(self._converters[type(value)], value)
        try:
            kind = _kind(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidAgentResponse("the answer is not an object of A2A 0.3") from None
        found = self._objects.get(kind.kind or _guess(kind))
        if found is None:
            raise InvalidAgentResponse("the answer is of a kind that A2A 0.3 does not have")
        into, convert = found
        return self._core(convert, _read(payload, into))

    def task(self, payload: bytes) -> Task:
        return self._core(self._reader.task, _read(payload, v03.Task))

    def page(self, payload: bytes) -> TaskPage:
        page = _read(payload, _Page03)
        return TaskPage(
            tasks=tuple([self._core(self._reader.task, task) for task in page.tasks]),
            next_page_token=page.next_page_token,
            page_size=page.page_size,
            total_size=page.total_size,
        )

    def push_config(self, payload: bytes) -> TaskPushNotificationConfig:
        return self._push_config(_read(payload, _PushConfig03))

    def _push_config(self, given: _PushConfig03) -> TaskPushNotificationConfig:
        path = "pushNotificationConfig"
        config = self._core(read_push_config, given.push_notification_config, path)
        named = given.name.split("/")[1:2]
        return structs.replace(config, task_id=given.task_id or "".join(named))

    def push_configs(self, payload: bytes) -> tuple[TaskPushNotificationConfig, ...]:
        try:
            given = msgspec.json.decode(payload, type=list[_PushConfig03] | _PushConfigs03)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidAgentResponse("the answer is not a list of configurations") from None
        configs = given if isinstance(given, list) else given.configs
        return tuple([self._push_config(one) for one in configs])


def _guess(kind: _Kind03) -> str:
    if kind.message_id:
        return "message"
    if kind.artifact:
        return "artifact-update"
    return "status-update" if kind.task_id else "task"


ANSWERS: Final[dict[tuple[Binding, Version], Answers]] = {
    ("JSONRPC", Version.V1_0): Answers(),
    ("HTTP+JSON", Version.V1_0): Answers(),
    ("JSONRPC", Version.V0_3): _Answers03(is_rest=False),
    ("HTTP+JSON", Version.V0_3): _Answers03(is_rest=True),
}


class Refusal(Struct, frozen=True, kw_only=True):
    """The error of a peer. `code` is that of JSON-RPC, or 0 where there is none."""

    code: int = 0
    reason: str = ""
    message: str = ""
    data: Any = None


class _RpcError(Struct):
    code: int = 0
    message: str = ""
    data: Any = None


class _Envelope(Struct):
    id: Raw = Raw(b"null")
    result: Raw = Raw(b"")
    error: _RpcError | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode


def opened(body: bytes, id: bytes) -> bytes | Refusal:
    """The result or error in a JSON-RPC envelope, which must have the id of the request.

    Raises InvalidAgentResponse where there is no such envelope.
    """
    try:
        envelope = _envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidAgentResponse("the answer is not JSON-RPC") from None
    given, error = bytes(envelope.id), envelope.error
    # An agent that fails before it reads the id answers with null.
    if given != id and not (error is not None and given == b"null"):
        raise InvalidAgentResponse("the answer is to another request: its id differs")
    if error is not None:
        return refusal(error.code, error.message, error.data)
    # Some agents leave out a null result, which is the whole answer to a deletion.
    return bytes(envelope.result) or b"null"


_CODES: Final = {reason: code for code, reason in REASONS.items()}
# The names of errors in REST answers of 0.3.
_NAMES_03: Final = {
    reason.replace("_", "").lower() + "error": reason for reason in REASONS.values()
}


def refusal(code: int, message: str, data: Any) -> Refusal:
    reason = _reason_in(data) or REASONS.get(code, "")
    return Refusal(code=code, reason=reason, message=message, data=data)


def http_refusal(status: int, body: bytes) -> Refusal:
    """The refusal in the body of a 4xx or 5xx response; an empty one where the body has none."""
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        return Refusal()
    inner = tree["error"] if isinstance(tree.get("error"), dict) else tree
    message = next((v for k in ("message", "detail") if isinstance(v := inner.get(k), str)), "")
    data = inner.get("details", inner.get("data"))
    reason = _reason_in(data) or _NAMES_03.get(str(tree.get("type")).lower(), "")
    # REST of 0.3 writes the code at the top, JSON-RPC with an HTTP status inside `error`.
    code = next((c for o in (tree, inner) if (c := _code_in(o))), _CODES.get(reason, 0))
    return Refusal(code=code, reason=reason or REASONS.get(code, ""), message=message, data=data)


def _code_in(tree: dict[str, Any]) -> int:
    code = tree.get("code")
    return code if isinstance(code, int) and code in REASONS else 0


def _reason_in(details: Any) -> str:
    """The reason of a google.rpc.ErrorInfo among the details."""
    for one in details if isinstance(details, list) else ():
        if isinstance(one, dict) and isinstance(reason := one.get("reason"), str):
            return reason
    return ""
