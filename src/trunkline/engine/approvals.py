"""Tools that wait for a person: the result of the call says so, and the task waits too."""

from typing import Any, Final

from trunkline.model.outputs import ToolCalled

_WAITING: Final = frozenset({"approval-pending", "needs_approval"})


def approval_asked(called: ToolCalled) -> str | None:
    """What to ask the caller, empty where the tool has no words for it; None when the
    call does not wait for anybody."""
    result = called.data
    if called.phase != "result" or called.is_error or not isinstance(result, dict):
        return None
    request: Any = result.get("requiresApproval")
    if not isinstance(request, dict):
        request = {}
    status = result.get("status")
    is_waiting = isinstance(status, str) and status in _WAITING
    if not is_waiting and request.get("type") != "approval_request":
        return None
    prompt = request.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""
