"""`ArtifactStyle`: the names of the artifacts that the gateway makes of the output of an agent.

The gateway uses no id twice in a task, so that none of its artifacts overwrites another. An agent
may reuse an id: its artifact is then a new version of the earlier one.
"""

import re
from abc import abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct

from trunkline.model.outputs import ToolCalled
from trunkline.model.profile import Profile
from trunkline.model.values import Artifact, Part

Parts = tuple[Part, ...]


class Label(Struct, frozen=True, gc=False):
    artifact_id: str
    name: str
    metadata: dict[str, Any] | None = None


class ArtifactStyle(Struct, eq=False):
    """The names of the artifacts of one turn, and how their events look."""

    # The content of a chunk that only marks the chunk before it as the last one.
    closing_parts: ClassVar[Parts] = (Part(text=""),)
    # Whether the chunk before is marked instead of sending another one, while it is not stored yet.
    amends_last_chunk: ClassVar[bool] = True
    # Whether a chunk that is not the last one has `lastChunk: false`.
    sends_last_chunk_false: ClassVar[bool] = False
    # Whether a complete answer is shown first and closed by a second event.
    closes_in_second_event: ClassVar[bool] = False
    # Whether a task reports `submitted` before `working`.
    reports_submitted_first: ClassVar[bool] = False
    # Whether output during a stop still counts, and a canceled task ends with the last text.
    keeps_output_after_stop: ClassVar[bool] = False

    # The number of the turn in its task.
    number: int
    # The ids of the artifacts of the task, which `TurnFold` adds to.
    taken: set[str]
    # The ids that the gateway gave to text of the turn.
    _given: set[str] = set()

    @abstractmethod
    def stage(self) -> Label:
        """The artifact of the next message of the turn."""

    @abstractmethod
    def tool(self, called: ToolCalled) -> Artifact | None: ...

    @abstractmethod
    def summary(self, tool: str) -> Label: ...

    def beside(self, artifact_id: str) -> str:
        """The id of an artifact that the agent names itself: another one where the gateway gave
        that id to text of the turn."""
        return f"{artifact_id}-own" if artifact_id in self._given else artifact_id


class AnswerStyle(ArtifactStyle, eq=False):
    """`answer`, `tool-<call>` and `tool-result`; with the number of the turn from the
    second on, and of the message when a turn has several."""

    _stages: int = 0
    _summaries: int = 0

    @property
    def _suffix(self) -> str:
        return f"-{self.number}" if self.number > 1 else ""

    def stage(self) -> Label:
        self._stages += 1
        label = _ANSWER
        if self._stages > 1 or self.number > 1 or "answer" in self.taken:
            while (name := self._numbered("answer", self._stages)) in self.taken:
                self._stages += 1
            label = Label(name, "answer")
        self._given.add(label.artifact_id)
        return label

    def tool(self, called: ToolCalled) -> Artifact | None:
        data = {"tool": called.name, "phase": called.phase, "data": called.data}
        if called.is_error:
            data["isError"] = True
        return Artifact(
            artifact_id=f"tool-{called.call_id}{self._suffix}",
            name=called.name,
            parts=(Part(data=data),),
            metadata=_about(called),
        )

    def summary(self, tool: str) -> Label:
        self._summaries += 1
        return Label(self._numbered("tool-result", self._summaries), tool or "tool-result")

    def _numbered(self, name: str, number: int) -> str:
        return f"{name}{self._suffix}.{number}" if number > 1 else f"{name}{self._suffix}"


class ToolResultStyle(AnswerStyle, eq=False):
    """Only the results of tools, each as JSON text under the name of its tool."""

    def tool(self, called: ToolCalled) -> Artifact | None:
        if called.phase != "result":
            return None
        return Artifact(
            artifact_id=f"tool-{called.call_id}{self._suffix}",
            name=called.name,
            parts=(Part(text=msgspec.json.encode(called.data).decode()),),
            metadata={"isError": True} if called.is_error else None,
        )


class NumberedStyle(ArtifactStyle, eq=False):
    """`assistant-output-0001`, `tool-result-0001`, `tool-progress-<call>`, counted through
    all turns of the task. `sequence` in the metadata counts the artifacts of the turn."""

    closing_parts: ClassVar[Parts] = ()
    amends_last_chunk: ClassVar[bool] = False
    sends_last_chunk_false: ClassVar[bool] = True
    closes_in_second_event: ClassVar[bool] = True
    reports_submitted_first: ClassVar[bool] = True
    keeps_output_after_stop: ClassVar[bool] = True

    _counts: dict[str, int] = {}
    _sequence: int = 0
    _tools: dict[str, tuple[str, int]] = {}

    def __post_init__(self) -> None:
        for name in ("assistant-output", "tool-result"):
            self._counts[name] = _last(name, self.taken)

    def stage(self) -> Label:
        return self._counted("assistant-output")

    def summary(self, tool: str) -> Label:
        return self._counted("tool-result")

    def _counted(self, what: str) -> Label:
        self._counts[what] += 1
        while (artifact_id := f"{what}-{self._counts[what]:04d}") in self.taken:
            self._counts[what] += 1
        self._given.add(artifact_id)
        name = f"{what}-{self._counts[what]}"
        return Label(artifact_id, name, {"sequence": self._next(), "source": name})

    def tool(self, called: ToolCalled) -> Artifact | None:
        artifact_id, sequence = self._tools.get(called.call_id) or self._new_tool(called.call_id)
        data: dict[str, Any] = {
            "phase": called.phase,
            "name": called.name,
            "toolCallId": called.call_id,
            _DATA_KEYS[called.phase]: called.data,
        }
        if called.phase == "result":
            data["isError"] = called.is_error
        return Artifact(
            artifact_id=artifact_id,
            name=f"{called.name} progress",
            parts=(Part(text=_progress(called)), Part(data=data)),
            metadata=_about(called) | {"sequence": sequence},
        )

    def _new_tool(self, call_id: str) -> tuple[str, int]:
        base = artifact_id = f"tool-progress-{_NOT_IN_IDS.sub('_', call_id)}"
        number = 1
        while artifact_id in self.taken or artifact_id in self._given:
            number += 1
            artifact_id = f"{base}-{number}"
        self._given.add(artifact_id)
        self._tools[call_id] = artifact_id, self._next()
        return self._tools[call_id]

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


# The most frequent label, made once.
_ANSWER: Final = Label("answer", "answer")
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")
_DATA_KEYS: Final = {"start": "args", "update": "partialResult", "result": "result"}
_VERBS: Final = {"start": "Started", "update": "Updated", "result": "Completed"}

_STYLES: Final[dict[str, type[ArtifactStyle]]] = {
    "answer": AnswerStyle,
    "numbered": NumberedStyle,
    "tool-results": ToolResultStyle,
}


def artifact_style_of(profile: Profile) -> type[ArtifactStyle]:
    return _STYLES[profile.artifact_style]


def _about(called: ToolCalled) -> dict[str, Any]:
    return {
        "source": "tool",
        "toolName": called.name,
        "toolCallId": called.call_id,
        "phase": called.phase,
    }


def _progress(called: ToolCalled) -> str:
    if called.is_error:
        return f"Tool {called.name} failed"
    return f"{_VERBS[called.phase]} tool {called.name}"


def _last(name: str, taken: Collection[str]) -> int:
    """The highest number of an artifact with that name."""
    pattern = re.compile(rf"{name}-(\d{{1,9}})")
    found = (pattern.fullmatch(artifact_id) for artifact_id in taken)
    return max((int(match[1]) for match in found if match), default=0)
