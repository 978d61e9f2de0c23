"""Claude Code: `--input-format stream-json --output-format stream-json`."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trunkline.backends.command.format import Format, Reader, Start, missing
from trunkline.backends.json_values import json_object, numbers, table, tables, text
from trunkline.backends.programs import failures
from trunkline.backends.programs.children import MCP_NAME, TOOLS_TOKEN
from trunkline.backends.programs.prompt import File, Prompt, blocks_of
from trunkline.model.outputs import Failed, Final, Output, StageStarted, Text, ToolCalled
from trunkline.model.values import Part

OPTIONS = (
    ("-p",),
    ("--input-format", "stream-json"),
    ("--output-format", "stream-json"),
    ("--verbose",),
    ("--include-partial-messages",),
)
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheWriteTokens",
}
# Subtype of a result → the reason why the answer is incomplete.
STOPPED = {
    "error_max_turns": "The agent stopped: it had used all the steps that it may take.",
    "error_max_budget_usd": "The agent stopped: it had used up its budget.",
}
_encode = msgspec.json.Encoder().encode


class ClaudeFormat(Format):
    # The input stays open, so that the program can be told to stop.
    reads_once = False

    def arguments(self, argv: tuple[str, ...], start: Start) -> tuple[str, ...]:
        # `--print` is the long name of `-p`.
        options = OPTIONS[1:] if "--print" in argv else OPTIONS
        session = ("--resume", start.known) if start.known else ("--session-id", start.session_id)
        folder = ("--add-dir", start.folder) if start.folder else ()
        return (*argv[1:], *missing(argv, options), *session, *folder, *_tools(start.mcp_url))

    def takes(self, file: File) -> bool:
        return file.media_type in IMAGES or file.media_type == "application/pdf"

    def message(self, prompt: Prompt) -> bytes:
        content = blocks_of(prompt, _block)
        return _encode({"type": "user", "message": {"role": "user", "content": content}}) + b"\n"

    def interrupt(self) -> bytes:
        request = {"request_id": "stop", "request": {"subtype": "interrupt"}}
        return _encode({"type": "control_request", **request}) + b"\n"

    def reader(self) -> Reader:
        return ClaudeReader()

    def try_again(self, start: Start, reader: Reader, errors: str) -> str | None:
        if not start.known and "already in use" in errors:
            # The program knows the session, but the gateway does not: the note was lost.
            return start.session_id
        if start.known and "No conversation found" in f"{errors} {reader.trouble}":
            # The program ended before it saved the session, or has deleted it since.
            return ""
        return None


def _tools(mcp_url: str) -> tuple[str, ...]:
    """The options for the tools of the gateway, beside those that the operator has written."""
    if not mcp_url:
        return ()
    # The program puts the variable in, so that the token does not show in `ps`.
    headers = {"Authorization": f"Bearer ${{{TOOLS_TOKEN}}}"}
    server = {"type": "http", "url": mcp_url, "headers": headers}
    config = _encode({"mcpServers": {MCP_NAME: server}}).decode()
    return ("--mcp-config", config, "--allowedTools", f"mcp__{MCP_NAME}")


def _block(file: File) -> dict[str, Any]:
    data = base64.b64encode(file.data).decode()
    source = {"type": "base64", "media_type": file.media_type, "data": data}
    return {"type": "image" if file.media_type in IMAGES else "document", "source": source}


class ClaudeReader(Reader):
    def __init__(self) -> None:
        # The text of the current message so far.
        self._streamed = ""
        self._is_streaming = False
        self._tools: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterable[Output]:
        frame = json_object(data)
        if frame is None:
            return ()
        self.known = text(frame.get("session_id")) or self.known
        match frame.get("type"):
            case "stream_event" if not frame.get("parent_tool_use_id"):
                return self._event(table(frame.get("event")))
            case "assistant":
                return self._said(frame)
            case "user":
                return self._results(table(frame.get("message")))
            case "result":
                return self._result(frame)
            case _:
                return ()

    def _event(self, event: dict[str, Any]) -> Iterator[Output]:
        match event.get("type"):
            case "message_start":
                self._is_streaming = True
                yield from self._next_message()
            case "content_block_delta":
                delta = table(event.get("delta"))
                if delta.get("type") == "text_delta" and (piece := text(delta.get("text"))):
                    self._streamed += piece
                    yield Text(piece)
            case _:
                pass

    def _next_message(self) -> Iterator[Output]:
        if self._streamed:
            self._streamed = ""
            yield StageStarted()

    def _said(self, frame: dict[str, Any]) -> Iterator[Output]:
        is_own = not frame.get("parent_tool_use_id")
        for block in tables(table(frame.get("message")).get("content")):
            kind, piece = block.get("type"), text(block.get("text"))
            if kind == "tool_use":
                call_id, name = text(block.get("id")), text(block.get("name"))
                if call_id and name:
                    self._tools[call_id] = name
                    data = block.get("input")
                    yield ToolCalled(call_id=call_id, name=name, phase="start", data=data)
            elif kind == "text" and piece and is_own and frame.get("is_api_error_message"):
                # An error of the model in the form of an answer; the result repeats it.
                self.trouble = piece
            elif kind == "text" and piece and is_own and not self._is_streaming:
                # The program did not stream this message.
                yield from self._next_message()
                self._streamed = piece
                yield Text(piece)

    def _results(self, message: dict[str, Any]) -> Iterator[Output]:
        for block in tables(message.get("content")):
            name = self._tools.pop(text(block.get("tool_use_id")), "")
            if block.get("type") == "tool_result" and name:
                yield ToolCalled(
                    call_id=text(block["tool_use_id"]),
                    name=name,
                    phase="result",
                    data=block.get("content"),
                    is_error=block.get("is_error") is True,
                )

    def _result(self, frame: dict[str, Any]) -> Iterator[Output]:
        self.is_done = True
        kind, answer = text(frame.get("subtype")), text(frame.get("result"))
        if frame.get("is_error") or kind != "success":
            errors = frame.get("errors")
            told = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
            self.trouble = told or answer or kind
            yield Failed(STOPPED.get(kind, failures.MODEL_FAILED))
            return
        # The streamed text is the answer, unless the result holds another text.
        is_told = not answer or answer.strip() == self._streamed.strip()
        parts = () if is_told else (Part(text=answer),)
        yield Final(parts, metadata=_metadata(frame))


def _metadata(frame: dict[str, Any]) -> dict[str, Any] | None:
    usage: dict[str, Any] = dict(numbers(frame.get("usage"), USAGE))
    cost = numbers(frame, {"total_cost_usd": "costUsd"})
    return {"usage": usage | cost} if usage or cost else None
