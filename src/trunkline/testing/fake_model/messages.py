"""Answers of Anthropic's messages."""

from typing import Any

import msgspec

from trunkline.testing.fake_model.script import CallTool
from trunkline.testing.fake_model.writing import Writer, arguments, data

_REASONS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "ZmFrZQ=="


class MessagesWriter(Writer):
    def __init__(self, number: int, body: dict[str, Any]) -> None:
        super().__init__(number, body)
        self._index = -1
        self._open = ""

    def begin(self) -> bytes:
        usage = {"input_tokens": self._prompt_tokens, "output_tokens": 1}
        started = self._message([], None) | {"usage": usage}
        return _event("message_start", message=started) + _event("ping")

    def say(self, piece: str) -> bytes:
        opening = self._opened("text", {"type": "text", "text": ""})
        return opening + self._delta({"type": "text_delta", "text": piece})

    def think(self, piece: str) -> bytes:
        opening = self._opened("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opening + self._delta({"type": "thinking_delta", "thinking": piece})

    def call(self, call: CallTool) -> bytes:
        at = len(self.calls) - 1
        opening = self._closed() + self._opened("tool_use", self._call(call, at) | {"input": {}})
        text = arguments(call)
        pieces = (text[: len(text) // 2], text[len(text) // 2 :])
        deltas = [self._delta({"type": "input_json_delta", "partial_json": p}) for p in pieces]
        return opening + b"".join(deltas) + self._closed()

    def end(self, reason: str) -> bytes:
        delta = {"stop_reason": _REASONS[reason], "stop_sequence": None}
        usage = {"output_tokens": self._completion_tokens}
        told = _event("message_delta", delta=delta, usage=usage)
        return self._closed() + told + _event("message_stop")

    def error(self, text: str) -> bytes:
        return _event("error", error={"type": "api_error", "message": text})

    def entire(self, reason: str) -> bytes:
        content: list[dict[str, Any]] = []
        if self.thought:
            thought = {"thinking": self.thought, "signature": _SIGNATURE}
            content.append({"type": "thinking"} | thought)
        if self.text:
            content.append({"type": "text", "text": self.text})
        content += [self._call(call, at) for at, call in enumerate(self.calls)]
        return msgspec.json.encode(self._message(content, _REASONS[reason]))

    def _opened(self, kind: str, block: dict[str, Any]) -> bytes:
        if self._open == kind:
            return b""
        closing = self._closed()
        self._index += 1
        self._open = kind
        return closing + _event("content_block_start", index=self._index, content_block=block)

    def _closed(self) -> bytes:
        kind, self._open = self._open, ""
        if not kind:
            return b""
        signed = b""
        if kind == "thinking":
            signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        return signed + _event("content_block_stop", index=self._index)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _call(self, call: CallTool, at: int) -> dict[str, Any]:
        call_id = f"toolu_{self._number}_{at}"
        return {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments}

    def _message(self, content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self._number}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": self._prompt_tokens,
                "output_tokens": self._completion_tokens,
            },
        }


def _event(kind: str, **fields: Any) -> bytes:
    return data({"type": kind} | fields, event=kind)


def error_body(status: int, text: str) -> dict[str, Any]:
    """How Anthropic reports an error."""
    kind = _ERRORS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": text}}
