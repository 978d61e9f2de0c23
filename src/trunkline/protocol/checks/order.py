"""`StreamChecker`: whether the events of a stream come in an order that A2A allows.

It takes one event at a time, so that a stream can be judged while it is under way.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.calls import Operation
from trunkline.model.findings import Finding
from trunkline.model.values import INTERRUPTED, TERMINAL, TaskState
from trunkline.protocol import v03_types as v03
from trunkline.protocol.checks.findings import CHECKS, Report, below, shown
from trunkline.protocol.checks.messages import (
    NOT_A2A,
    Binding,
    Dialect,
    Sent,
    inspect,
    is_of_hub,
    operation_of,
)
from trunkline.protocol.checks.shapes_v03 import WRAPPERS

_SSE: Final = "Server-sent events"
# Ids of artifacts that one stream may name; more are not told apart.
_MAX_ARTIFACTS: Final = 10_000

_READ: Final = ("", "message", "error")

EventKind = Literal["task", "message", "statusUpdate", "artifactUpdate"]
_KIND_OF: Final[dict[str, EventKind]] = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}


class _Seen(Struct):
    """An artifact of the stream."""

    is_complete: bool = False


class StreamChecker:
    """Feed it the events of one stream in their order; each call returns the new findings. Their
    pointers begin with the number of the event, from 0."""

    def __init__(
        self,
        *,
        binding: Binding = "jsonrpc",
        version: Dialect = "1.0",
        operation: str = "SendStreamingMessage",
        is_resumed: bool = False,
        checks_content: bool = True,
    ) -> None:
        """`is_resumed`: the request had Last-Event-ID, so the stream begins in the middle. Without
        `checks_content` only the order counts."""
        self._sent = Sent(direction="event", binding=binding, version=version, operation=operation)
        self._operation = operation_of(operation)
        self._is_resumed = is_resumed
        self._checks_content = checks_content
        self._report = Report()
        self._number = 0
        self._rule = f"A2A {version}"
        self._first: EventKind | None = None
        self._task_id: str | None = None
        self._context_id: str | None = None
        self._state: TaskState | None = None
        self._artifacts: dict[str, _Seen] = {}
        self._rpc_id: Any = None
        self._has_rpc_id = False
        self._event_id: int | None = None
        self._is_hub = version == "hub"
        # Why nothing may follow; empty while something may.
        self._over = ""

    @property
    def has_errors(self) -> bool:
        return self._report.has_errors

    @property
    def findings(self) -> list[Finding]:
        """All findings so far."""
        return self._report.findings()

    def feed(self, data: Any, *, event_id: str = "", event: str = "") -> list[Finding]:
        """`data` is the text, the bytes or the JSON of the event. Never raises."""
        count, at = self._report.count, below("", self._number)
        self._number += 1
        self._report.begin_message()
        self._look(data, event_id, event, at)
        return self._report.since(count)

    def close(self) -> list[Finding]:
        """The stream has ended, and not because its connection was lost."""
        count = self._report.count
        if self._is_hub:
            return []
        if self._number == 0:
            self._report.error(f"{self._rule} streams", "", "the stream has no event")
        elif self._first is not None and self._first != "message" and not self._over:
            self._close_of_task()
        return self._report.since(count)

    def _close_of_task(self) -> None:
        if self._is_0_3:
            text = "the stream ended without an event that has final: true"
            self._report.warning("A2A 0.3 §7.2.2", "", text)
        elif self._state is not None and self._state not in TERMINAL | INTERRUPTED:
            text = f"the stream ended while the task was in {self._state}"
            self._report.warning("A2A 1.0 §3.1.2", "", text)

    @property
    def _is_0_3(self) -> bool:
        return self._sent.version == "0.3"

    @property
    def _streaming(self) -> str:
        return "A2A 0.3 streams" if self._is_0_3 else "A2A 1.0 §3.1.2"

    def _look(self, data: Any, event_id: str, event: str, at: str) -> None:
        report = self._report
        if self._is_hub:
            if self._number == 1:
                report.note(CHECKS, "", NOT_A2A)
            return
        self._check_event_id(event_id, at)
        if event not in _READ:
            # Clients of A2A read events without a name alone; `error` is what SDKs expect.
            report.note(_SSE, at, f"A2A has no event named {shown(event)}, so readers ignore it")
            return
        probe = Report()
        tree = inspect(
            report if self._checks_content else probe, replace(self._sent, body=data), at
        )
        if is_of_hub(tree):
            self._is_hub = True
            if not self._checks_content:
                report.note(CHECKS, at, NOT_A2A)
            return
        value, where = self._unwrapped(tree, at)
        if self._over:
            # A task may be sent once more, as it ended, before the stream closes (11.7).
            if self._is_same_end(value):
                return
            report.error(self._streaming, at, f"nothing may follow {self._over}")
            return
        if self._is_error(tree, event):
            self._over = "an error"
            return
        found = _kind_and_value(value, is_0_3=self._is_0_3)
        if found is None:
            return
        kind, inner, step = found
        self._take(kind, inner, where + step)

    def _unwrapped(self, tree: Any, at: str) -> tuple[Any, str]:
        if self._sent.binding != "jsonrpc" or not isinstance(tree, dict):
            return tree, at
        id = tree.get("id")
        if self._has_rpc_id and not _is_same(id, self._rpc_id):
            self._report.error(
                "JSON-RPC 2.0 §5",
                below(at, "id"),
                f"the id is {shown(id)}, and that of the events before {shown(self._rpc_id)}",
            )
        elif not self._has_rpc_id:
            self._rpc_id, self._has_rpc_id = id, True
        return tree.get("result"), below(at, "result")

    def _is_error(self, tree: Any, event: str) -> bool:
        if event == "error":
            return True
        return isinstance(tree, dict) and tree.get("error") is not None

    def _check_event_id(self, event_id: str, at: str) -> None:
        if not event_id or len(event_id) > 18 or not (event_id.isascii() and event_id.isdigit()):
            return
        number = int(event_id)
        if self._event_id is not None and number <= self._event_id:
            text = f"the id {number} does not rise: the one before was {self._event_id}"
            self._report.warning(_SSE, at, text)
        self._event_id = number

    def _is_same_end(self, value: Any) -> bool:
        found = _kind_and_value(value, is_0_3=self._is_0_3)
        if found is None or self._is_0_3 or self._state is None:
            return False
        kind, inner, _ = found
        return kind == "task" and _state_of(inner) is self._state

    def _take(self, kind: EventKind, value: dict[str, Any], at: str) -> None:
        report = self._report
        is_first, self._first = self._first is None, self._first or kind
        if is_first:
            self._begin(kind, at)
        elif kind == "message":
            text = "a message stands alone in its stream; a task says things in its status"
            report.error(self._streaming, at, text)
            return
        elif self._first == "message":
            report.error(self._streaming, at, "a stream that is a message has nothing else")
            return
        if kind == "message":
            self._over = "the message of a stream"
            return
        self._check_ids(kind, value, at)
        if kind == "artifactUpdate":
            self._take_artifact(value, at)
            return
        if kind == "task":
            artifacts = value.get("artifacts")
            for each in artifacts if isinstance(artifacts, list) else ():
                self._begin_artifact(each)
        state = _state_of(value)
        if state is not None:
            self._state = state
        if self._is_0_3:
            self._take_final(kind, value, at)
        elif state in TERMINAL:
            self._over = f"the terminal state {state}"

    def _begin(self, kind: EventKind, at: str) -> None:
        is_subscription = self._operation is Operation.SUBSCRIBE_TO_TASK
        if is_subscription and kind == "message":
            self._report.error(f"{self._rule} subscribe", at, "a subscription has events of a task")
        elif kind not in ("task", "message") and not self._is_resumed:
            if not self._is_0_3:
                text = "the first event must be a task or a message"
                self._report.error("A2A 1.0 §3.1.2", at, text)
            elif not is_subscription:
                text = "most streams of 0.3 begin with a task or a message"
                self._report.note("A2A 0.3 streams", at, text)

    def _check_ids(self, kind: EventKind, value: dict[str, Any], at: str) -> None:
        name = "id" if kind == "task" else "taskId"
        given = value.get(name)
        if isinstance(given, str) and given:
            if self._task_id is None:
                self._task_id = given
            elif given != self._task_id:
                text = f"the stream is about the task {shown(self._task_id)}, not {shown(given)}"
                self._report.error(self._streaming, below(at, name), text)
        context = value.get("contextId")
        if isinstance(context, str) and context:
            if self._context_id is None:
                self._context_id = context
            elif context != self._context_id:
                text = f"the task is in the context {shown(self._context_id)}"
                self._report.error(self._streaming, below(at, "contextId"), text)

    def _take_artifact(self, value: dict[str, Any], at: str) -> None:
        artifact = value.get("artifact")
        name = artifact.get("artifactId") if isinstance(artifact, dict) else None
        if not isinstance(name, str):
            return
        rule = f"{self._rule} TaskArtifactUpdateEvent"
        known = self._artifacts.get(name)
        if value.get("append") is True:
            if known is None and not self._is_resumed and self._knows_all:
                text = f"appends to the artifact {shown(name)}, which no event has begun"
                self._report.error(rule, below(at, "append"), text)
            elif known is not None and known.is_complete:
                text = f"appends to the artifact {shown(name)} after its last chunk"
                self._report.error(rule, below(at, "append"), text)
        known = self._begin_artifact(artifact)
        if known is not None:
            # An artifact that begins anew replaces the one before.
            known.is_complete = value.get("lastChunk") is True

    @property
    def _knows_all(self) -> bool:
        """Whether all artifacts of the task are known: a subscription of 0.3 begins anywhere."""
        if len(self._artifacts) >= _MAX_ARTIFACTS:
            return False
        return not self._is_0_3 or self._operation is not Operation.SUBSCRIBE_TO_TASK

    def _begin_artifact(self, artifact: Any) -> _Seen | None:
        name = artifact.get("artifactId") if isinstance(artifact, dict) else None
        if not isinstance(name, str):
            return None
        if name not in self._artifacts and len(self._artifacts) >= _MAX_ARTIFACTS:
            return None
        return self._artifacts.setdefault(name, _Seen())

    def _take_final(self, kind: EventKind, value: dict[str, Any], at: str) -> None:
        is_over = self._state in TERMINAL
        if kind == "statusUpdate":
            if value.get("final") is True:
                self._over = "the event with final: true"
            elif is_over:
                text = f"the state is {self._state}, and final is not true"
                self._report.error("A2A 0.3 §7.2.2", below(at, "final"), text)
                self._over = f"the terminal state {self._state}"
        elif is_over:
            self._over = f"the terminal state {self._state}"


def check_order(
    events: Iterable[Any],
    *,
    binding: Binding = "jsonrpc",
    version: Dialect = "1.0",
    operation: str = "SendStreamingMessage",
    is_resumed: bool = False,
    is_complete: bool = True,
    checks_content: bool = True,
) -> list[Finding]:
    """The findings for the events of a stream. An event is its data, or an object with `data`,
    `eventId` and `event`. `is_complete`: the stream was not cut off."""
    checker = StreamChecker(
        binding=binding,
        version=version,
        operation=operation,
        is_resumed=is_resumed,
        checks_content=checks_content,
    )
    for each in events:
        data, event_id, event = _frame(each)
        checker.feed(data, event_id=event_id, event=event)
    if is_complete:
        checker.close()
    return checker.findings


_FRAME: Final = frozenset({"data", "eventId", "event", "ms", "direction", "id"})


def _frame(given: Any) -> tuple[Any, str, str]:
    if not isinstance(given, dict) or "data" not in given or not given.keys() <= _FRAME:
        return given, "", ""
    event_id, event = given.get("eventId", given.get("id")), given.get("event")
    return (
        given["data"],
        str(event_id) if isinstance(event_id, str | int) else "",
        event if isinstance(event, str) else "",
    )


def _kind_and_value(value: Any, *, is_0_3: bool) -> tuple[EventKind, dict[str, Any], str] | None:
    """The kind of an event, the object, and the pointer from the one to the other."""
    if not isinstance(value, dict):
        return None
    kind = value.get("kind")
    if is_0_3 and isinstance(kind, str):
        return None if kind not in _KIND_OF else (_KIND_OF[kind], value, "")
    for name, of_kind in WRAPPERS.items():
        if isinstance(inner := value.get(name), dict):
            return _KIND_OF[of_kind], inner, below("", name)
    return None


def _state_of(value: dict[str, Any]) -> TaskState | None:
    status = value.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    return v03.STATE_OF.get(state) if isinstance(state, str) else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two ids are the same; other values than ids are findings of their own."""
    if not isinstance(one, str | int | float | None) or not isinstance(
        other, str | int | float | None
    ):
        return True
    return type(one) is type(other) and one == other
