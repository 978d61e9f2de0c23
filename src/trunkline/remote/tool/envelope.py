"""The envelope: success, update or failure, with `summary` and `raw`."""

from collections.abc import Iterable
from mimetypes import MimeTypes
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from trunkline.model import values
from trunkline.model.card import AgentCard
from trunkline.protocol.client_responses import StreamItem
from trunkline.protocol.v03_writing import Writer03
from trunkline.remote.target import Target
from trunkline.remote.tool.ajv import Error
from trunkline.remote.tool.failures import Code, ToolFailure
from trunkline.remote.tool.schema import NAME

_WRITER: Final = Writer03(is_rest=False)

Json = dict[str, Any]
UNKNOWN: Final = "unknown"
# The tables of the machine are left out, so that a file has the same type on every machine.
_TYPES: Final = MimeTypes(filenames=())

Envelope = dict[str, Any]


def success(action: str, summary: Any, raw: Any, *, is_update: bool = False) -> Envelope:
    phase = {"phase": "update"} if is_update else {}
    ok: Envelope = {"ok": True, "operation": NAME, "action": action}
    return {**ok, **phase, "summary": summary, "raw": raw}


def failure(action: str, why: ToolFailure) -> Envelope:
    error: Envelope = {"code": str(why.code), "message": why.message}
    if why.details:
        error["details"] = why.details
    return {"ok": False, "operation": NAME, "action": action, "error": error}


def invalid(errors: list[Error]) -> ToolFailure:
    details = {"source": "ajv", "tool": NAME, "errors": errors}
    return ToolFailure(Code.VALIDATION, f"{NAME} input validation failed", details)


def raw_of(item: StreamItem) -> Json:
    match item:
        case values.Task():
            return _json(_WRITER.task(item))
        case values.Message():
            return _json(_WRITER.message(item))
        case values.TaskStatusUpdateEvent():
            return _json(_WRITER.status_update(item))
        case values.TaskArtifactUpdateEvent():
            return _json(_WRITER.artifact_update(item))


def raw_stream(events: list[StreamItem]) -> Json:
    shown = [raw_of(event) for event in events]
    return {"events": shown, "finalEvent": shown[-1]}


def state_name(state: values.TaskState) -> str:
    return _WRITER.status(values.TaskStatus(state=state)).state


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
    state: values.TaskState | None = None,
    streaming: bool | None = None,
    signature: str = "",
) -> Json | None:
    """The continuation that a follow-up hands back; None without any id."""
    if not task_id and not context_id:
        return None
    continuation: Json = {"target": target_json(target, signature)}
    if task_id:
        is_open = state not in values.TERMINAL
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


def artifact_json(artifact: values.Artifact) -> Json:
    shown = _json(_WRITER.artifact(artifact))
    shown["artifact_id"] = shown.pop("artifactId")
    return shown


def _json(value: msgspec.Struct) -> Json:
    # Through JSON, so that a caller finds lists and base64 where JSON has them.
    made: Json = msgspec.json.decode(msgspec.json.encode(value))
    return made


def capability_diagnostics(
    parts: tuple[values.Part, ...], output_modes: tuple[str, ...], card: AgentCard | None
) -> dict[str, Any]:
    inputs = [mode_of(part) for part in parts]
    offered_in, offered_out = _offered(card)
    wanted_in, wanted_out = _unique(inputs), _unique(output_modes)
    return {
        "requested_input_modes": wanted_in,
        "unknown_file_attachments": [at for at, mode in enumerate(inputs) if mode == UNKNOWN],
        "advertised_input_modes": offered_in,
        # An unknown type may be supported.
        "unsupported_input_modes": [
            mode for mode in wanted_in if mode != UNKNOWN and mode not in offered_in
        ],
        "requested_output_modes": wanted_out,
        "advertised_output_modes": offered_out,
        "unsupported_output_modes": [mode for mode in wanted_out if mode not in offered_out],
    }


def mode_of(part: values.Part) -> str:
    if part.text is not None:
        return "text/plain"
    if part.data is not UNSET:
        return "application/json"
    if part.media_type:
        return part.media_type.lower()
    by_uri = urlsplit(part.url).path if part.url else ""
    for name in (part.filename, by_uri):
        guessed, _ = _TYPES.guess_type(name, strict=False)
        if guessed:
            return guessed.lower()
    return UNKNOWN


def _offered(card: AgentCard | None) -> tuple[list[str], list[str]]:
    if card is None:
        return [], []
    inputs, outputs = list(card.default_input_modes), list(card.default_output_modes)
    for skill in card.skills:
        inputs += skill.input_modes
        outputs += skill.output_modes
    return _unique(inputs), _unique(outputs)


def _unique(modes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([mode.lower() for mode in modes]))
