"""The sentences of H-11, on the way from a gate or a backend to the task of the caller."""

import pytest
from tests.bindings.clients import message
from tests.bindings.world import HANDLE, open_world

from trunkline.backends.command.settings import CommandBackend
from trunkline.model.calls import Refusal
from trunkline.ports.gate import Admission, Attempt, Usage
from trunkline.settings.profiles import PRESETS


class Refuses:
    """A gate that refuses every message."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        return self._refusal

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        pass

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        pass


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (
            Refusal("budget_exhausted", "Used up.", limit=1000),
            f"agent @{HANDLE} hit its daily budget (1000)",
        ),
        (Refusal("busy", "Busy."), "agent is processing a turn for another caller"),
    ],
    ids=["budget", "claim"],
)
async def test_h11_a_refused_message_is_a_failed_task(refusal: Refusal, told: str) -> None:
    async with open_world(**PRESETS["hub"], gate=Refuses(refusal)) as world:
        task = await world.client("jsonrpc-1.0").run(message("say hello"))
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert task["status"]["message"]["parts"] == [{"text": told}]
        assert task["status"]["message"]["metadata"]["reason"] == refusal.reason
        assert not world.agent.turns


async def test_h11_an_agent_whose_program_is_missing_is_offline() -> None:
    backend = CommandBackend(command=("/nonexistent/agent",))
    async with open_world(**PRESETS["hub"], backend=backend) as world:
        task = await world.client("jsonrpc-1.0").run(message("hello"))
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert task["status"]["message"]["parts"] == [{"text": "agent channel offline"}]
