"""The `summary` and the `raw` of an envelope. Callers see one shape: that of A2A 0.3."""

from typing import Any, Final

import msgspec

from trunkline.model.card import AgentCard
from trunkline.model.values import (
    TERMINAL,
    Artifact,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol.v03_writing import Writer03
from trunkline.remote.peer import StreamItem, Target
from trunkline.remote.progress import Progress

_WRITER: Final = Writer03(is_rest=False)

Json = dict[str, Any]


def raw_of(item: StreamItem) -> Json:
    match item:
        case Task():
            return _json(_WRITER.task(item))
        case Message():
            return _json(_WRITER.message(item))
        case TaskStatusUpdateEvent():
            return _json(_WRITER.status_update(item))
        case TaskArtifactUpdateEvent():
            return _json(_WRITER.artifact_update(item))


def raw_stream(events: list[StreamItem]) -> Json:
    shown = [raw_of(event) for event in events]
    return {"events": shown, "finalEvent": shown[-1]}


def state_name(state: TaskState) -> str:
    return _WRITER.status(TaskStatus(state=state)).state


def target_json(target: Target, signature: str = "") -> Json:
    """The routing part of a continuation."""
    return {
        "target_url": target.url,
        "card_path": target.card_path,
        "preferred_transports": list(target.transports),
        **({"target_alias": target.alias} if target.alias else {}),
        **({"signature": signature} if signature else {}),
    }


def continuation_of(
    target: Target,
    *,
    task_id: str,
    context_id: str,
    task_handle: str = "",
    state: TaskState | None = None,
    streaming: bool | None = None,
    signature: str = "",
) -> Json | None:
    """How to go on from here; None when there is nothing to go on with."""
    if not task_id and not context_id:
        return None
    continuation: Json = {"target": target_json(target, signature)}
    if task_id:
        is_open = state not in TERMINAL
        continuation["task"] = {
            "task_id": task_id,
            **({"task_handle": task_handle} if task_handle else {}),
            **({} if state is None else {"status": state_name(state)}),
            "can_resume_send": is_open,
            "can_send": is_open,
            "can_status": True,
            "can_cancel": is_open,
            "can_watch": is_open and streaming is not False,
        }
    if context_id:
        continuation["conversation"] = {"context_id": context_id, "can_send": True}
    return continuation


def summary_of(
    target: Target,
    card: AgentCard | None,
    progress: Progress,
    *,
    task_id: str,
    context_id: str,
    task_handle: str,
    signature: str = "",
    reason: str = "",
) -> Json:
    """`task_id` and `context_id` are what the request knew; what the peer says comes first."""
    streaming = None if card is None else card.capabilities.streaming
    continuation = continuation_of(
        target,
        task_id=progress.task_id or task_id,
        context_id=progress.context_id or context_id,
        task_handle=task_handle,
        state=progress.state,
        streaming=streaming,
        signature=signature,
    )
    fields: Json = {
        "target_alias": target.alias or None,
        "target_name": (card.name or None) if card else None,
        "target_url": target.url,
        "target_reason": reason or None,
        "streaming_supported": streaming,
        "response_kind": progress.kind or None,
        "message_text": progress.answer() or None,
        "artifacts": [_artifact(each) for each in progress.artifacts()] or None,
        "continuation": continuation,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _artifact(artifact: Artifact) -> Json:
    shown = _json(_WRITER.artifact(artifact))
    shown["artifact_id"] = shown.pop("artifactId")
    return shown


def _json(value: msgspec.Struct) -> Json:
    # Through JSON, so that a caller finds lists and base64 where JSON has them.
    made: Json = msgspec.json.decode(msgspec.json.encode(value))
    return made
