"""The objects of A2A 0.3, over JSON-RPC and over REST.

REST is in practice the ProtoJSON of the gRPC definition, and its prose suggests the shapes of
JSON-RPC. Both are accepted there.
"""

from typing import Any, Final

from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.values import Role, TaskState
from trunkline.protocol import v03_types as v03
from trunkline.protocol.checks import shapes_v1
from trunkline.protocol.checks.findings import Report, below, kind_of, shown
from trunkline.protocol.checks.shapes import (
    Check,
    Member,
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
    nothing,
    one_of,
    optional,
    required,
    text,
    timestamp,
    uri,
    url,
)

_NAME: Final = "A2A 0.3"
_PARTS: Final = ("text", "file", "data")
_OF_1_0: Final = {
    "raw": "raw belongs to A2A 1.0; 0.3 has file with bytes",
    "url": "url belongs to A2A 1.0; 0.3 has file with uri",
    "filename": "filename belongs to A2A 1.0; 0.3 has name in file",
    "mediaType": "mediaType belongs to A2A 1.0; 0.3 has mimeType in file",
}
_INT32: Final = 2**31 - 1
_STATE_HINTS: Final = {str(state): name for name, state in v03.STATES.items()} | {
    v03.CANCELLED: "canceled",
    "cancelled": "canceled",
}
_ROLE_HINTS: Final = {str(role): name for name, role in v03.ROLES.items()}


def _text(topic: str) -> Check:
    return text(f"{_NAME} {topic}")


def _id(topic: str) -> Check:
    return text(f"{_NAME} {topic}", may_be_empty=False)


_METADATA: Final = optional(free_object(f"{_NAME} metadata"))
_EXTENSIONS: Final = optional(list_of(uri(f"{_NAME} extensions"), f"{_NAME} extensions"))
_HISTORY: Final = optional(integer(f"{_NAME} historyLength", low=0, high=_INT32))


class Shapes03(Struct, frozen=True, kw_only=True):
    task: Check
    event: Check
    sent: Check
    parameters: dict[Operation, Check]
    results: dict[Operation, Check]


def _kind(name: str, *, is_rest: bool) -> dict[str, Member]:
    check = nothing(f"{_NAME} kind", f'kind must be "{name}" here', name)
    return {"kind": optional(check) if is_rest else required(check)}


def _made(*, is_rest: bool) -> Shapes03:
    def shape(name: str, topic: str, also: Check | None = None, /, **members: Member) -> Shape:
        return Shape(
            name=name,
            rule=f"{_NAME} {topic}",
            members=members,
            foreign=_OF_1_0 if name == "a part" else {},
            also=also,
            takes_snake=is_rest,
        )

    bytes_, uri_ = base64_text(f"{_NAME} FilePart"), link(f"{_NAME} FilePart")
    names = ("bytes", "uri", "fileWithBytes", "fileWithUri") if is_rest else ("bytes", "uri")
    contents = {
        name: optional(bytes_ if name.lower().endswith("bytes") else uri_) for name in names
    }
    file = shape(
        "a file",
        "FilePart",
        exactly_one(f"{_NAME} FilePart", "a file", names),
        name=optional(_text("FilePart")),
        mimeType=optional(media_type(f"{_NAME} FilePart")),
        **contents,
    )
    part_kind = one_of(f"{_NAME} Part", _PARTS)
    part = shape(
        "a part",
        "Part",
        every(exactly_one(f"{_NAME} Part", "a part", _PARTS), _kind_fits),
        kind=optional(part_kind) if is_rest else required(part_kind),
        text=optional(_text("Part")),
        file=optional(file),
        data=optional(free_object(f"{_NAME} §6.5.3")),
        metadata=_METADATA,
    )
    parts = list_of(part, f"{_NAME} Part", at_least_one=True)
    if is_rest:
        roles = one_of(f"{_NAME} Role", [*v03.ROLES, *map(str, Role)])
        states = [*v03.STATES, *map(str, TaskState), v03.CANCELLED]
        state = one_of(f"{_NAME} TaskState", states)
        own = {"parts": optional(parts), "content": optional(parts)}
        also = exactly_one(f"{_NAME} Message", "a message over REST", ("content", "parts"))
    else:
        roles = one_of(f"{_NAME} Role", [*v03.ROLES], _ROLE_HINTS)
        state = one_of(f"{_NAME} TaskState", [*v03.STATES], _STATE_HINTS)
        own = {"parts": required(parts)}
        also = None
    message = shape(
        "a message",
        "Message",
        also,
        **_kind("message", is_rest=is_rest),
        messageId=required(_id("Message")),
        role=required(roles),
        contextId=optional(_text("Message")),
        taskId=optional(_text("Message")),
        referenceTaskIds=optional(list_of(_id("Message"), f"{_NAME} Message")),
        extensions=_EXTENSIONS,
        metadata=_METADATA,
        **own,
    )
    artifact = shape(
        "an artifact",
        "Artifact",
        artifactId=required(_id("Artifact")),
        name=optional(_text("Artifact")),
        description=optional(_text("Artifact")),
        parts=required(parts),
        metadata=_METADATA,
        extensions=_EXTENSIONS,
    )
    # ProtoJSON calls the message of a status `update` in the proto; JSON has `message`.
    status = shape(
        "a status",
        "TaskStatus",
        state=required(state),
        message=optional(every(message, _is_agents)),
        timestamp=optional(timestamp(f"{_NAME} timestamps", is_utc=False)),
        **({"update": optional(message)} if is_rest else {}),
    )
    task = shape(
        "a task",
        "Task",
        **_kind("task", is_rest=is_rest),
        id=required(_id("Task")),
        contextId=required(_text("Task")),
        status=required(status),
        artifacts=optional(list_of(artifact, f"{_NAME} Task")),
        history=optional(list_of(message, f"{_NAME} Task")),
        metadata=_METADATA,
    )
    update = {
        "taskId": required(_id("events")),
        "contextId": required(_text("events")),
        "metadata": _METADATA,
    }
    flag = boolean(f"{_NAME} §7.2.2")
    # ProtoJSON leaves out what is false.
    final = optional(flag) if is_rest else required(flag)
    status_update = shape(
        "a status update",
        "§7.2.2",
        **_kind("status-update", is_rest=is_rest),
        **update,
        status=required(status),
        final=final,
    )
    artifact_update = shape(
        "an artifact update",
        "TaskArtifactUpdateEvent",
        **_kind("artifact-update", is_rest=is_rest),
        **update,
        artifact=required(artifact),
        append=optional(boolean(f"{_NAME} TaskArtifactUpdateEvent")),
        lastChunk=optional(boolean(f"{_NAME} TaskArtifactUpdateEvent")),
    )
    by_kind: dict[str, Check] = {
        "task": task,
        "message": every(message, _is_agents),
        "status-update": status_update,
        "artifact-update": artifact_update,
    }
    sent_kinds = {name: by_kind[name] for name in ("task", "message")}
    event = _by_kind("an event", by_kind, is_rest=is_rest)
    sent = _by_kind("the result", sent_kinds, is_rest=is_rest)

    authentication = shape(
        "the authentication",
        "push notifications",
        schemes=required(list_of(_id("push notifications"), f"{_NAME} push notifications")),
        credentials=optional(_text("push notifications")),
    )
    push = shape(
        "a PushNotificationConfig",
        "push notifications",
        id=optional(_text("push notifications")),
        url=required(url(f"{_NAME} push notifications", schemes=("http", "https"))),
        token=optional(_text("push notifications")),
        authentication=optional(authentication),
    )
    of_rest = {"name": optional(anything)} if is_rest else {}
    stored_push = shape(
        "a TaskPushNotificationConfig",
        "push notifications",
        taskId=(optional if is_rest else required)(_id("push notifications")),
        pushNotificationConfig=required(push),
        **of_rest,
    )
    configuration = shape(
        "the configuration",
        "MessageSendConfiguration",
        acceptedOutputModes=optional(
            list_of(
                media_type(f"{_NAME} MessageSendConfiguration"), f"{_NAME} MessageSendConfiguration"
            )
        ),
        blocking=optional(boolean(f"{_NAME} MessageSendConfiguration")),
        historyLength=_HISTORY,
        pushNotificationConfig=optional(push),
        **({"pushNotification": optional(push)} if is_rest else {}),
    )
    send = shape(
        "the parameters",
        "MessageSendParams",
        exactly_one(f"{_NAME} MessageSendParams", "the body", ("message", "request"))
        if is_rest
        else None,
        message=optional(message) if is_rest else required(message),
        configuration=optional(configuration),
        metadata=_METADATA,
        **({"request": optional(message)} if is_rest else {}),
    )
    task_id = required(_id("Task"))
    ids = {"id": task_id, "metadata": _METADATA}
    parameters: dict[Operation, Check] = {
        Operation.SEND_MESSAGE: send,
        Operation.SEND_STREAMING_MESSAGE: send,
    }
    if is_rest:
        config = shape("the body", "push notifications", pushNotificationConfig=required(push))
        parameters |= {
            Operation.CANCEL_TASK: shape("the body", "tasks/cancel", **of_rest, metadata=_METADATA),
            Operation.SUBSCRIBE_TO_TASK: shape("the body", "tasks/resubscribe", **of_rest),
            Operation.CREATE_PUSH_CONFIG: shape(
                "the body",
                "push notifications",
                exactly_one(
                    f"{_NAME} push notifications", "the body", ("config", "pushNotificationConfig")
                ),
                config=optional(config),
                pushNotificationConfig=optional(push),
                configId=optional(_text("push notifications")),
                parent=optional(anything),
            ),
        }
    else:
        query = shape(
            "the parameters",
            "§7.6",
            id=task_id,
            pushNotificationConfigId=optional(_text("§7.6")),
            metadata=_METADATA,
        )
        parameters |= {
            Operation.GET_TASK: shape("the parameters", "tasks/get", historyLength=_HISTORY, **ids),
            Operation.LIST_TASKS: anything,
            Operation.CANCEL_TASK: shape("the parameters", "tasks/cancel", **ids),
            Operation.SUBSCRIBE_TO_TASK: shape("the parameters", "tasks/resubscribe", **ids),
            Operation.CREATE_PUSH_CONFIG: stored_push,
            Operation.GET_PUSH_CONFIG: query,
            Operation.LIST_PUSH_CONFIGS: query,
            Operation.DELETE_PUSH_CONFIG: query,
            Operation.GET_EXTENDED_AGENT_CARD: anything,
        }
    results: dict[Operation, Check] = {
        Operation.SEND_MESSAGE: sent,
        Operation.SEND_STREAMING_MESSAGE: event,
        Operation.GET_TASK: task,
        Operation.LIST_TASKS: _page(task),
        Operation.CANCEL_TASK: task,
        Operation.SUBSCRIBE_TO_TASK: event,
        Operation.CREATE_PUSH_CONFIG: stored_push,
        Operation.GET_PUSH_CONFIG: stored_push,
        Operation.LIST_PUSH_CONFIGS: _configs(stored_push)
        if is_rest
        else list_of(stored_push, f"{_NAME} push notifications"),
        Operation.DELETE_PUSH_CONFIG: _deleted,
    }
    return Shapes03(task=task, event=event, sent=sent, parameters=parameters, results=results)


def _kind_fits(report: Report, value: Any, pointer: str) -> None:
    kind = value.get("kind")
    given = [name for name in _PARTS if has(value, name)]
    if isinstance(kind, str) and kind in _PARTS and len(given) == 1 and given != [kind]:
        text = f"kind is {kind}, and the part holds {given[0]}"
        report.error(f"{_NAME} Part", below(pointer, "kind"), text)


def _is_agents(report: Report, value: Any, pointer: str) -> None:
    role = value.get("role") if isinstance(value, dict) else None
    if role in ("user", str(Role.USER)):
        at = below(pointer, "role")
        report.warning(f"{_NAME} Role", at, "the role here is agent, not user")


# The names around objects over REST, and the kinds over JSON-RPC.
WRAPPERS: Final = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
    # The proto of 0.3 calls the message so.
    "msg": "message",
}


def _by_kind(what: str, checks: dict[str, Check], *, is_rest: bool) -> Check:
    known = ", ".join(checks)

    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            report.error(f"{_NAME} kind", pointer, f"{what} must be an object, not {shown(value)}")
            return
        kind = value.get("kind")
        if isinstance(kind, str) and kind in checks:
            checks[kind](report, value, pointer)
            return
        wrapped = [name for name in WRAPPERS if has(value, name)]
        if is_rest and "kind" not in value:
            if len(wrapped) == 1 and len(value) == 1 and WRAPPERS[wrapped[0]] in checks:
                checks[WRAPPERS[wrapped[0]]](report, value[wrapped[0]], below(pointer, wrapped[0]))
            else:
                text = f"{what} has exactly one of the members {', '.join(WRAPPERS)}"
                report.error(f"{_NAME} REST", pointer, text)
        elif kind is None and wrapped and "status" not in value:
            text = f"{what} is wrapped in {wrapped[0]} as in 1.0; in 0.3 it says its kind itself"
            report.error(f"{_NAME} kind", below(pointer, wrapped[0]), text)
        elif kind is None:
            report.error(f"{_NAME} kind", pointer, f"{what} has no kind; one of {known}")
        else:
            at = below(pointer, "kind")
            report.error(f"{_NAME} kind", at, f"{shown(kind)} is not one of {known}")

    return check


def _page(task: Check) -> Check:
    check = shapes_v1.LIST_PAGE(task, f"{_NAME} tasks/list")

    def page(report: Report, value: Any, pointer: str) -> None:
        report.note(f"{_NAME} tasks/list", pointer, "0.3 does not say how tasks are listed")
        check(report, value, pointer)

    return page


def _configs(stored_push: Check) -> Check:
    wrapped = Shape(
        name="the list",
        rule=f"{_NAME} push notifications",
        members={
            "configs": optional(list_of(stored_push, f"{_NAME} push notifications")),
            "nextPageToken": optional(_text("push notifications")),
        },
    )

    def check(report: Report, value: Any, pointer: str) -> None:
        # The prose of 0.3 has a list, and its proto an object.
        if isinstance(value, list):
            list_of(stored_push, f"{_NAME} push notifications")(report, value, pointer)
        else:
            wrapped(report, value, pointer)

    return check


def _deleted(report: Report, value: Any, pointer: str) -> None:
    if value not in (None, {}):
        text = f"the answer to a deletion is null, not {kind_of(value)}"
        report.warning(f"{_NAME} push notifications", pointer, text)


JSONRPC: Final = _made(is_rest=False)
REST: Final = _made(is_rest=True)
