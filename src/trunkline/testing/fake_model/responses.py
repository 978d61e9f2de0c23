"""Answers of OpenAI's responses."""

from typing import Any

import msgspec

from trunkline.testing.fake_model.script import CallTool
from trunkline.testing.fake_model.writing import Writer, arguments, data


class ResponsesWriter(Writer):
    def __init__(self, number: int, body: dict[str, Any]) -> None:
        super().__init__(number, body)
        self._sequence = 0
        self._items: list[dict[str, Any]] = []
        # The text of the message or of the reasoning under way.
        self._open: dict[str, Any] | None = None
        self._said = ""

    def begin(self) -> bytes:
        started = self._response("in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._event(kind, response=started) for kind in kinds)

    def say(self, piece: str) -> bytes:
        opening = self._opened("message")
        self._said += piece
        return opening + self._event("response.output_text.delta", **self._place(), delta=piece)

    def think(self, piece: str) -> bytes:
        opening = self._opened("reasoning")
        self._said += piece
        place = {"item_id": self._item_id(), "output_index": self._index(), "summary_index": 0}
        kind = "response.reasoning_summary_text.delta"
        return opening + self._event(kind, **place, delta=piece)

    def call(self, call: CallTool) -> bytes:
        closing = self._closed()
        item = self._call_item(call, len(self.calls) - 1)
        unfinished = item | {"arguments": "", "status": "in_progress"}
        place = {"output_index": self._index(), "item_id": item["id"]}
        kind, text = "response.function_call_arguments", item["arguments"]
        told = (
            self._output_item("added", unfinished)
            + self._event(f"{kind}.delta", **place, delta=text)
            + self._event(f"{kind}.done", **place, arguments=text)
            + self._output_item("done", item)
        )
        self._items.append(item)
        return closing + told

    def end(self, reason: str) -> bytes:
        closing = self._closed()
        kind, response = self._ended(reason)
        return closing + self._event(kind, response=response)

    def error(self, text: str) -> bytes:
        failed = self._response("failed") | {"error": {"code": "server_error", "message": text}}
        return self._event("response.failed", response=failed)

    def entire(self, reason: str) -> bytes:
        _ = self._closed()
        return msgspec.json.encode(self._ended(reason)[1])

    def _ended(self, reason: str) -> tuple[str, dict[str, Any]]:
        if reason in ("stop", "tools"):
            return "response.completed", self._response("completed")
        details = {"reason": "max_output_tokens" if reason == "length" else "content_filter"}
        response = self._response("incomplete") | {"incomplete_details": details}
        return "response.incomplete", response

    def _opened(self, kind: str) -> bytes:
        if self._open is not None and self._open["type"] == kind:
            return b""
        closing = self._closed()
        item_id = f"{'msg' if kind == 'message' else 'rs'}_{self._number}_{self._index()}"
        self._open = _message(item_id, "") if kind == "message" else _reasoning(item_id, "")
        started = self._open | {"status": "in_progress", "content": []}
        opening = closing + self._output_item("added", started)
        if kind == "message":
            part = _output_text("")
            opening += self._event("response.content_part.added", **self._place(), part=part)
        return opening

    def _closed(self) -> bytes:
        if self._open is None:
            return b""
        item_id, is_message = self._item_id(), self._open["type"] == "message"
        item = _message(item_id, self._said) if is_message else _reasoning(item_id, self._said)
        told = b""
        if is_message:
            place, part = self._place(), _output_text(self._said)
            told = self._event("response.output_text.done", **place, text=self._said)
            told += self._event("response.content_part.done", **place, part=part)
        told += self._output_item("done", item)
        self._items.append(item)
        self._open, self._said = None, ""
        return told

    def _index(self) -> int:
        return len(self._items)

    def _item_id(self) -> str:
        return str(self._open["id"]) if self._open else ""

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id(), "output_index": self._index(), "content_index": 0}

    def _call_item(self, call: CallTool, at: int) -> dict[str, Any]:
        # Codex has the tools of each MCP server in a namespace, here written `NAMESPACE/NAME`.
        namespace, _, name = call.name.rpartition("/")
        return {
            **({"namespace": namespace} if namespace else {}),
            "type": "function_call",
            "id": f"fc_{self._number}_{at}",
            "call_id": f"call_{self._number}_{at}",
            "name": name,
            "arguments": arguments(call),
            "status": "completed",
        }

    def _response(self, status: str) -> dict[str, Any]:
        given, said = self._prompt_tokens, self._completion_tokens
        usage = {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": len(self.thought.split())},
            "total_tokens": given + said,
        }
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "model": self._model,
            "output": list(self._items),
            "error": None,
            "incomplete_details": None,
            "usage": None if status == "in_progress" else usage,
        }

    def _output_item(self, phase: str, item: dict[str, Any]) -> bytes:
        kind = f"response.output_item.{phase}"
        return self._event(kind, output_index=self._index(), item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._sequence} | fields
        self._sequence += 1
        return data(value, event=kind)


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _message(item_id: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": "completed",
        "content": [_output_text(text)],
    }


def _reasoning(item_id: str, text: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": item_id, "summary": summary}
