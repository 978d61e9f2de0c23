"""The errors of both bindings: their codes, statuses and details."""

from typing import Any, Final

from trunkline.protocol import errors
from trunkline.protocol.checks.findings import Report, below, kind_of, shown

_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_RPC: Final = "JSON-RPC 2.0 §5.1"
_STANDARD: Final = (-32700, -32600, -32601, -32602, -32603)
# JSON-RPC 2.0, 5.1: reserved, and of these the ones that servers may define.
_RESERVED: Final = range(-32768, -31999)
_SERVER: Final = range(-32099, -31999)
_A2A: Final = {"1.0": range(-32009, -32000), "0.3": range(-32007, -32000)}
_CODES: Final = {reason: code for code, reason in errors.REASONS.items()}
# The statuses that 1.0.0 had; 1.0.1 changed them.
_STATUSES_1_0_0: Final = {
    "TASK_NOT_CANCELABLE": 409,
    "CONTENT_TYPE_NOT_SUPPORTED": 415,
    "INVALID_AGENT_RESPONSE": 502,
}
_GRPC: Final = {
    400: ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    401: ("UNAUTHENTICATED",),
    403: ("PERMISSION_DENIED",),
    404: ("NOT_FOUND", "UNIMPLEMENTED"),
    500: ("INTERNAL", "UNKNOWN", "DATA_LOSS"),
    503: ("UNAVAILABLE",),
}


def check_rpc_error(
    report: Report, error: Any, at: str, *, version: str, status: int | None
) -> None:
    if not isinstance(error, dict):
        report.error(_RPC, at, f"error must be an object, not {shown(error)}")
        return
    code = error.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        said = f"must be an integer, not {shown(code)}" if "code" in error else "is missing"
        report.error(_RPC, below(at, "code") if "code" in error else at, f"code {said}")
    else:
        _check_code(report, code, below(at, "code"), version)
    if not isinstance(error.get("message"), str):
        report.error(_RPC, at, "an error has a message, which is a text")
    for name in error:
        if name not in ("code", "message", "data") and report.may_look():
            report.note(_RPC, below(at, name), f"an error has no member {shown(name)}")
    if version == "1.0":
        reason = _details(report, error.get("data"), below(at, "data"), "A2A 1.0 §9", "data")
        if isinstance(code, int) and reason in _CODES and _CODES[reason] != code:
            text = f"the code of {reason} is {_CODES[reason]}"
            report.error("A2A 1.0 §5.4", below(at, "code"), text)


def _check_code(report: Report, code: int, at: str, version: str) -> None:
    if code in _STANDARD or code in _A2A[version]:
        return
    if version == "0.3" and code in _A2A["1.0"]:
        report.warning("A2A 0.3 §8.2", at, f"{code} is a code of 1.0; those of 0.3 end at -32007")
    elif code in _RESERVED and code not in _SERVER:
        report.error(_RPC, at, f"{code} is reserved by JSON-RPC and has no meaning")
    elif code not in _SERVER:
        report.note(_RPC, at, f"{shown(code)} is a code of the agent's own")


def check_rest_error(
    report: Report, body: Any, at: str, *, version: str, status: int | None
) -> None:
    if version != "1.0":
        # 0.3 does not fix the form of errors over REST.
        if body is not None and not isinstance(body, dict):
            report.warning(f"A2A {version} REST", at, f"an error is an object, not {kind_of(body)}")
        return
    rule = "A2A 1.0 §11.6"
    if not isinstance(body, dict) or not isinstance(body.get("error"), dict):
        hint = ""
        if isinstance(body, dict) and ("title" in body or "detail" in body):
            hint = "; problem+json is not the form of A2A"
        report.error(rule, at, f"an error has the member error, which is an object{hint}")
        return
    error, where = body["error"], below(at, "error")
    code = error.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        report.error(rule, where, "error has a code, which is the HTTP status")
    elif status is not None and code != status:
        text = f"code is {shown(code)}, and the HTTP status is {status}"
        report.error(rule, below(where, "code"), text)
    elif not 400 <= code < 600:
        report.error(rule, below(where, "code"), f"{shown(code)} is no HTTP status of an error")
    name = error.get("status")
    if not isinstance(name, str):
        report.error(rule, where, "error has a status, which is the name of a gRPC code")
    elif isinstance(code, int) and name not in _GRPC.get(code, (name,)):
        report.warning(rule, below(where, "status"), f"{shown(name)} does not go with {code}")
    if not isinstance(error.get("message"), str):
        report.error(rule, where, "error has a message, which is a text")
    reason = _details(report, error.get("details"), below(where, "details"), rule, "details")
    if isinstance(code, int):
        _check_status(report, code, reason, below(where, "code"))


def _check_status(report: Report, code: int, reason: str, at: str) -> None:
    expected = errors.HTTP_STATUSES.get(_CODES.get(reason, 0))
    if expected in (None, code):
        return
    if _STATUSES_1_0_0.get(reason) == code:
        text = f"{code} is the status that 1.0.0 had for {reason}; 1.0.1 has {expected}"
        report.note("A2A 1.0 §5.4", at, text)
    else:
        report.error("A2A 1.0 §5.4", at, f"the HTTP status of {reason} is {expected}")


def _details(report: Report, details: Any, at: str, rule: str, name: str) -> str:
    """The reason that the details give, if it is one of A2A."""
    if details is None:
        report.warning(rule, at, f"{name} should hold an ErrorInfo with the reason")
        return ""
    if not isinstance(details, list):
        report.error(rule, at, f"{name} must be a list of objects with @type")
        return ""
    reason, has_info = "", False
    for index, each in enumerate(details):
        if not report.may_look():
            break
        where = below(at, index)
        kind = each.get("@type") if isinstance(each, dict) else None
        if not isinstance(kind, str):
            report.error(rule, where, "a detail is an object with @type")
        elif kind == _ERROR_INFO:
            has_info = True
            reason = _info(report, each, where, rule) or reason
        elif kind == _BAD_REQUEST:
            _violations(report, each, where, rule)
    if not has_info:
        report.warning(rule, at, f"{name} should hold an ErrorInfo with the reason")
    return reason


def _info(report: Report, info: dict[str, Any], at: str, rule: str) -> str:
    reason, domain = info.get("reason"), info.get("domain")
    if not isinstance(reason, str) or not reason:
        report.error(rule, at, "an ErrorInfo has a reason")
        return ""
    if not isinstance(domain, str):
        report.error(rule, at, f"an ErrorInfo has a domain, which is {errors.A2A_DOMAIN} for A2A")
    metadata = info.get("metadata")
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(one, str) for one in metadata.values())
    ):
        report.error(rule, below(at, "metadata"), "metadata is an object of texts")
    if domain != errors.A2A_DOMAIN:
        return ""
    if reason not in _CODES:
        text = f"{shown(reason)} is no reason of A2A; another domain would say whose it is"
        report.warning("A2A 1.0 §5.4", below(at, "reason"), text)
    return reason


def _violations(report: Report, detail: dict[str, Any], at: str, rule: str) -> None:
    violations = detail.get("fieldViolations")
    if not isinstance(violations, list):
        report.error(rule, at, "a BadRequest has fieldViolations, which is a list")
        return
    for index, each in enumerate(violations):
        if not report.may_look():
            return
        if not isinstance(each, dict) or not isinstance(each.get("field"), str):
            where = below(below(at, "fieldViolations"), index)
            report.error(rule, where, "a violation has a field and a description")
