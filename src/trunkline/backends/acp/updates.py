"""`session/update` notifications of an agent as outputs. No I/O."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from trunkline.backends.json_values import numbers, table, tables, text
from trunkline.model.outputs import (
    ArtifactEmitted,
    Failed,
    Final,
    Note,
    Output,
    Refused,
    StageStarted,
    Text,
    ToolCalled,
)
from trunkline.model.values import Artifact, Part

USAGE = {
    "inputTokens": "inputTokens",
    "outputTokens": "outputTokens",
    "totalTokens": "totalTokens",
    "cachedReadTokens": "cacheReadTokens",
    "cachedWriteTokens": "cacheWriteTokens",
}
PLAN_MARKS = {"completed": "x", "in_progress": ">"}
REFUSED = "The agent refused to do this."
STOPPED = "The agent stopped before it had finished."
DENIED = "The agent stopped, for it was not given the permission it asked for."


class Updates:
    """One turn: feed it each `session/update`, then the answer to `session/prompt`."""

    def __init__(self) -> None:
        # The agent asked for permission, and the caller or the operator refused.
        self.is_denied = False
        self._has_text = False
        self._message_id = ""
        self._is_cut = False
        self._tools: dict[str, str] = {}
        self._done: set[str] = set()
        self._artifacts = 0

    def feed(self, update: dict[str, Any]) -> Iterator[Output]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                yield from self._said(update)
            case "tool_call" | "tool_call_update":
                yield from self._tool(update)
            case "plan":
                if plan := _plan(update):
                    yield Note((Part(text=plan),))
            case _:
                # Thoughts, commands and modes are for the screen of an editor.
                pass

    def end(self, result: Any) -> Output:
        found = table(result)
        reason = text(found.get("stopReason"))
        if reason == "refusal":
            return Refused(REFUSED)
        if reason == "cancelled":
            return Failed(DENIED if self.is_denied else STOPPED)
        metadata: dict[str, Any] = {}
        if usage := numbers(found.get("usage"), USAGE):
            metadata["usage"] = usage
        if reason and reason != "end_turn":
            # max_tokens, max_turn_requests: the answer may be incomplete.
            metadata["stopReason"] = reason
        return Final(metadata=metadata or None)

    def _said(self, update: dict[str, Any]) -> Iterator[Output]:
        content = table(update.get("content"))
        message_id = text(update.get("messageId"))
        piece = text(content.get("text"))
        if content.get("type") == "text" and piece:
            # Some agents give their messages ids; else a tool call separates two messages.
            is_new = message_id != self._message_id if message_id else self._is_cut
            if self._has_text and is_new:
                yield StageStarted()
            self._has_text, self._is_cut, self._message_id = True, False, message_id
            yield Text(piece)
        elif content.get("type") in ("image", "audio"):
            yield from self._media(content)

    def _media(self, content: dict[str, Any]) -> Iterator[Output]:
        try:
            data = base64.b64decode(text(content.get("data")), validate=True)
        except (binascii.Error, ValueError):
            return
        self._artifacts += 1
        part = Part(raw=data, media_type=text(content.get("mimeType")))
        yield ArtifactEmitted(
            artifact=Artifact(artifact_id=f"{content['type']}-{self._artifacts}", parts=(part,))
        )

    def _tool(self, update: dict[str, Any]) -> Iterator[Output]:
        call_id = text(update.get("toolCallId"))
        if not call_id or call_id in self._done:
            return
        self._is_cut = True
        if call_id not in self._tools:
            # The title may change during the call, but the name in our outputs may not.
            names = (update.get(key) for key in ("name", "title", "kind"))
            name = self._tools[call_id] = next((n for n in map(text, names) if n), "tool")
            yield ToolCalled(call_id=call_id, name=name, phase="start", data=_used(update))
        elif update.get("status") not in ("completed", "failed") and (data := _used(update)):
            yield ToolCalled(call_id=call_id, name=self._tools[call_id], phase="update", data=data)
        if update.get("status") in ("completed", "failed"):
            self._done.add(call_id)
            yield ToolCalled(
                call_id=call_id,
                name=self._tools[call_id],
                phase="result",
                data=_gave(update),
                is_error=update.get("status") == "failed",
            )


def _used(update: dict[str, Any]) -> dict[str, Any] | None:
    keys = ("title", "kind", "rawInput")
    return {key: update[key] for key in keys if update.get(key)} or None


def _gave(update: dict[str, Any]) -> Any:
    if "rawOutput" in update:
        return update["rawOutput"]
    texts = [text(table(item.get("content")).get("text")) for item in tables(update.get("content"))]
    return "\n".join(filter(None, texts)) or None


def _plan(update: dict[str, Any]) -> str:
    steps = tables(update.get("entries"))
    return "\n".join(
        f"[{PLAN_MARKS.get(text(step.get('status')), ' ')}] {text(step.get('content'))}"
        for step in steps
    )
