"""Answers of OpenAI's chat.completions."""

from typing import Any

import msgspec

from trunkline.testing.fake_model.script import CallTool
from trunkline.testing.fake_model.writing import Writer, arguments, data

_REASONS = {"stop": "stop", "tools": "tool_calls", "length": "length", "filter": "content_filter"}


class ChatWriter(Writer):
    def begin(self) -> bytes:
        return self._delta({"role": "assistant", "content": ""})

    def say(self, piece: str) -> bytes:
        return self._delta({"content": piece})

    def think(self, piece: str) -> bytes:
        return self._delta({"reasoning_content": piece})

    def call(self, call: CallTool) -> bytes:
        """The call in two pieces, as models stream it: its name, then its arguments."""
        index = len(self.calls) - 1
        head = self._call(index, call) | {"function": {"name": call.name, "arguments": ""}}
        text = arguments(call)
        rest = [
            {"index": index, "function": {"arguments": piece}}
            for piece in (text[: len(text) // 2], text[len(text) // 2 :])
        ]
        return b"".join(self._delta({"tool_calls": [piece]}) for piece in (head, *rest))

    def end(self, reason: str) -> bytes:
        ending = self._chunk([{"index": 0, "delta": {}, "finish_reason": _REASONS[reason]}])
        options = self._body.get("stream_options") or {}
        if options.get("include_usage") is True:
            ending += self._chunk([], usage=self._usage())
        return ending + b"data: [DONE]\n\n"

    def error(self, text: str) -> bytes:
        return data(error_body(500, text)) + b"data: [DONE]\n\n"

    def entire(self, reason: str) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.calls:
            calls = enumerate(self.calls)
            message["tool_calls"] = [self._call(index, call) for index, call in calls]
        choice = {"index": 0, "message": message, "finish_reason": _REASONS[reason]}
        return msgspec.json.encode(
            self._head("chat.completion") | {"choices": [choice], "usage": self._usage()}
        )

    def _call(self, index: int, call: CallTool) -> dict[str, Any]:
        return {
            "index": index,
            "id": f"call_{self._number}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": arguments(call)},
        }

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def _chunk(self, choices: list[Any], **more: Any) -> bytes:
        return data(self._head("chat.completion.chunk") | {"choices": choices} | more)

    def _head(self, kind: str) -> dict[str, Any]:
        answer_id = f"chatcmpl-{self._number}"
        return {"id": answer_id, "object": kind, "created": 0, "model": self._model}

    def _usage(self) -> dict[str, int]:
        given, said = self._prompt_tokens, self._completion_tokens
        return {
            "prompt_tokens": given,
            "completion_tokens": said,
            "total_tokens": given + said,
        }


def error_body(status: int, text: str) -> dict[str, Any]:
    """How OpenAI reports an error, in both of its forms."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": text, "type": kind, "param": None, "code": None}}
