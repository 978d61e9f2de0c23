"""`ToolRequest`: a valid request as a value."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from trunkline.model.calls import AuthenticationInfo, TaskPushNotificationConfig
from trunkline.model.values import Part

# The largest number on the wire (int32); in milliseconds 24 days.
_INT32_MAX: Final = 2**31 - 1


class Continuation(Struct, frozen=True, kw_only=True):
    """A continuation that a caller hands back; "" where it says nothing."""

    target_url: str
    card_path: str
    transports: tuple[str, ...]
    target_alias: str = ""
    signature: str = ""
    task_id: str = ""
    task_handle: str = ""
    context_id: str = ""


class ToolRequest(Struct, frozen=True, kw_only=True):
    """The fields of the input schema."""

    action: str
    target_alias: str = ""
    target_url: str = ""
    target_tags: tuple[str, ...] = ()
    skill: str = ""
    parts: tuple[Part, ...] = ()
    task_handle: str = ""
    continuation: Continuation | None = None
    message_id: str = ""
    task_id: str = ""
    context_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    task_requirement: str = "optional"
    follow_updates: bool = False
    wait_timeout_ms: int | None = None
    cancel_on_abort: bool = False
    accepted_output_modes: tuple[str, ...] | None = None
    blocking: bool = True
    history_length: int | None = None
    timeout_ms: int | None = None
    service_parameters: Mapping[str, str] = {}
    metadata: dict[str, Any] | None = None
    push_notification_config: TaskPushNotificationConfig | None = None

    @property
    def needs_task(self) -> bool:
        return self.task_requirement == "required"


def _part(part: Mapping[str, Any]) -> Part:
    metadata = part.get("metadata")
    if part["kind"] == "text":
        return Part(text=part["text"], metadata=metadata)
    if part["kind"] == "data":
        return Part(data=part["data"], metadata=metadata)
    uri = part.get("uri")
    return Part(
        url=uri,
        raw=base64.b64decode(part["bytes"]) if uri is None else None,
        filename=part.get("name", ""),
        media_type=part.get("mime_type", ""),
        metadata=metadata,
    )


def _continuation(given: Mapping[str, Any]) -> Continuation:
    target, task = given["target"], given.get("task", {})
    return Continuation(
        target_url=target["target_url"],
        card_path=target["card_path"],
        transports=tuple(target["preferred_transports"]),
        target_alias=target.get("target_alias", ""),
        signature=target.get("signature", ""),
        task_id=task.get("task_id", ""),
        task_handle=task.get("task_handle", ""),
        context_id=given.get("conversation", {}).get("context_id", ""),
    )


def _push(given: Mapping[str, Any]) -> TaskPushNotificationConfig:
    fields = dict(given)
    if (authentication := fields.get("authentication")) is not None:
        # 1.0 names one scheme; the first is the preferred one.
        scheme, credentials = authentication["schemes"][0], authentication.get("credentials", "")
        fields["authentication"] = AuthenticationInfo(scheme=scheme, credentials=credentials)
    return TaskPushNotificationConfig(**fields)


def _number(value: float) -> int:
    return min(int(value), _INT32_MAX)


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "parts": lambda parts: tuple([_part(part) for part in parts]),
    "continuation": _continuation,
    "push_notification_config": _push,
    "wait_timeout_ms": _number,
    "history_length": _number,
    "timeout_ms": _number,
}


def read_request(given: Mapping[str, Any]) -> ToolRequest:
    """Only for a request in which `validation.problems_of` finds no problem."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name in _READERS:
            fields[name] = _READERS[name](value)
        else:
            fields[name] = tuple(value) if isinstance(value, list) else value
    return ToolRequest(**fields)
