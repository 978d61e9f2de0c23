"""`ids_in`: the task and the context that a message of A2A is about, in either version."""

from typing import Any, Final

import msgspec

# A longer id is none of a task.
_MAX_CHARS: Final = 256
_decode = msgspec.json.Decoder().decode
# The members of a result of 1.0, and of a request.
_INSIDE: Final = ("result", "params", "task", "message", "statusUpdate", "artifactUpdate", "status")


def ids_in(body: bytes) -> tuple[str, str]:
    """The ids of task and context; empty where the body does not tell."""
    if not body:
        return "", ""
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", ""
    return _ids_of(value, depth=0)


def _ids_of(value: Any, *, depth: int, is_params: bool = False) -> tuple[str, str]:
    if not isinstance(value, dict) or depth > len(_INSIDE):
        return "", ""
    task_id, context_id = _text(value, "taskId"), _text(value, "contextId")
    # A task has its own id as `id`; so have the parameters of GetTask, CancelTask and the like.
    is_task = isinstance(value.get("status"), dict) and "jsonrpc" not in value
    if not task_id and (is_task or (is_params and "message" not in value)):
        task_id = _text(value, "id")
    for name in _INSIDE:
        if task_id and context_id:
            break
        inner = value.get(name)
        if inner is not None:
            found = _ids_of(inner, depth=depth + 1, is_params=name == "params")
            task_id, context_id = task_id or found[0], context_id or found[1]
    return task_id, context_id


def _text(value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) and len(found) <= _MAX_CHARS else ""


def ids_in_path(url: str) -> str:
    """The task in the path of HTTP+JSON: `/tasks/ID`, `/tasks/ID:cancel`."""
    _, found, rest = url.partition("?")[0].rpartition("/tasks/")
    return rest.partition("/")[0].partition(":")[0][:_MAX_CHARS] if found else ""
