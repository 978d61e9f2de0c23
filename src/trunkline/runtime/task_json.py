"""`task_json`: a committed task as JSON bytes for a caller, and page tokens of lists."""

import base64
import binascii
import zlib

import msgspec

from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import InvalidParams, StoreUnusable
from trunkline.model.values import Task
from trunkline.ports.store import Snapshot

_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode


def task_json(
    snapshot: Snapshot, history_length: int | None = None, position: int | None = None
) -> bytes:
    """The whole task. Its stored pieces are joined as they are, unless the history is cut or the
    place in the queue is added."""
    task = snapshot.task
    if history_length is not None or position is not None:
        task = _shown(task, history_length, position)
    if not snapshot.artifacts:
        return task
    return b"".join((task[:-1], b',"artifacts":', snapshot.artifacts, b"}"))


def listed_json(
    snapshot: Snapshot,
    *,
    history_length: int | None,
    include_artifacts: bool,
    position: int | None = None,
) -> bytes:
    """A task in a list. It has `artifacts`, maybe empty, exactly when the request asks for them."""
    task = _shown(snapshot.task, history_length, position)
    if not include_artifacts:
        return task
    return b"".join((task[:-1], b',"artifacts":', snapshot.artifacts or b"[]", b"}"))


def _shown(task: bytes, history_length: int | None, position: int | None) -> bytes:
    if history_length is None and position is None:
        return task
    try:
        value = _decode_task(task)
    except msgspec.DecodeError as error:
        raise StoreUnusable(f"A stored task cannot be read: {error}") from error
    history, metadata = value.history, value.metadata
    if history_length is not None and history_length < len(history):
        # The most recent messages. A slice from -0 would keep all of them.
        history = history[len(history) - history_length :]
    elif position is None:
        return task
    if position is not None:
        metadata = {**(metadata or {}), "queue": {"position": position}}
    return _encode(msgspec.structs.replace(value, history=history, metadata=metadata))


def _filters(request: ListTasksRequest) -> int:
    parts = (request.context_id, request.status, request.status_timestamp_after)
    return zlib.crc32("\0".join(parts).encode())


def page_token(position: tuple[int, int] | None, request: ListTasksRequest) -> str:
    if position is None:
        return ""
    text = f"{position[0]}.{position[1]}.{_filters(request)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def page_position(request: ListTasksRequest) -> tuple[int, int] | None:
    """The position at which the page starts. A token is valid for the filters it was made for."""
    token = request.page_token
    if not token:
        return None
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
        status_ms, key, filters = (int(number) for number in text.split("."))
        if max(abs(status_ms), abs(key)) >= 2**63:
            raise ValueError(token)
    except (ValueError, binascii.Error):
        raise InvalidParams.at(
            "pageToken", "is not a token that this agent gave out; start without one"
        ) from None
    if filters != _filters(request):
        raise InvalidParams.at(
            "pageToken", "was given out for other filters; start without one or keep the filters"
        )
    return status_ms, key
