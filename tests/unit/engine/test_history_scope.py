"""Which history a task asks for, and which tasks belong to it."""

from typing import Any

import pytest

from trunkline.engine.history_scope import HistoryScope, history_scope
from trunkline.model.values import Message, Part, Role

PLAN = HistoryScope("opt/v1/planId", "p")


def message(role: Role = Role.USER, **metadata: Any) -> Message:
    named = {f"opt/v1/{key}": value for key, value in metadata.items()}
    return Message(message_id="m", role=role, parts=(Part(text="x"),), metadata=named or None)


@pytest.mark.parametrize(
    ("history", "scope"),
    [
        ([], None),
        ([message()], None),
        ([message(planId="p")], None),
        ([message(planId="p", historyScope="plan")], PLAN),
        (
            [message(objectiveId="o", historyScope="objective")],
            HistoryScope("opt/v1/objectiveId", "o"),
        ),
        # The latest one to say anything decides.
        ([message(planId="p", historyScope="plan"), message(historyScope="task")], None),
        ([message(planId="p", historyScope="plan"), message()], PLAN),
        # The agent has no say in it, and what makes no sense asks for nothing.
        ([message(Role.AGENT, planId="p", historyScope="plan")], None),
        ([message(planId=7, historyScope="plan")], None),
        ([message(planId="", historyScope="plan")], None),
        ([message(planId="p", historyScope=["plan"])], None),
    ],
)
def test_d32_what_a_task_asks_for(history: list[Message], scope: HistoryScope | None) -> None:
    assert history_scope(history) == scope


def test_d32_which_tasks_belong_to_a_plan() -> None:
    assert PLAN.has([message(), message(planId="p")])
    assert not PLAN.has([message(planId="q"), message(Role.AGENT, planId="p")])
