"""The whole way: an A2A client, our gateway as a process, and OpenClaw as another."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.openclaw.claws import OLD, TOKEN, Claw
from tests.acceptance.openclaw.conftest import KINDS, MakeClaw, past_the_start
from tests.acceptance.remote import answer_of, ask, collected, folded

from trunkline.model.values import Message, Task, TaskState, text_of
from trunkline.remote import RemoteAgent, StreamItem, connect

QUESTION = json.dumps(
    {
        "questions": [
            {
                "id": "color",
                "header": "Color",
                "question": "Which colour?",
                "options": [
                    {"label": "Red", "description": "warm"},
                    {"label": "Blue", "description": "cold"},
                ],
            }
        ]
    }
)


def config(claw: Claw) -> str:
    return f"""
[server]
drain_s = 0.5
[agents."test/claw"]
name = "Claw"
[agents."test/claw".backend]
kind = "openclaw"
url = "{claw.url}"
token = "${{CLAW_TOKEN}}"
unreachable_s = 120
"""


@pytest.fixture(scope="module")
def shared(claw: Claw, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that no test ends."""
    yield from _started(claw, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def ours(claw: Claw, tmp_path: Path) -> Iterator[Gateway]:
    """One that the test may end."""
    yield from _started(claw, tmp_path)


def _started(claw: Claw, folder: Path) -> Iterator[Gateway]:
    with gateway(folder, config(claw)) as made:
        made.environment = {"CLAW_TOKEN": TOKEN}
        made.start("--data", str(folder / "data"))
        yield made


@pytest.fixture
async def agent(shared: Gateway) -> AsyncIterator[RemoteAgent]:
    async with connect(shared.agent_url("test/claw")) as agent:
        yield agent


def task_of(answer: Task | Message) -> Task:
    assert isinstance(answer, Task)
    return answer


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


async def test_reply(agent: RemoteAgent) -> None:
    task = task_of(await agent.send(ask("hello")))
    assert task.status.state is TaskState.COMPLETED
    assert answer_of(task) == "hello"


async def test_stream(agent: RemoteAgent) -> None:
    items = await collected(agent.stream(ask("SLOW 8 150")))
    assert folded(items) == words(8)
    assert len(items) > 5


async def test_tool(agent: RemoteAgent) -> None:
    task = task_of(await agent.send(ask('TOOL exec {"command": "echo hi"}')))
    assert task.status.state is TaskState.COMPLETED
    assert any("exec" in artifact.name for artifact in task.artifacts)
    assert task.status.message is not None
    assert text_of(task.status.message.parts).strip() == "exec gave: hi"


async def test_input_required_and_back(agent: RemoteAgent, claw: Claw) -> None:
    if not claw.has_questions:
        pytest.skip(f"{claw.version} asks no questions")
    task = task_of(await agent.send(ask(f"TOOL ask_user {QUESTION}")))
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert task.status.message is not None
    assert "Which colour?" in text_of(task.status.message.parts)
    reply = ask("blue", task_id=task.id, context_id=task.context_id)
    answered = task_of(await agent.send(reply))
    assert answered.status.state is TaskState.COMPLETED
    assert '"Blue"' in answer_of(answered)


async def test_an_answer_after_our_restart(ours: Gateway, claw: Claw) -> None:
    if not claw.has_questions:
        pytest.skip(f"{claw.version} asks no questions")
    async with connect(ours.agent_url("test/claw")) as agent:
        task = task_of(await agent.send(ask(f"TOOL ask_user {QUESTION}")))
        assert task.status.state is TaskState.INPUT_REQUIRED
    await asyncio.to_thread(ours.kill)
    await asyncio.to_thread(ours.start, "--data", str(ours.folder / "data"))
    async with connect(ours.agent_url("test/claw")) as agent:
        reply = ask("blue", task_id=task.id, context_id=task.context_id)
        answered = task_of(await agent.send(reply))
        assert answered.status.state is TaskState.COMPLETED
        assert '"Blue"' in answer_of(answered)


async def test_a_paused_task_is_canceled(agent: RemoteAgent, claw: Claw) -> None:
    if not claw.has_questions:
        pytest.skip(f"{claw.version} asks no questions")
    task = task_of(await agent.send(ask(f"TOOL ask_user {QUESTION}")))
    canceled = await agent.cancel(task.id)
    assert canceled.status.state is TaskState.CANCELED
    # The session is not held up by the question.
    async with asyncio.timeout(claw.slow_s):
        after = task_of(await agent.send(ask("next", context_id=task.context_id)))
    assert answer_of(after) == "next"


async def test_cancel_in_the_middle(agent: RemoteAgent, claw: Claw) -> None:
    task, _ = await begun(agent, "SLOW 600 100")
    canceled = await agent.cancel(task.id)
    assert canceled.status.state is TaskState.CANCELED
    async with asyncio.timeout(claw.slow_s):
        after = task_of(await agent.send(ask("next", context_id=task.context_id)))
    assert answer_of(after) == "next"


async def test_failure(agent: RemoteAgent) -> None:
    task = task_of(await agent.send(ask("FAIL 400")))
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert "LLM request failed" in text_of(task.status.message.parts)


async def test_our_gateway_killed_in_the_middle(ours: Gateway) -> None:
    async with connect(ours.agent_url("test/claw")) as agent:
        task, _ = await begun(agent, "SLOW 40 100")
    await asyncio.to_thread(ours.kill)
    await asyncio.to_thread(ours.start, "--data", str(ours.folder / "data"))
    assert await ended(ours, task.id) == (TaskState.COMPLETED, words(40))


async def test_our_gateway_restarts(ours: Gateway) -> None:
    async with connect(ours.agent_url("test/claw")) as agent:
        task, _ = await begun(agent, "SLOW 50 100")
    ours.terminate()
    # It lets go of the run rather than to wait for it or to end it.
    assert await asyncio.to_thread(ours.wait) == 0
    await asyncio.to_thread(ours.start, "--data", str(ours.folder / "data"))
    assert await ended(ours, task.id) == (TaskState.COMPLETED, words(50))


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, make_claw: MakeClaw) -> Iterator[Claw]:
    made = make_claw(request.param)
    made.start()
    yield made
    made.kill()


async def test_openclaw_killed_in_the_middle(own: Claw, tmp_path: Path) -> None:
    for ours in _started(own, tmp_path):
        async with connect(ours.agent_url("test/claw")) as agent:
            task, _ = await begun(agent, "SLOW 600 100")
            await past_the_start(own)
            await asyncio.to_thread(own.kill)
            await asyncio.to_thread(own.start)
            state, text = await ended(ours, task.id)
            after = task_of(await agent.send(ask("still there")))
        if own.version == OLD:
            assert state is TaskState.FAILED
        else:
            assert state is TaskState.COMPLETED
            assert "interrupted by a gateway restart" in text
        assert answer_of(after) == "still there"


async def begun(agent: RemoteAgent, text: str) -> tuple[Task, list[StreamItem]]:
    """A task of which some text has been seen."""
    items: list[StreamItem] = []
    async for item in agent.stream(ask(text)):
        items.append(item)
        if len(folded(items).split()) >= 2:
            break
    first = items[0]
    assert isinstance(first, Task)
    return first, items


async def ended(ours: Gateway, task_id: str) -> tuple[TaskState, str]:
    """How the task ends, and the answer that it has then."""
    async with connect(ours.agent_url("test/claw")) as agent:
        while True:
            task = await agent.get(task_id)
            if task.status.state not in (TaskState.SUBMITTED, TaskState.WORKING):
                return task.status.state, answer_of(task)
            await asyncio.sleep(0.2)
