"""Events of a LangGraph graph as outputs of an agent."""

from collections.abc import Mapping
from typing import Any, Final

from trunkline.backends.python.adapters.conversations import EventReading, plain
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import Note, Output
from trunkline.model.values import Part

_INTERRUPT: Final = "__interrupt__"
# Usual keys of the text in a question that is an object.
_WORDS: Final = ("question", "message", "prompt", "text", "description")


class GraphReading(EventReading):
    """Reads the events of `astream`; `given` is the input of the graph."""

    def __init__(self, turn: Turn, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.questions: list[Any] = []
        self._turn = turn
        self._given = given
        # The newest state of the graph, or the result of a graph without a state.
        self._values: Any = {}
        # Ids of the message whose text comes now, and of the messages whose tokens were counted.
        self._saying: object = None
        self._counted: set[object] = set()
        self._done: set[str] = set()

    def feed(self, mode: str, data: Any, *, is_root: bool) -> list[Output]:
        if mode == "messages":
            return self._message(data[0])
        if mode == "updates" and isinstance(data, Mapping):
            if is_root and _INTERRUPT in data:
                self.questions = list(data[_INTERRUPT])
            return [output for update in data.values() for output in self._update(update)]
        if mode == "custom":
            part = Part(text=data) if isinstance(data, str) else Part(data=plain(data))
            return [Note((part,))]
        if mode == "values" and is_root:
            self._values = data
        return []

    def end(self) -> object:
        """The end of the turn: a question, or the answer."""
        if self.questions:
            return self._turn.ask(*_question(self.questions[0].value))
        answer = () if self.has_spoken else self._made()
        return self._turn.answer(*answer, metadata=self.usage())

    def _message(self, message: Any) -> list[Output]:
        if message.type not in ("ai", "AIMessageChunk"):
            return []
        outputs = self._say(_text(message.content), is_apart=message.id != self._saying)
        if outputs:
            self._saying = message.id
        return outputs

    def _update(self, update: Any) -> list[Output]:
        messages = update.get("messages") if isinstance(update, Mapping) else None
        listed = messages if isinstance(messages, list) else [messages]
        return [output for message in listed for output in self._tools(message)]

    def _tools(self, message: Any) -> list[Output]:
        kind = getattr(message, "type", "")
        if kind == "ai":
            self._count_once(message)
            calls = [call for call in message.tool_calls if call["id"] not in self._begun]
            return [self._call(call["id"], call["name"], call["args"]) for call in calls]
        call_id = getattr(message, "tool_call_id", "")
        if kind != "tool" or call_id not in self._begun or call_id in self._done:
            return []
        self._done.add(call_id)
        return self._result(call_id, message.content, is_error=message.status == "error")

    def _count_once(self, message: Any) -> None:
        usage = message.usage_metadata
        if usage and message.id not in self._counted:
            self._counted.add(message.id)
            names = ("input_tokens", "output_tokens", "total_tokens")
            self._count(*(usage.get(name) for name in names))

    def _made(self) -> tuple[Any, ...]:
        """The answer of a graph without text: the values that it added to its input."""
        if not isinstance(self._values, Mapping):
            return _content(self._values)
        values = {name: value for name, value in self._values.items() if name != _INTERRUPT}
        messages = values.get("messages")
        if isinstance(messages, list):
            said = [_text(last.content) for last in messages[-1:] if last.type == "ai"]
            return tuple(said)
        made = {
            name: value
            for name, value in values.items()
            if name not in self._given or self._given[name] != value
        }
        if len(made) == 1:
            return _content(next(iter(made.values())))
        return (Part(data=plain(made)),) if made else ()


def _content(value: Any) -> tuple[Any, ...]:
    return (value if isinstance(value, str) else Part(data=plain(value)),)


def _question(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return (value,)
    words = [value[key] for key in _WORDS if isinstance(value, Mapping) and key in value]
    said = [word for word in words if isinstance(word, str) and word]
    return (*(Part(text=word) for word in said[:1]), Part(data=plain(value)))


def _text(content: Any) -> str:
    """The text of a message, without its thoughts and calls."""
    if isinstance(content, str):
        return content
    texts = [
        block if isinstance(block, str) else block.get("text", "")
        for block in content
        if isinstance(block, str) or block.get("type") == "text"
    ]
    return "".join(texts)
