"""Calls of tools, as agents report them."""

from typing import Any

from msgspec import UNSET, Struct

from trunkline.model.values import Artifact, Part


class ToolUse(Struct, frozen=True, kw_only=True):
    """`phase` is start, update or result."""

    name: str
    phase: str
    data: Any = None
    is_error: bool = False


def tool_of(artifact: Artifact) -> ToolUse | None:
    """The tool that the artifact is about: gateways of ours and OpenClaw's say so in metadata."""
    about = artifact.metadata or {}
    if about.get("source") != "tool":
        return None
    given = next((part.data for part in artifact.parts if part.data is not UNSET), None)
    held = given if isinstance(given, dict) else {}
    data = next(
        (held[key] for key in ("data", "args", "partialResult", "result") if key in held), None
    )
    return ToolUse(
        name=str(about.get("toolName") or artifact.name or "tool"),
        phase=str(about.get("phase") or "result"),
        data=data,
        is_error=held.get("isError") is True,
    )


def tool_in(part: Part) -> ToolUse | None:
    """The tool that a part is about, where Google's ADK made it."""
    kind = (part.metadata or {}).get("adk_type")
    if kind not in ("function_call", "function_response") or not isinstance(part.data, dict):
        return None
    is_call = kind == "function_call"
    return ToolUse(
        name=str(part.data.get("name") or "tool"),
        phase="start" if is_call else "result",
        data=part.data.get("args" if is_call else "response"),
    )
