"""I-10: results of tools that wait for a person."""

from typing import Any

import pytest

from trunkline.engine.turn_fold import approval_asked
from trunkline.model.outputs import ToolCalled


def asked(data: Any, *, phase: str = "result", is_error: bool = False) -> str | None:
    return approval_asked(
        ToolCalled(call_id="1", name="shell", phase=phase, data=data, is_error=is_error)
    )


@pytest.mark.parametrize(
    ("data", "question"),
    [
        ({"status": "approval-pending"}, ""),
        ({"status": "needs_approval"}, ""),
        ({"status": "needs_approval", "requiresApproval": {"prompt": " Run it? "}}, "Run it?"),
        ({"requiresApproval": {"type": "approval_request", "prompt": "Go?"}}, "Go?"),
        ({"requiresApproval": {"type": "approval_request", "prompt": 7}}, ""),
        ({"requiresApproval": {"type": "approval_request"}}, ""),
    ],
)
def test_i10_what_waits_for_approval(data: Any, question: str) -> None:
    assert asked(data) == question


@pytest.mark.parametrize(
    "data",
    [
        None,
        "needs_approval",
        [],
        {},
        {"status": "done"},
        {"status": ["needs_approval"]},
        {"requiresApproval": {"type": "other", "prompt": "Go?"}},
        {"requiresApproval": "approval_request"},
        {"result": {"status": "needs_approval"}},
    ],
)
def test_i10_what_does_not(data: Any) -> None:
    assert asked(data) is None


def test_i10_errors_and_other_phases_never_wait() -> None:
    waiting = {"status": "needs_approval"}
    assert asked(waiting, is_error=True) is None
    assert asked(waiting, phase="start") is None
    assert asked(waiting, phase="update") is None
