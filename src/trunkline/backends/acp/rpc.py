"""Messages of the Agent Client Protocol: JSON-RPC lines and content blocks. No I/O."""

import base64
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.backends.json_values import json_object, table, text
from trunkline.backends.programs import failures
from trunkline.backends.programs.prompt import CannotTell, File, Prompt, blocks_of

METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000

_encode = msgspec.json.Encoder().encode


class Request(Struct, frozen=True):
    """A request of the agent, which waits for the answer."""

    id: str | int
    method: str
    params: dict[str, Any]


class Notification(Struct, frozen=True):
    method: str
    params: dict[str, Any]


class Response(Struct, frozen=True, kw_only=True):
    id: str | int
    result: Any = None
    # None for a success.
    error_code: int | None = None
    error_message: str = ""


Incoming: TypeAlias = Request | Notification | Response


def read(line: bytes) -> Incoming | None:
    """None for a line that is not a message: some programs print other lines as well."""
    frame = json_object(line)
    if frame is None:
        return None
    call_id, method = _id(frame.get("id")), text(frame.get("method"))
    if method:
        params = table(frame.get("params"))
        if call_id is None:
            return Notification(method, params)
        return Request(call_id, method, params)
    if call_id is None:
        return None
    if "error" in frame:
        error = table(frame["error"])
        code = error.get("code")
        return Response(
            id=call_id,
            error_code=code if isinstance(code, int) else 0,
            error_message=_told(error),
        )
    return Response(id=call_id, result=frame.get("result"))


def _id(value: Any) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _told(error: dict[str, Any]) -> str:
    details = error.get("data")
    more = f" {_encode(details).decode()}" if details is not None else ""
    return f"{text(error.get('message'))}{more}"


def line(**frame: Any) -> bytes:
    return _encode({"jsonrpc": "2.0", **frame}) + b"\n"


def blocks(prompt: Prompt, capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    """`capabilities` are those that the agent announced. Raises CannotTell."""
    able = table(capabilities.get("promptCapabilities"))
    return blocks_of(prompt, lambda file: _file(file, able))


def _file(file: File, able: dict[str, Any]) -> dict[str, Any]:
    data = base64.b64encode(file.data).decode()
    for kind in ("image", "audio"):
        if file.media_type.startswith(f"{kind}/") and able.get(kind) is True:
            return {"type": kind, "mimeType": file.media_type, "data": data}
    if able.get("embeddedContext") is True:
        uri = f"attachment:///{file.name.replace(' ', '%20')}"
        resource = {"uri": uri, "mimeType": file.media_type, "blob": data}
        return {"type": "resource", "resource": resource}
    raise CannotTell(failures.takes_no_file(file.media_type))
