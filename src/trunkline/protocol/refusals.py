"""What a peer refuses with: in the envelope of JSON-RPC, or in the body of an HTTP status."""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from trunkline.model.errors import InvalidAgentResponse
from trunkline.protocol.errors import REASONS


class Refusal(Struct, frozen=True, kw_only=True):
    """What a peer said no with. `code` is that of JSON-RPC, or 0 where there is none."""

    code: int = 0
    reason: str = ""
    message: str = ""
    data: Any = None


class _RpcError(Struct):
    code: int = 0
    message: str = ""
    data: Any = None


class _Envelope(Struct):
    id: Raw = Raw(b"null")
    result: Raw = Raw(b"")
    error: _RpcError | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode


def opened(body: bytes, id: bytes) -> bytes | Refusal:
    """What is in the envelope of JSON-RPC. An answer to another request is none.

    Raises InvalidAgentResponse where there is no such envelope.
    """
    try:
        envelope = _envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidAgentResponse("the answer is not JSON-RPC") from None
    given, error = bytes(envelope.id), envelope.error
    # An error may come from before the id was read.
    if given != id and not (error is not None and given == b"null"):
        raise InvalidAgentResponse("the answer is to another request: its id differs")
    if error is not None:
        return refusal(error.code, error.message, error.data)
    # Some leave out a result that is null, which is all there is to say of a deletion.
    return bytes(envelope.result) or b"null"


_CODES: Final = {reason: code for code, reason in REASONS.items()}
# How servers of 0.3 name an error over REST.
_NAMES_03: Final = {
    reason.replace("_", "").lower() + "error": reason for reason in REASONS.values()
}


def refusal(code: int, message: str, data: Any) -> Refusal:
    reason = _reason_in(data) or REASONS.get(code, "")
    return Refusal(code=code, reason=reason, message=message, data=data)


def http_refusal(status: int, body: bytes) -> Refusal:
    """The refusal in the body of a status of 4xx or 5xx, as far as there is one."""
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        return Refusal()
    inner = tree["error"] if isinstance(tree.get("error"), dict) else tree
    message = next((v for k in ("message", "detail") if isinstance(v := inner.get(k), str)), "")
    data = inner.get("details", inner.get("data"))
    reason = _reason_in(data) or _NAMES_03.get(str(tree.get("type")).lower(), "")
    # 0.3 over REST, and JSON-RPC that refuses with a status, say the code itself.
    code = next((c for o in (tree, inner) if (c := _code_in(o))), _CODES.get(reason, 0))
    return Refusal(code=code, reason=reason or REASONS.get(code, ""), message=message, data=data)


def _code_in(tree: dict[str, Any]) -> int:
    code = tree.get("code")
    return code if isinstance(code, int) and code in REASONS else 0


def _reason_in(details: Any) -> str:
    """The reason of a google.rpc.ErrorInfo among the details."""
    for one in details if isinstance(details, list) else ():
        if isinstance(one, dict) and isinstance(reason := one.get("reason"), str):
            return reason
    return ""
