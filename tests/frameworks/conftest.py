"""The suite of ./check --frameworks: our adapters against the packages themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from trunkline.backends.python import Agent, PythonBackend
from trunkline.model.outputs import Output
from trunkline.model.values import Message, Role
from trunkline.ports.backend import TurnRequest
from trunkline.testing import FakeClock, FakeSession, answer_text, run_turn, turn_request


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The packages are there only for those who ask."""
    asked: str = config.option.markexpr
    return None if "frameworks" in asked or collection_path.suffix != ".py" else True


class Conversation:
    """A caller who talks to an agent; the gateway's part of it is as short as can be."""

    def __init__(self, agent: Agent, *, principal: str = "tester") -> None:
        self.session = FakeSession()
        self.backend = PythonBackend(agent, clock=FakeClock())
        self._principal = principal
        self._number = 0
        self._history: tuple[Message, ...] = ()

    def turn(self, *content: Any, **changes: Any) -> TurnRequest:
        self._number += 1
        fields: dict[str, Any] = {
            "run_id": f"run-{self._number}",
            "task_id": f"task-{self._number}",
            "principal": self._principal,
            "session": self.session,
        }
        return turn_request(*content, **(fields | changes))

    async def say(self, *content: Any, **changes: Any) -> list[Output]:
        """A new task; what was said in it is in the transcript of the next."""
        turn = self.turn(*content, **changes)
        outputs = await run_turn(self.backend, turn)
        self.session.told.append(turn.message)
        self.session.say(answer_text(outputs), role=Role.AGENT)
        return outputs

    async def answer(self, asked: TurnRequest, question: str, *content: Any) -> list[Output]:
        """A further message of a task that waits with a question."""
        parts = turn_request(question).message.parts
        told = Message(message_id="question", role=Role.AGENT, parts=parts)
        history = (asked.message, told)
        turn = self.turn(*content, task_id=asked.task_id, history=history)
        return await run_turn(self.backend, turn)


Talk: TypeAlias = Callable[..., Conversation]


@pytest.fixture
def talk() -> Talk:
    return Conversation
