"""The objects of A2A 1.0, and the parameters and results of its operations."""

from typing import Any, Final

from trunkline.model.calls import Operation
from trunkline.model.values import Role, TaskState
from trunkline.protocol import v03_types as v03
from trunkline.protocol.checks.findings import Report, below
from trunkline.protocol.checks.shapes import (
    Check,
    Shape,
    anything,
    base64_text,
    boolean,
    every,
    exactly_one,
    free_object,
    has,
    integer,
    link,
    list_of,
    media_type,
    one_of,
    optional,
    required,
    text,
    timestamp,
    uri,
    url,
)

_NAME: Final = "A2A 1.0"
JSON: Final = f"{_NAME} JSON conventions"
_KIND: Final = "belongs to A2A 0.3; 1.0 tells objects apart by their members"
_KINDS: Final = {"kind": f"kind {_KIND}", "type": f"type {_KIND}"}
_CONTENTS: Final = ("text", "raw", "url", "data")
_INT32: Final = 2**31 - 1

STATES: Final = [str(state) for state in TaskState if state is not TaskState.UNSPECIFIED]
# The right names for those of 0.3 and of seed hubs.
_STATE_HINTS: Final = (
    {name: str(state) for name, state in v03.STATES.items()}
    | {state.value.removeprefix("TASK_STATE_"): str(state) for state in TaskState}
    | {v03.CANCELLED: str(TaskState.CANCELED)}
)
_ROLES: Final = [str(role) for role in Role]
_ROLE_HINTS: Final = {name: str(role) for name, role in v03.ROLES.items()}


def _text(topic: str, *, may_be_empty: bool = True) -> Check:
    return text(f"{_NAME} {topic}", may_be_empty=may_be_empty)


def _id(topic: str) -> Check:
    return _text(topic, may_be_empty=False)


METADATA: Final = optional(free_object(f"{_NAME} metadata"))
_EXTENSIONS: Final = optional(list_of(uri(f"{_NAME} extensions"), f"{_NAME} extensions"))

PART: Final = Shape(
    name="a part",
    rule=f"{_NAME} Part",
    members={
        "text": optional(_text("Part")),
        "raw": optional(base64_text(f"{_NAME} Part")),
        "url": optional(link(f"{_NAME} Part")),
        "data": optional(anything),
        "metadata": METADATA,
        "filename": optional(_text("Part")),
        "mediaType": optional(media_type(f"{_NAME} Part")),
    },
    foreign=_KINDS
    | {
        "file": "file belongs to A2A 0.3; 1.0 has raw or url, filename and mediaType",
        "mimeType": "mimeType belongs to A2A 0.3; 1.0 has mediaType",
    },
    # Null is a value of `data`.
    nullable=("data",),
    also=exactly_one(f"{_NAME} Part", "a part", _CONTENTS, nullable=("data",)),
)
_PARTS: Final = required(list_of(PART, f"{_NAME} Part", at_least_one=True))

MESSAGE: Final = Shape(
    name="a message",
    rule=f"{_NAME} Message",
    members={
        "messageId": required(_id("Message")),
        "contextId": optional(_text("Message")),
        "taskId": optional(_text("Message")),
        "role": required(one_of(f"{_NAME} Role", _ROLES, _ROLE_HINTS)),
        "parts": _PARTS,
        "metadata": METADATA,
        "extensions": _EXTENSIONS,
        "referenceTaskIds": optional(list_of(_id("Message"), f"{_NAME} Message")),
    },
    foreign=_KINDS | {"content": "content is a name of A2A 0.3 over REST; 1.0 has parts"},
)


def _from(role: Role, severity: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        given = value.get("role") if isinstance(value, dict) else None
        other = next(each for each in Role if each is not role)
        if given == other:
            add = report.error if severity == "error" else report.warning
            add(f"{_NAME} Role", below(pointer, "role"), f"the role here is {role}, not {other}")

    return check


def _has_context(report: Report, value: Any, pointer: str) -> None:
    if isinstance(value, dict) and not has(value, "contextId"):
        report.warning(f"{_NAME} Message", pointer, "a message of an agent carries its contextId")


SENT_MESSAGE: Final = every(MESSAGE, _from(Role.USER, "warning"))
AGENT_MESSAGE: Final = every(MESSAGE, _from(Role.AGENT, "warning"))
REPLY: Final = every(AGENT_MESSAGE, _has_context)

ARTIFACT: Final = Shape(
    name="an artifact",
    rule=f"{_NAME} Artifact",
    members={
        "artifactId": required(_id("Artifact")),
        "name": optional(_text("Artifact")),
        "description": optional(_text("Artifact")),
        "parts": _PARTS,
        "metadata": METADATA,
        "extensions": _EXTENSIONS,
    },
    foreign=_KINDS,
)
STATUS: Final = Shape(
    name="a status",
    rule=f"{_NAME} TaskStatus",
    members={
        "state": required(one_of(f"{_NAME} TaskState", STATES, _STATE_HINTS)),
        "message": optional(AGENT_MESSAGE),
        "timestamp": optional(timestamp(f"{_NAME} timestamps", is_utc=True)),
    },
    foreign=_KINDS,
)


def _one_id_each(report: Report, value: Any, pointer: str) -> None:
    artifacts = value.get("artifacts")
    seen: set[str] = set()
    for index, each in enumerate(artifacts if isinstance(artifacts, list) else ()):
        name = each.get("artifactId") if isinstance(each, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            at = below(below(pointer, "artifacts"), index)
            text = "two artifacts of the task have this artifactId"
            report.error(f"{_NAME} Artifact", below(at, "artifactId"), text)
        seen.add(name)


TASK: Final = Shape(
    name="a task",
    rule=f"{_NAME} Task",
    members={
        "id": required(_id("Task")),
        "contextId": optional(_text("Task")),
        "status": required(STATUS),
        "artifacts": optional(list_of(ARTIFACT, f"{_NAME} Task")),
        "history": optional(list_of(MESSAGE, f"{_NAME} Task")),
        "metadata": METADATA,
    },
    foreign=_KINDS,
    also=_one_id_each,
)
_UPDATE: Final = {
    "taskId": required(_id("events")),
    "contextId": required(_text("events")),
    "metadata": METADATA,
}
STATUS_UPDATE: Final = Shape(
    name="a status update",
    rule=f"{_NAME} TaskStatusUpdateEvent",
    members=_UPDATE | {"status": required(STATUS)},
    foreign=_KINDS | {"final": "final belongs to A2A 0.3; in 1.0 the stream closes"},
)
ARTIFACT_UPDATE: Final = Shape(
    name="an artifact update",
    rule=f"{_NAME} TaskArtifactUpdateEvent",
    members=_UPDATE
    | {
        "artifact": required(ARTIFACT),
        "append": optional(boolean(f"{_NAME} TaskArtifactUpdateEvent")),
        "lastChunk": optional(boolean(f"{_NAME} TaskArtifactUpdateEvent")),
    },
    foreign=_KINDS | {"index": "index is not in the proto of 1.0"},
)

_EVENTS: Final = ("task", "message", "statusUpdate", "artifactUpdate")
_BARE: Final = frozenset({"kind", "id", "status", "messageId", "parts", "taskId", "artifact"})


def _wrapped(shape: Shape) -> Check:
    """An object of which one member names the kind."""

    def check(report: Report, value: Any, pointer: str) -> None:
        is_bare = isinstance(value, dict) and not any(name in value for name in _EVENTS)
        if is_bare and any(name in value for name in _BARE):
            known = " or ".join(shape.members)
            text = f"the object is not wrapped: 1.0 puts {known} around it"
            report.error(shape.rule, pointer, text)
        else:
            shape(report, value, pointer)

    return check


_EVENT: Final = Shape(
    name="an event",
    rule=f"{_NAME} §3.2.3",
    members={
        "task": optional(TASK),
        "message": optional(REPLY),
        "statusUpdate": optional(STATUS_UPDATE),
        "artifactUpdate": optional(ARTIFACT_UPDATE),
    },
    also=exactly_one(f"{_NAME} §3.2.3", "a StreamResponse", _EVENTS),
)
_SEND_RESPONSE: Final = Shape(
    name="a SendMessageResponse",
    rule=f"{_NAME} SendMessageResponse",
    members={"task": optional(TASK), "message": optional(REPLY)},
    also=exactly_one(f"{_NAME} SendMessageResponse", "a SendMessageResponse", _EVENTS[:2]),
)
EVENT: Final = _wrapped(_EVENT)
_SENT: Final = _wrapped(_SEND_RESPONSE)

_AUTHENTICATION: Final = Shape(
    name="the authentication",
    rule=f"{_NAME} push notifications",
    members={
        "scheme": required(_id("push notifications")),
        "credentials": optional(_text("push notifications")),
    },
    foreign={"schemes": "schemes belongs to A2A 0.3; 1.0 has one scheme"},
)
_PUSH: Final = {
    "tenant": optional(_text("tenants")),
    "id": optional(_text("push notifications")),
    "taskId": optional(_text("push notifications")),
    "url": required(url(f"{_NAME} push notifications", schemes=("http", "https"))),
    "token": optional(_text("push notifications")),
    "authentication": optional(_AUTHENTICATION),
}
_NESTED: Final = {
    "pushNotificationConfig": "pushNotificationConfig belongs to A2A 0.3; in 1.0 the members "
    "of the configuration stand beside taskId"
}


def _push(**changed: Any) -> Shape:
    return Shape(
        name="a TaskPushNotificationConfig",
        rule=f"{_NAME} push notifications",
        members=_PUSH | changed,
        foreign=_NESTED,
    )


def _request(name: str, **members: Any) -> Shape:
    own = {"tenant": optional(_text("tenants")), **members}
    return Shape(name=name, rule=f"{_NAME} {name}", members=own, foreign=dict(_NESTED))


_HISTORY: Final = optional(integer(f"{_NAME} historyLength", low=0, high=_INT32))
_CONFIGURATION: Final = Shape(
    name="the configuration",
    rule=f"{_NAME} §3.2.2",
    members={
        "acceptedOutputModes": optional(list_of(media_type(f"{_NAME} §3.2.2"), f"{_NAME} §3.2.2")),
        "taskPushNotificationConfig": optional(_push()),
        "historyLength": _HISTORY,
        "returnImmediately": optional(boolean(f"{_NAME} §3.2.2")),
    },
    foreign={
        "blocking": "blocking belongs to A2A 0.3; 1.0 has returnImmediately, which means the "
        "opposite",
        **_NESTED,
    },
)
_SEND: Final = _request(
    "SendMessageRequest",
    message=required(SENT_MESSAGE),
    configuration=optional(_CONFIGURATION),
    metadata=METADATA,
)
_TASK_ID: Final = required(_id("Task"))
_PUSH_TASK: Final = required(_id("push notifications"))
_PAGE_SIZE: Final = optional(integer(f"{_NAME} §3.1.4", low=1, high=100))

PARAMETERS: Final[dict[Operation, Check]] = {
    Operation.SEND_MESSAGE: _SEND,
    Operation.SEND_STREAMING_MESSAGE: _SEND,
    Operation.GET_TASK: _request("GetTaskRequest", id=_TASK_ID, historyLength=_HISTORY),
    Operation.LIST_TASKS: _request(
        "ListTasksRequest",
        contextId=optional(_text("§3.1.4")),
        status=optional(
            one_of(f"{_NAME} TaskState", [*STATES, str(TaskState.UNSPECIFIED)], _STATE_HINTS)
        ),
        pageSize=_PAGE_SIZE,
        pageToken=optional(_text("§3.1.4")),
        historyLength=_HISTORY,
        statusTimestampAfter=optional(timestamp(f"{_NAME} timestamps", is_utc=True)),
        includeArtifacts=optional(boolean(f"{_NAME} §3.1.4")),
    ),
    Operation.CANCEL_TASK: _request("CancelTaskRequest", id=_TASK_ID, metadata=METADATA),
    Operation.SUBSCRIBE_TO_TASK: _request("SubscribeToTaskRequest", id=_TASK_ID),
    Operation.CREATE_PUSH_CONFIG: _push(taskId=_PUSH_TASK),
    Operation.GET_PUSH_CONFIG: _request(
        "GetTaskPushNotificationConfigRequest", taskId=_PUSH_TASK, id=_PUSH_TASK
    ),
    Operation.LIST_PUSH_CONFIGS: _request(
        "ListTaskPushNotificationConfigsRequest",
        taskId=_PUSH_TASK,
        pageSize=optional(integer(f"{_NAME} push notifications", low=0, high=_INT32)),
        pageToken=optional(_text("push notifications")),
    ),
    Operation.DELETE_PUSH_CONFIG: _request(
        "DeleteTaskPushNotificationConfigRequest", taskId=_PUSH_TASK, id=_PUSH_TASK
    ),
    Operation.GET_EXTENDED_AGENT_CARD: _request("GetExtendedAgentCardRequest"),
}
# The members of the body over REST, where the path has the ids.
_OF_PATH: Final = optional(_text("§11.5"))
REST_BODIES: Final[dict[Operation, Check]] = {
    Operation.SEND_MESSAGE: _SEND,
    Operation.SEND_STREAMING_MESSAGE: _SEND,
    Operation.CANCEL_TASK: _request("CancelTaskRequest", id=_OF_PATH, metadata=METADATA),
    Operation.SUBSCRIBE_TO_TASK: _request("SubscribeToTaskRequest", id=_OF_PATH),
    Operation.CREATE_PUSH_CONFIG: _push(taskId=_OF_PATH),
}

_COUNT: Final = required(integer(f"{_NAME} §3.1.4", low=0, high=_INT32))


def _no_more_than_asked(report: Report, value: Any, pointer: str) -> None:
    tasks, size = value.get("tasks"), value.get("pageSize")
    if isinstance(tasks, list) and isinstance(size, int) and len(tasks) > size:
        text = f"the page holds {len(tasks)} tasks, and its pageSize is {size}"
        report.error(f"{_NAME} §3.1.4", below(pointer, "tasks"), text)


def _page(task: Check, rule: str) -> Shape:
    return Shape(
        name="the page",
        rule=rule,
        members={
            "tasks": required(list_of(task, rule)),
            "nextPageToken": required(text(rule)),
            "pageSize": _COUNT,
            "totalSize": _COUNT,
        },
        also=_no_more_than_asked,
    )


def _empty(report: Report, value: Any, pointer: str) -> None:
    if value not in (None, {}):
        report.warning(f"{_NAME} push notifications", pointer, "the answer to a deletion is empty")


LIST_PAGE: Final = _page
STORED_PUSH: Final = _push(id=required(_id("push notifications")), taskId=_PUSH_TASK)
# Without those that are cards.
RESULTS: Final[dict[Operation, Check]] = {
    Operation.SEND_MESSAGE: _SENT,
    Operation.SEND_STREAMING_MESSAGE: EVENT,
    Operation.GET_TASK: TASK,
    Operation.LIST_TASKS: _page(TASK, f"{_NAME} §3.1.4"),
    Operation.CANCEL_TASK: TASK,
    Operation.SUBSCRIBE_TO_TASK: EVENT,
    Operation.CREATE_PUSH_CONFIG: STORED_PUSH,
    Operation.GET_PUSH_CONFIG: STORED_PUSH,
    Operation.LIST_PUSH_CONFIGS: Shape(
        name="the list",
        rule=f"{_NAME} push notifications",
        members={
            "configs": optional(list_of(STORED_PUSH, f"{_NAME} push notifications")),
            "nextPageToken": optional(_text("push notifications")),
        },
    ),
    Operation.DELETE_PUSH_CONFIG: _empty,
}
