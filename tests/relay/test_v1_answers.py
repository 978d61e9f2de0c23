import pytest

from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import Task, TaskState, TaskStatus
from trunkline.relay.v1.answers import check_ids


def task(id: str, context: str = "c") -> Task:
    status = TaskStatus(state=TaskState.COMPLETED, timestamp="2026-01-01T00:00:00.000Z")
    return Task(id=id, context_id=context, status=status)


def test_ids_of_an_agent_are_kept_as_they_are() -> None:
    check_ids(task("Tâche 1/2"))


@pytest.mark.parametrize(
    ("id", "context"), [("", "c"), ("a\0", "c"), ("a", "c\0"), ("a" * 1025, "c")]
)
def test_ids_that_no_store_keeps_are_no_answer(id: str, context: str) -> None:
    with pytest.raises(InvalidAgentResponse):
        check_ids(task(id, context))
