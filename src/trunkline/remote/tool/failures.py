"""`ToolFailure`: the error of an envelope, and the reasons for one."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from trunkline.remote.errors import PeerRefused, PeerTimeout, RemoteError

TIMEOUT_HINT = "Increase request.timeoutMs or plugin defaults.timeoutMs."


class Code(StrEnum):
    VALIDATION = "VALIDATION_ERROR"
    REMOTE = "A2A_SDK_ERROR"
    TARGET_RESOLUTION = "TARGET_RESOLUTION_ERROR"
    UNKNOWN_TASK_HANDLE = "UNKNOWN_TASK_HANDLE"
    EXPIRED_TASK_HANDLE = "EXPIRED_TASK_HANDLE"
    TASK_REQUIRED = "TASK_REQUIRED_BUT_MESSAGE_RETURNED"
    WAIT_TIMEOUT = "WAIT_TIMEOUT"
    INTERNAL = "INTERNAL_ERROR"


class ToolFailure(Exception):
    """Ends a request; becomes the `error` of its envelope."""

    def __init__(self, code: Code, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def with_details(self, more: Mapping[str, Any]) -> "ToolFailure":
        """The same failure with `more` details; its own details win."""
        return ToolFailure(self.code, self.message, {**more, **self.details})


def from_remote_error(error: RemoteError) -> ToolFailure:
    details: dict[str, Any] = {"errorName": type(error).__name__, "reason": error.reason}
    # The client or the tool may notice a limit first; callers read the same words.
    if isinstance(error, PeerTimeout) and not error.is_unsent:
        return timed_out()
    if error.retry_after_s is not None:
        details["retry_after_ms"] = math.ceil(error.retry_after_s * 1000)
    if isinstance(error, PeerRefused):
        if error.code:
            details["rpcCode"] = error.code
        if error.data is not None:
            details["rpcData"] = _outline(error.data)
    return ToolFailure(Code.REMOTE, error.message, details)


def _remote(message: str, name: str, reason: str, **more: Any) -> ToolFailure:
    return ToolFailure(Code.REMOTE, message, {"errorName": name, "reason": reason, **more})


def timed_out() -> ToolFailure:
    return _remote("request timed out", "TimeoutError", "TIMEOUT", hint=TIMEOUT_HINT)


def stream_too_long() -> ToolFailure:
    hint = "Follow it in turns with action=watch, or increase plugin defaults.maxStreamMs."
    message = "the stream reached its overall time limit"
    return _remote(message, "TimeoutError", "STREAM_LIMIT", hint=hint)


def too_many_events(limit: int) -> ToolFailure:
    hint = "Ask for the outcome with action=status, or increase plugin defaults.maxStreamEvents."
    message = f"the stream brought more than {limit} events"
    return _remote(message, "StreamLimitError", "STREAM_LIMIT", hint=hint)


def too_many_bytes(limit: int) -> ToolFailure:
    hint = "Ask for the outcome with action=status."
    message = f"the stream brought more than {limit} bytes"
    return _remote(message, "StreamLimitError", "STREAM_LIMIT", hint=hint)


def aborted() -> ToolFailure:
    return _remote("request aborted by the caller", "AbortError", "ABORTED", aborted=True)


def no_events(message: str) -> ToolFailure:
    return _remote(message, "StreamEnded", "STREAM_ENDED")


def internal(error: Exception) -> ToolFailure:
    # The text of an unforeseen error may hold anything, so only its name goes out.
    details = {"errorName": type(error).__name__}
    return ToolFailure(Code.INTERNAL, "remote_agent failed unexpectedly; see the log", details)


def _outline(data: Any) -> dict[str, Any]:
    """The shape of the error data of a peer, not its content."""
    if isinstance(data, Mapping):
        return {"type": "object", "keys": sorted(map(str, data))[:20]}
    if isinstance(data, list | tuple):
        return {"type": "array"}
    names: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}
    return {"type": names.get(type(data), "object")}
