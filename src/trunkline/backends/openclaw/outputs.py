"""Events of an OpenClaw run as outputs of the turn.

Every event repeats the whole text of its message. `RunFold` compares it with the text that it has
already put out, so pieces that were lost or came twice make no difference.
"""

import re
from typing import Any, Final

from trunkline.backends.json_values import table, tables, text
from trunkline.backends.openclaw.frames import AgentEvent, ChatEvent, Response
from trunkline.model.outputs import Failed, Output, StageStarted, Text, TextReplaced, ToolCalled
from trunkline.model.outputs import Final as Done
from trunkline.model.values import Part

FAILED: Final = "The agent could not finish; the gateway's log has the details."
STOPPED: Final = "The run was stopped in OpenClaw before it was done."
TIMED_OUT: Final = "The agent did not finish within OpenClaw's time limit."
_MAX_REASON: Final = 200
# Callers must not see paths, addresses or anything that looks like a key.
_PRIVATE: Final = re.compile(r"[/\\]\w|://|\w{24,}|[\r\n\x00-\x1f]")
_ERROR_NAME: Final = re.compile(r"^\w*Error: ")

Outputs = list[Output]


class RunFold:
    """Turns the events of one run into outputs. After `is_ended` it ignores events."""

    def __init__(self, *, is_resumed: bool = False) -> None:
        # The text of a resumed run is put out once as a whole: the task has an unknown part of it.
        self._tells_whole = is_resumed
        self._item = ""
        self._text = ""
        self._told: list[str] = []
        self._final = ""
        self._usage: dict[str, int] = {}
        self._calls: set[str] = set()
        self.is_started = False
        self.is_ended = False
        # The reason of a failure, for the operator.
        self.fault = ""

    def hear(self, event: AgentEvent) -> Outputs:
        if self.is_ended:
            return []
        data = event.data
        match event.stream:
            case "assistant":
                self.is_started = True
                return self._hear_text(data)
            case "tool":
                self.is_started = True
                return self._hear_tool(data)
            case "lifecycle":
                self.is_started = self.is_started or data.get("phase") == "start"
            case "usage":
                self._count(data)
            case _:
                pass
        return []

    def hear_chat(self, event: ChatEvent) -> None:
        """Keep the whole text, for a result that has none."""
        if event.state == "final" and (text := event.text):
            self._final = text

    def catch_up(self, text: str) -> Outputs:
        """Continue with the whole text of the current message, after the connection was lost."""
        if self.is_ended or not text or text == self._text:
            return []
        if self._tells_whole or text.startswith(self._text):
            return self._grow(text)
        return []

    def end(self, response: Response) -> Outputs:
        """Takes the second answer to `agent`, or the first one if the run had ended before."""
        fields = response.fields
        if not response.ok:
            return self.fail(response.fault.message)
        status = fields.get("status")
        if fields.get("summary") == "aborted":
            return self.stop()
        if status == "timeout":
            return self._end(Failed(TIMED_OUT))
        result = table(fields.get("result"))
        if status == "error":
            return self.fail(_error_in(result) or str(fields.get("summary", "")))
        self._count(_usage_in(result))
        return self.finish(*_payload_parts(result))

    def finish(self, texts: list[str], files: list[Part]) -> Outputs:
        """End the run with the texts and files of its answer."""
        missed = [text for text in texts[:-1] if text.strip() not in self._told]
        whole = "\n\n".join([*missed, *texts[-1:]]) or ("" if self._text else self._final)
        parts = (*((Part(text=whole),) if whole else ()), *files)
        if not whole and files and self._text:
            parts = (Part(text=self._text), *files)
        metadata = {"usage": dict(self._usage)} if self._usage else None
        return self._end(Done(parts, metadata))

    def fail(self, message: str) -> Outputs:
        self.fault = message
        return self._end(Failed(fit_for_callers(message)))

    def stop(self) -> Outputs:
        return self._end(Failed(STOPPED))

    def _end(self, output: Output) -> Outputs:
        if self.is_ended:
            return []
        self.is_ended = True
        return [output]

    def _hear_text(self, data: dict[str, Any]) -> Outputs:
        text, delta = data.get("text"), data.get("delta")
        item = data.get("itemId")
        item = item if isinstance(item, str) else ""
        if not isinstance(text, str):
            text = self._text + delta if isinstance(delta, str) else self._text
        begins = self._begins(item, text, delta)
        self._item = item or self._item
        if not begins:
            return self._grow(text)
        self._told.append(self._text.strip())
        self._text = ""
        return [StageStarted(), *self._grow(text)]

    def _begins(self, item: str, text: str, delta: Any) -> bool:
        """Whether this is the first piece of another message of the run."""
        if not self._text:
            return False
        if item and self._item:
            return item != self._item
        # Releases without ids: a text that is all new begins another message.
        return text == delta and not text.startswith(self._text)

    def _grow(self, text: str) -> Outputs:
        before, self._text = self._text, text
        if self._tells_whole:
            self._tells_whole = False
            return [TextReplaced(text)]
        if text == before:
            return []
        if text.startswith(before):
            return [Text(text[len(before) :])]
        return [TextReplaced(text)]

    def _hear_tool(self, data: dict[str, Any]) -> Outputs:
        phase, name, call_id = data.get("phase"), data.get("name"), data.get("toolCallId")
        if not (isinstance(phase, str) and isinstance(name, str) and isinstance(call_id, str)):
            return []
        started: Outputs = []
        if phase != "start" and call_id not in self._calls:
            # The event of its start was lost with the connection.
            started = [ToolCalled(call_id=call_id, name=name, phase="start")]
        self._calls.add(call_id)
        shown = {"start": "args", "update": "partialResult", "result": "result"}.get(phase)
        if shown is None:
            return []
        called = ToolCalled(
            call_id=call_id,
            name=name,
            phase=phase,
            data=_visible(data.get(shown)),
            is_error=data.get("isError") is True,
        )
        return [*started, called]

    def _count(self, usage: dict[str, Any]) -> None:
        for name, known in _USAGE.items():
            value = next((usage[key] for key in known if isinstance(usage.get(key), int)), None)
            if value:
                self._usage[name] = value


_USAGE: Final = {
    "inputTokens": ("inputTokens", "input"),
    "outputTokens": ("outputTokens", "output"),
    "totalTokens": ("totalTokens", "total"),
}


def fit_for_callers(message: str) -> str:
    """The message of OpenClaw about a failure, unless it may reveal details of its machine."""
    text = _ERROR_NAME.sub("", message.strip().removeprefix("⚠️").strip())
    if not text or len(text) > _MAX_REASON or _PRIVATE.search(text):
        return FAILED
    return f"The agent could not finish: {text}"


def _visible(value: Any) -> Any:
    """The part of a tool's result that the agent sees. The rest has paths and process ids."""
    if isinstance(value, dict) and "content" in value:
        return {"content": value["content"]}
    return value


def _payload_parts(result: dict[str, Any]) -> tuple[list[str], list[Part]]:
    texts: list[str] = []
    files: list[Part] = []
    for payload in tables(result.get("payloads")):
        if said := text(payload.get("text")):
            texts.append(said)
        urls = payload.get("mediaUrls") or [payload.get("mediaUrl")]
        for url in urls if isinstance(urls, list) else ():
            # Callers cannot read a path on OpenClaw's machine.
            if isinstance(url, str) and url.startswith(("https://", "http://")):
                files.append(Part(url=url))
    return texts, files


def _error_in(result: dict[str, Any]) -> str:
    texts, _ = _payload_parts(result)
    return texts[-1] if texts else ""


def _usage_in(result: dict[str, Any]) -> dict[str, Any]:
    return table(table(table(result.get("meta")).get("agentMeta")).get("usage"))
