"""The three shapes in which the tool answers."""

from typing import Any

from trunkline.remote.tool.ajv import Error
from trunkline.remote.tool.failure import Code, ToolFailure
from trunkline.remote.tool.schema import NAME

Envelope = dict[str, Any]


def success(action: str, summary: Envelope, raw: Any) -> Envelope:
    return {"ok": True, "operation": NAME, "action": action, "summary": summary, "raw": raw}


def update(action: str, summary: Envelope, raw: Any) -> Envelope:
    return {
        "ok": True,
        "operation": NAME,
        "action": action,
        "phase": "update",
        "summary": summary,
        "raw": raw,
    }


def failure(action: str, why: ToolFailure) -> Envelope:
    error: Envelope = {"code": str(why.code), "message": why.message}
    if why.details:
        error["details"] = why.details
    return {"ok": False, "operation": NAME, "action": action, "error": error}


def invalid(errors: list[Error]) -> ToolFailure:
    details = {"source": "ajv", "tool": NAME, "errors": errors}
    return ToolFailure(Code.VALIDATION, f"{NAME} input validation failed", details)
