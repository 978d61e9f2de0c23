"""`history_scope`: whether the history of a task is its own, or that of its plan or objective.

The OPT extension names plans and objectives in the metadata of messages. A message that asks for
it (`opt/v1/historyScope`) widens the history of its task, for callers who use the extension.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from trunkline.model.values import Message, Role

OPT: Final = "https://github.com/zeroasterisk/a2a-opt/v1"
_WANTED: Final = "opt/v1/historyScope"
_IDS: Final = {"plan": "opt/v1/planId", "objective": "opt/v1/objectiveId"}


class HistoryScope(Struct, frozen=True):
    """The tasks of a caller whose messages have this id under this key of their metadata."""

    key: str
    id: str

    def has(self, history: Iterable[Message]) -> bool:
        return any(metadata.get(self.key) == self.id for metadata in _told(history))


def history_scope(history: Iterable[Message]) -> HistoryScope | None:
    """The scope that the latest message with `opt/v1/historyScope` asks for; None means the task
    alone."""
    found: HistoryScope | None = None
    for metadata in _told(history):
        if _WANTED not in metadata:
            continue
        wanted = metadata[_WANTED]
        key = _IDS.get(wanted) if isinstance(wanted, str) else None
        id = metadata.get(key) if key is not None else None
        found = HistoryScope(key, id) if key is not None and isinstance(id, str) and id else None
    return found


def _told(history: Iterable[Message]) -> Iterable[dict[str, Any]]:
    """The metadata of the caller's messages. Messages of the agent do not choose the scope."""
    return [each.metadata for each in history if each.role is Role.USER and each.metadata]
