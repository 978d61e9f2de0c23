"""A request that was found valid, as a value."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from trunkline.model.calls import (
    AuthenticationInfo,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.values import Message, Part, Role

# What the wire can carry of a number, and more milliseconds than anybody waits.
_INT32_MAX: Final = 2**31 - 1


class Continuation(Struct, frozen=True, kw_only=True):
    """A continuation that a caller hands back; "" is what it does not say."""

    target_url: str
    card_path: str
    transports: tuple[str, ...]
    target_alias: str = ""
    signature: str = ""
    task_id: str = ""
    task_handle: str = ""
    context_id: str = ""


class ToolRequest(Struct, frozen=True, kw_only=True):
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
    needs_task: bool = False
    follow_updates: bool = False
    wait_timeout_ms: int | None = None
    cancel_on_abort: bool = False
    accepted_output_modes: tuple[str, ...] | None = None
    blocking: bool = True
    history_length: int | None = None
    timeout_ms: int | None = None
    service_parameters: Mapping[str, str] = {}
    metadata: dict[str, Any] | None = None
    push: TaskPushNotificationConfig | None = None


def read_request(given: Mapping[str, Any]) -> ToolRequest:
    """Only for what `rules.problems_of` has no objection to."""
    continuation, push = given.get("continuation"), given.get("push_notification_config")
    modes = given.get("accepted_output_modes")
    return ToolRequest(
        action=given["action"],
        target_alias=given.get("target_alias", ""),
        target_url=given.get("target_url", ""),
        target_tags=tuple(given.get("target_tags", ())),
        skill=given.get("skill", ""),
        parts=tuple([_part(part) for part in given.get("parts", ())]),
        task_handle=given.get("task_handle", ""),
        continuation=None if continuation is None else _continuation(continuation),
        message_id=given.get("message_id", ""),
        task_id=given.get("task_id", ""),
        context_id=given.get("context_id", ""),
        reference_task_ids=tuple(given.get("reference_task_ids", ())),
        needs_task=given.get("task_requirement") == "required",
        follow_updates=given.get("follow_updates", False),
        wait_timeout_ms=_number(given, "wait_timeout_ms"),
        cancel_on_abort=given.get("cancel_on_abort", False),
        accepted_output_modes=None if modes is None else tuple(modes),
        blocking=given.get("blocking", True),
        history_length=_number(given, "history_length"),
        timeout_ms=_number(given, "timeout_ms"),
        service_parameters=dict(given.get("service_parameters", {})),
        metadata=given.get("metadata"),
        push=None if push is None else _push(push),
    )


def message_request(
    request: ToolRequest,
    *,
    message_id: str,
    task_id: str,
    context_id: str,
    default_output_modes: tuple[str, ...],
) -> SendMessageRequest:
    """What goes to the peer. No output modes means that any will do, and is left unsaid."""
    modes = request.accepted_output_modes
    return SendMessageRequest(
        message=Message(
            message_id=request.message_id or message_id,
            role=Role.USER,
            parts=request.parts,
            task_id=task_id,
            context_id=context_id,
            reference_task_ids=request.reference_task_ids,
        ),
        configuration=SendMessageConfiguration(
            accepted_output_modes=default_output_modes if modes is None else modes,
            history_length=request.history_length,
            task_push_notification_config=request.push,
            # Whoever wants the task, or waits for it here, wants to know of it at once.
            return_immediately=request.needs_task
            or request.wait_timeout_ms is not None
            or not request.blocking,
        ),
        metadata=request.metadata,
    )


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    return None if value is None else min(int(value), _INT32_MAX)


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
    authentication = given.get("authentication")
    return TaskPushNotificationConfig(
        id=given.get("id", ""),
        url=given["url"],
        token=given.get("token", ""),
        authentication=None
        if authentication is None
        # 1.0 names one scheme; the first is the preferred one.
        else AuthenticationInfo(
            scheme=authentication["schemes"][0],
            credentials=authentication.get("credentials", ""),
        ),
    )
