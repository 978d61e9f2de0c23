"""`Asked`: a request to the model, read from any of the three forms."""

import re
from typing import Any

from msgspec import Struct

from trunkline.backends.json_values import tables
from trunkline.testing.fake_model.script import CallTool, Say, Step, steps_of

# Texts that OpenClaw, Claude Code and Codex put around the user's text.
_DECORATIONS = (
    re.compile(r"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?(<<<END_\w+>>>|\Z)", re.DOTALL),
    re.compile(r"\A\s*\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d[^\]]*\] "),
    re.compile(r"\n\nRuntime: agent=.*\Z", re.DOTALL),
    re.compile(r"<(system-reminder|environment_context|user_instructions)>.*?</\1>", re.DOTALL),
)
_RESULT_CHARS = 2000


class Asked(Struct, frozen=True, kw_only=True):
    model: str
    is_streamed: bool
    # The last text of the user, without decorations.
    text: str
    # Names and results of tools, if the request answers calls of the last answer.
    results: tuple[tuple[str, str], ...] = ()

    def steps(self) -> tuple[Step, ...]:
        steps = steps_of(self.text)
        if not self.results:
            return steps
        told = Say(tuple(f"{name} gave: {text}\n" for name, text in self.results))
        return (told, *(step for step in steps if isinstance(step, CallTool) and step.again))


def undecorated(text: str) -> str:
    for decoration in _DECORATIONS:
        text = decoration.sub("", text)
    return text.strip()


def read_chat(body: dict[str, Any]) -> Asked:
    """`POST /v1/chat/completions`."""
    asked = _Reading()
    for message in tables(body.get("messages")):
        match message.get("role"):
            case "user":
                asked.hear(_text(message.get("content")))
            case "assistant":
                calls = tables(message.get("tool_calls"))
                asked.answered({c.get("id"): c.get("function", {}).get("name") for c in calls})
            case "tool":
                asked.result(message.get("tool_call_id"), _text(message.get("content")))
            case _:
                pass
    return asked.done(body)


def read_messages(body: dict[str, Any]) -> Asked:
    """`POST /v1/messages`."""
    asked = _Reading()
    for message in tables(body.get("messages")):
        blocks = tables(message.get("content"))
        if message.get("role") == "assistant":
            calls = [block for block in blocks if block.get("type") == "tool_use"]
            asked.answered({call.get("id"): call.get("name") for call in calls})
            continue
        if message.get("role") != "user":
            # Claude Code puts its own system messages among the messages.
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                asked.result(block.get("tool_use_id"), _text(block.get("content")))
        asked.hear(_text(message.get("content")))
    return asked.done(body)


def read_responses(body: dict[str, Any]) -> Asked:
    """`POST /v1/responses`."""
    asked, given = _Reading(), body.get("input")
    if isinstance(given, str):
        asked.hear(given)
    for item in tables(given):
        match item.get("type", "message"):
            case "message" if item.get("role") == "user":
                asked.hear(_text(item.get("content")))
            case "message" if item.get("role") == "assistant":
                asked.answered({})
            case "function_call" | "custom_tool_call":
                asked.called(item.get("call_id"), item.get("name"))
            case "function_call_output" | "custom_tool_call_output":
                asked.result(item.get("call_id"), _text(item.get("output")))
            case _:
                pass
    return asked.done(body)


class _Reading:
    """A conversation, message by message."""

    def __init__(self) -> None:
        self._text = ""
        self._names: dict[Any, Any] = {}
        self._results: list[tuple[str, str]] = []

    def hear(self, text: str) -> None:
        # A message that is all decoration did not come from the user.
        if said := undecorated(text):
            self._text, self._results = said, []

    def answered(self, calls: dict[Any, Any]) -> None:
        self._names |= calls
        self._results = []

    def called(self, call_id: Any, name: Any) -> None:
        self._names[call_id] = name

    def result(self, call_id: Any, text: str) -> None:
        name = str(self._names.get(call_id) or "an unknown call")
        self._results.append((name, text[:_RESULT_CHARS]))

    def done(self, body: dict[str, Any]) -> Asked:
        return Asked(
            model=str(body.get("model", "")),
            is_streamed=body.get("stream") is True,
            text=self._text,
            results=tuple(self._results),
        )


def _text(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in tables(content) if isinstance(part.get("text"), str)]
    return "\n".join(undecorated(text) for text in texts if undecorated(text))
