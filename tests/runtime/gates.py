"""A gate that remembers what it was asked and told."""

import asyncio

from trunkline.model.calls import Refusal
from trunkline.model.values import TaskState, text_of
from trunkline.ports.gate import Admission, Attempt, Usage


class RecordingGate:
    def __init__(self) -> None:
        # What `admit` gives back or raises.
        self.decision: Admission | Refusal | Exception = Admission()
        self.admitted: list[Attempt] = []
        self.recorded: list[tuple[Attempt, Refusal | None]] = []
        self.settled: list[tuple[Attempt, Usage]] = []
        # Raised by `record` and `settle`, after they remembered.
        self.error: Exception | None = None
        # The texts of messages that wait until their event is set.
        self.held: dict[str, asyncio.Event] = {}

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        self.admitted.append(attempt)
        held = self.held.get(text_of(attempt.message.parts))
        if held is not None:
            await held.wait()
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        self.recorded.append((attempt, refusal))
        self._fail()

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        self.settled.append((attempt, usage))
        self._fail()

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    @property
    def reasons(self) -> list[str]:
        """For each attempt that was recorded: why it was refused, or nothing."""
        return ["" if refusal is None else refusal.reason for _, refusal in self.recorded]

    @property
    def states(self) -> list[TaskState]:
        return [usage.state for _, usage in self.settled]

    def is_balanced(self) -> bool:
        """Whether each attempt that was admitted was settled once, and each recorded once."""
        passed = [attempt.id for attempt, refusal in self.recorded if refusal is None]
        settled = [attempt.id for attempt, _ in self.settled]
        recorded = [attempt.id for attempt, _ in self.recorded]
        return sorted(passed) == sorted(settled) and len(recorded) == len(set(recorded))


class QuickGate(RecordingGate):
    """It decides from memory, except about the texts that are held."""

    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        if text_of(attempt.message.parts) in self.held:
            return None
        self.admitted.append(attempt)
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision
