"""Agents of other frameworks behind a gateway that is a process: the trials of all agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.model_process import model_process
from tests.acceptance.trials import Subject, Trial, cases
from tests.frameworks.test_frameworks_md import IMPORTS_S

pytestmark = pytest.mark.frameworks
HERE = Path(__file__).parent
FAILED = "The agent failed while working on this task"

SUBJECTS = {
    "langgraph": Subject(
        agent="test/langgraph",
        slow="hang",
        fail="crash",
        reason=FAILED,
        tool="use hammer",
        tool_name="search",
        ask="ask",
        asks="Which colour?",
        answers=("blue",),
        # Without a checkpointer the graph begins again, with all that was said.
        late=("TASK_STATE_COMPLETED", "blue"),
        history="everything",
        kill=None,
    ),
    "pydantic-ai": Subject(
        agent="test/pydantic-ai",
        slow="SAY begun\nHANG",
        fail="FAIL 400",
        reason=FAILED,
        tool='TOOL stock {"item": "walrus"}',
        tool_name="stock",
        kill=None,
    ),
    "google-adk": Subject(
        agent="test/google-adk",
        slow="hang",
        fail="fail",
        reason="The agent's model gave no answer.",
        tool="use hammer",
        tool_name="search",
        history="everything",
        kill=None,
    ),
}
TARGETS = {
    "langgraph": HERE / "chat_graph.py:graph",
    "pydantic-ai": HERE.parents[1] / "examples" / "frameworks" / "pydantic_agent.py",
    "google-adk": HERE / "fake_llm.py",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    tables = [
        f'[agents."test/{name}"]\nbackend = {{ kind = "python", target = "{target}" }}\n'
        for name, target in TARGETS.items()
    ]
    with (
        pytest.MonkeyPatch.context() as patch,
        model_process() as model,
        gateway(tmp_path_factory.mktemp("frameworks"), "".join(tables)) as made,
    ):
        made.environment = {"MODEL_URL": f"{model.start().url}/v1"}
        # To import all three takes its time.
        patch.setattr("tests.acceptance.gateway.DEADLINE_S", IMPORTS_S)
        yield made.start()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("subject", "trial"), cases(SUBJECTS))
async def test_agent(served: Gateway, subject: Subject, trial: Trial) -> None:
    await trial(served, subject)
