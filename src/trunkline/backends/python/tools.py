"""Tools that an agent uses, as its caller may see them."""

from typing import Any

from trunkline.backends.python.parts import Content, json_of, parts_of
from trunkline.model.outputs import ToolCalled, ToolSummarized


class ToolCall:
    """Yield it when the tool starts, then `update` and `result`, and perhaps a `summary`."""

    __slots__ = ("_data", "call_id", "name")

    def __init__(self, *, call_id: str, name: str, data: Any) -> None:
        self.call_id = call_id
        self.name = name
        self._data = json_of(data)

    def start(self) -> ToolCalled:
        return ToolCalled(call_id=self.call_id, name=self.name, phase="start", data=self._data)

    def update(self, data: Any) -> ToolCalled:
        return ToolCalled(call_id=self.call_id, name=self.name, phase="update", data=json_of(data))

    def result(self, data: Any = None, *, is_error: bool = False) -> ToolCalled:
        return ToolCalled(
            call_id=self.call_id,
            name=self.name,
            phase="result",
            data=json_of(data),
            is_error=is_error,
        )

    def summary(self, content: Content, *more: Content) -> ToolSummarized:
        """The result in words for people."""
        return ToolSummarized(parts_of((content, *more)), self.name)
