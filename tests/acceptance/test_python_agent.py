"""An agent written in Python, within a gateway that is a process: the trials of all agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway
from tests.acceptance.trials import Subject, Trial, cases

CODE = """
import asyncio

from trunkline import agent


@agent
async def helper(turn):
    if turn.asked is not None:
        yield f"So it is {turn.text}."
    elif turn.text == "ask":
        yield turn.ask("Which colour?")
    elif turn.text == "hang":
        yield "begun"
        await asyncio.Event().wait()
    elif turn.text == "crash":
        raise RuntimeError("a secret in /etc")
    elif turn.text == "tool":
        call = turn.tool("search")
        yield call
        yield call.result({"hits": 2})
        yield "found"
    else:
        yield f"You said {turn.text}"
"""

SUBJECTS = {
    "python": Subject(
        agent="test/helper",
        slow="hang",
        fail="crash",
        reason="The agent failed while working on this task",
        tool="tool",
        tool_name="search",
        ask="ask",
        asks="Which colour?",
        answers=("blue",),
        late=("TASK_STATE_COMPLETED", "So it is blue."),
        kill=None,
    )
}


@pytest.fixture(scope="module")
def gateway(gateways: Make, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("python")
    (folder / "helper.py").write_text(CODE)
    table = '[agents."test/helper"]\nbackend = { kind = "python", target = "helper.py" }\n'
    made = gateways(agents=table, folder=folder).start()
    yield made
    made.clean_up()


@pytest.mark.parametrize(("subject", "trial"), cases(SUBJECTS))
async def test_agent(gateway: Gateway, subject: Subject, trial: Trial) -> None:
    await trial(gateway, subject)
