"""`ArtifactStyle`: the names of the artifacts that the gateway makes of the output of an agent.

The gateway gives no name twice in a task, so that none of its artifacts overwrites another. An
agent may: an artifact with the id of an earlier one is its new version.
"""

import re
from collections.abc import Collection
from typing import Any, ClassVar, Final, Protocol

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


class ArtifactStyle(Protocol):
    """The names of one turn. `number` counts the turns of the task; `taken` holds the ids of its
    artifacts, and grows during the turn."""

    # The content of a chunk that only marks the chunk before as the last one.
    closing_parts: ClassVar[Parts]
    # Whether a last chunk that is not stored yet is marked in place instead.
    amends_last_chunk: ClassVar[bool]
    # Whether a chunk that is not the last one has `lastChunk: false`.
    sends_last_chunk_false: ClassVar[bool]
    # Whether a complete answer is shown first and closed by a second event.
    closes_in_second_event: ClassVar[bool]
    # Whether a task reports `submitted` before `working`.
    reports_submitted_first: ClassVar[bool]
    # Whether output during a stop still counts, and a canceled task ends with the last text.
    keeps_output_after_stop: ClassVar[bool]

    def __init__(self, number: int, taken: Collection[str]) -> None: ...
    def stage(self) -> Label: ...

    def beside(self, artifact_id: str) -> str:
        """The id of an artifact that the agent names itself: another one where the gateway gave
        that id to text of the turn."""

    def tool(self, called: ToolCalled) -> Artifact | None: ...
    def summary(self, tool: str) -> Label: ...


class AnswerStyle:
    """`answer`, `tool-<call>` and `tool-result`; with the number of the turn from the
    second on, and of the message when a turn has several."""

    closing_parts: ClassVar[Parts] = (Part(text=""),)
    amends_last_chunk: ClassVar[bool] = True
    sends_last_chunk_false: ClassVar[bool] = False
    closes_in_second_event: ClassVar[bool] = False
    reports_submitted_first: ClassVar[bool] = False
    keeps_output_after_stop: ClassVar[bool] = False

    __slots__ = ("_given", "_stages", "_suffix", "_summaries", "_taken")

    def __init__(self, number: int, taken: Collection[str]) -> None:
        self._suffix = f"-{number}" if number > 1 else ""
        self._taken = taken
        self._given: tuple[str, ...] = ()
        self._stages = 0
        self._summaries = 0

    def stage(self) -> Label:
        self._stages += 1
        label = _ANSWER
        if self._stages > 1 or self._suffix or "answer" in self._taken:
            while (name := self._numbered("answer", self._stages)) in self._taken:
                self._stages += 1
            label = Label(name, "answer")
        self._given += (label.artifact_id,)
        return label

    def beside(self, artifact_id: str) -> str:
        return f"{artifact_id}-own" if artifact_id in self._given else artifact_id

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


class ToolResultStyle(AnswerStyle):
    """Results of tools alone, each as JSON text under the name of its tool."""

    __slots__ = ()

    def tool(self, called: ToolCalled) -> Artifact | None:
        if called.phase != "result":
            return None
        return Artifact(
            artifact_id=f"tool-{called.call_id}{self._suffix}",
            name=called.name,
            parts=(Part(text=msgspec.json.encode(called.data).decode()),),
            metadata={"isError": True} if called.is_error else None,
        )


class NumberedStyle:
    """`assistant-output-0001`, `tool-result-0001`, `tool-progress-<call>`, counted through
    all turns of the task. `sequence` in the metadata counts the artifacts of the turn."""

    closing_parts: ClassVar[Parts] = ()
    amends_last_chunk: ClassVar[bool] = False
    sends_last_chunk_false: ClassVar[bool] = True
    closes_in_second_event: ClassVar[bool] = True
    reports_submitted_first: ClassVar[bool] = True
    keeps_output_after_stop: ClassVar[bool] = True

    __slots__ = ("_counts", "_given", "_sequence", "_taken", "_tools")

    def __init__(self, number: int, taken: Collection[str]) -> None:
        self._counts = {name: _last(name, taken) for name in ("assistant-output", "tool-result")}
        self._sequence = 0
        self._taken = taken
        self._given: set[str] = set()
        self._tools: dict[str, tuple[str, int]] = {}

    def stage(self) -> Label:
        return self._counted("assistant-output")

    def beside(self, artifact_id: str) -> str:
        return f"{artifact_id}-own" if artifact_id in self._given else artifact_id

    def summary(self, tool: str) -> Label:
        return self._counted("tool-result")

    def _counted(self, what: str) -> Label:
        self._counts[what] += 1
        while (artifact_id := f"{what}-{self._counts[what]:04d}") in self._taken:
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
        while artifact_id in self._taken or artifact_id in self._given:
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
    return _STYLES[profile.artifact_layout]


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
    """The highest number that an artifact of that name has."""
    pattern = re.compile(rf"{name}-(\d{{1,9}})")
    found = (pattern.fullmatch(artifact_id) for artifact_id in taken)
    return max((int(match[1]) for match in found if match), default=0)
