"""A model as an agent: gateway and model are real processes, and either may die."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import Gateway
from tests.acceptance.model_process import ModelProcess, model_process

from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.values import (
    TERMINAL,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    text_of,
)
from trunkline.remote import RemoteAgent, connect

AGENTS = """
[agents."test/model"]
name = "Model"
default = true
input_modes = ["text/plain", "image/png"]
[agents."test/model".backend]
kind = "openai"
base_url = "{url}/v1"
model = "fake-1"
api_key = "${{MODEL_KEY}}"
system_prompt = "Be brief."
tools = ["remote_agent"]

[agents."test/echo"]
name = "Echo"
backend = {{ kind = "echo" }}

[targets.helper]
base_url = "{helper}"
"""
KEY = "sk-of-the-real-process"


@pytest.fixture
def model() -> Iterator[ModelProcess]:
    with model_process() as model:
        yield model.start("--api-key", KEY)


def model_gateway(make: Make, model: ModelProcess, *, helper: str) -> Gateway:
    made = make(agents=AGENTS.format(url=model.url, helper=helper))
    made.environment = {"MODEL_KEY": KEY}
    return made.start()


@pytest.fixture
def gateway(make: Make, model: ModelProcess) -> Gateway:
    return model_gateway(make, model, helper="http://127.0.0.1:9")


@pytest.fixture
async def agent(gateway: Gateway) -> AsyncIterator[RemoteAgent]:
    async with connect(gateway.url) as agent:
        yield agent


def request(text: str, *, context: str = "", waits: bool = True) -> SendMessageRequest:
    message = Message(
        message_id=f"m-{text}", role=Role.USER, parts=(Part(text=text),), context_id=context
    )
    return SendMessageRequest(
        message=message,
        configuration=SendMessageConfiguration(return_immediately=not waits),
    )


async def send(agent: RemoteAgent, given: SendMessageRequest) -> Task:
    task = await agent.send(given)
    assert isinstance(task, Task)
    return task


async def ended(agent: RemoteAgent, task_id: str) -> Task:
    """The task, as soon as it is over."""

    async def is_over() -> bool:
        return (await agent.get(task_id)).status.state in TERMINAL

    await eventually(is_over)
    return await agent.get(task_id)


def said(task: Task) -> str:
    return text_of(task.status.message.parts) if task.status.message is not None else ""


async def test_reply_with_what_was_said_before(agent: RemoteAgent, model: ModelProcess) -> None:
    first = await send(agent, request("hello there"))
    assert (first.status.state, said(first)) == (TaskState.COMPLETED, "hello there")
    assert first.status.message is not None
    assert (first.status.message.metadata or {})["usage"]["outputTokens"] == 2
    await send(agent, request("and again", context=first.context_id))
    told = [(m["role"], m["content"]) for m in model.requests()[-1]["body"]["messages"]]
    assert told == [
        ("system", "Be brief."),
        ("user", "hello there"),
        ("assistant", "hello there"),
        ("user", "and again"),
    ]


async def test_stream(agent: RemoteAgent) -> None:
    events = [event async for event in agent.stream(request("SLOW 5 30"))]
    pieces = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    assert "".join(text_of(piece.artifact.parts) for piece in pieces) == "w0 w1 w2 w3 w4"
    assert len(pieces) > 2
    assert isinstance(events[-1], TaskStatusUpdateEvent)
    assert events[-1].status.state is TaskState.COMPLETED


async def test_a_tool_delegates_to_another_agent(make: Make, model: ModelProcess) -> None:
    helper = make(agents='[agents."test/helper"]\nname = "H"\nbackend = { kind = "echo" }\n')
    gateway = model_gateway(make, model, helper=helper.start().url)
    call = 'TOOL remote_agent {"action": "send", "target_alias": "helper", "parts": [%s]}'
    async with connect(gateway.url) as agent:
        task = await send(agent, request(call % '{"kind": "text", "text": "over to you"}'))
    assert task.status.state is TaskState.COMPLETED, said(task)
    assert said(task).startswith("remote_agent gave: ")
    assert "over to you" in said(task)
    assert any("remote_agent" in artifact.name for artifact in task.artifacts)


async def test_cancel_closes_the_connection_to_the_model(
    agent: RemoteAgent, model: ModelProcess
) -> None:
    running = await send(agent, request("ENDLESS 10", waits=False))
    model.wait_for(text="ENDLESS 10", outcome="answering")
    canceled = await agent.cancel(running.id)
    assert canceled.status.state is TaskState.CANCELED
    model.wait_for(text="ENDLESS 10", outcome="closed")


async def test_failure(agent: RemoteAgent, gateway: Gateway) -> None:
    failed = await send(agent, request("FAIL 401"))
    assert (failed.status.state, said(failed)) == (
        TaskState.FAILED,
        "The model server does not let the gateway in.",
    )
    assert "Check api_key." in gateway.stderr
    assert KEY not in gateway.stderr
    refused = await send(agent, request("FILTER"))
    assert refused.status.state is TaskState.REJECTED


async def test_the_model_dies_in_the_middle(
    agent: RemoteAgent, gateway: Gateway, model: ModelProcess
) -> None:
    running = await send(agent, request("ENDLESS 10", waits=False))
    model.wait_for(text="ENDLESS 10", outcome="answering")
    model.kill()
    failed = await ended(agent, running.id)
    assert (failed.status.state, said(failed)) == (
        TaskState.FAILED,
        "The model server broke off in the middle of its answer.",
    )
    gone = await send(agent, request("anybody?"))
    assert said(gone) == "The model server cannot be reached."
    async with connect(gateway.agent_url("test/echo")) as other:
        assert said(await send(other, request("still here"))) == "still here"
    model.start("--api-key", KEY)
    assert said(await send(agent, request("back again"))) == "back again"


async def test_the_gateway_is_restarted(
    agent: RemoteAgent, gateway: Gateway, model: ModelProcess
) -> None:
    first = await send(agent, request("remember me"))
    running = await send(agent, request("ENDLESS 20", context=first.context_id, waits=False))
    queued = await send(agent, request("later", context=first.context_id, waits=False))
    model.wait_for(text="ENDLESS 20", outcome="answering")
    gateway.kill()
    model.wait_for(text="ENDLESS 20", outcome="closed")
    gateway.start()
    async with connect(gateway.url) as again:
        failed = await ended(again, running.id)
        assert failed.status.state is TaskState.FAILED
        assert "restart" in said(failed)
        went_on = await ended(again, queued.id)
        assert (went_on.status.state, said(went_on)) == (TaskState.COMPLETED, "later")
    told = [m["content"] for m in model.wait_for(text="later")["body"]["messages"]]
    assert told[:3] == ["Be brief.", "remember me", "remember me"]
