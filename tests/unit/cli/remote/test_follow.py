"""A task until it settles, on agents that make it hard."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from trunkline.cli.remote.follow import TaskFollower, View
from trunkline.cli.remote.invocation import Invocation
from trunkline.cli.remote.screen import PlainScreen
from trunkline.model.calls import SendMessageRequest
from trunkline.model.card import AgentCapabilities, AgentCard
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.remote import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    RemoteAgent,
    RemoteError,
    StreamItem,
    Target,
)
from trunkline.testing import FakeClock

TARGET = Target(url="http://a.test")
WORKING, DONE, ASKS = TaskState.WORKING, TaskState.COMPLETED, TaskState.INPUT_REQUIRED
REQUEST = SendMessageRequest(
    message=Message(message_id="m", role=Role.USER, parts=(Part(text="x"),))
)


def task(state: TaskState) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state))


def moved(state: TaskState) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))


class Agent:
    """Answers as it is told: `streams` one list for each stream, an error where it breaks."""

    target = TARGET

    def __init__(
        self,
        *,
        streams: list[list[StreamItem | RemoteError]] | None = None,
        states: list[TaskState] | None = None,
        ends: bool = False,
    ) -> None:
        self._streams = streams
        self._ends = ends
        self._states = states or []
        self.asked: list[str] = []
        self.requests: list[SendMessageRequest] = []

    def card(self) -> AgentCard:
        return AgentCard(
            name="A",
            description="",
            supported_interfaces=(),
            version="",
            capabilities=AgentCapabilities(streaming=self._streams is not None),
            default_input_modes=(),
            default_output_modes=(),
            skills=(),
        )

    async def send(self, request: SendMessageRequest) -> Task | Message:
        self.asked.append("send")
        self.requests.append(request)
        return task(self._states.pop(0))

    async def get(self, task_id: str) -> Task:
        self.asked.append("get")
        return task(self._states.pop(0))

    def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]:
        self.asked.append("stream")
        return self._items()

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        self.asked.append("subscribe")
        return self._items()

    async def _items(self) -> AsyncGenerator[StreamItem, None]:
        assert self._streams is not None
        for item in self._streams.pop(0):
            if isinstance(item, RemoteError):
                raise item
            yield item
        # An agent that keeps its stream open although the task waits.
        if not self._ends:
            await asyncio.get_running_loop().create_future()


class Items(View):
    def __init__(self) -> None:
        super().__init__(PlainScreen(shows_text=False))
        self.items: list[StreamItem] = []

    def item(self, item: StreamItem) -> None:
        self.items.append(item)

    def wait(self) -> None:
        pass


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def following(agent: Agent, clock: FakeClock | None = None) -> TaskFollower:
    call = Invocation(named="http://a.test", target=TARGET)
    return TaskFollower(
        cast(RemoteAgent, agent), agent.card(), call, Items(), clock=clock or FakeClock()
    )


async def test_an_agent_that_does_not_stream_is_asked_again_less_and_less_often() -> None:
    agent, clock = Agent(states=[WORKING, WORKING, WORKING, DONE]), FakeClock()
    follower = following(agent, clock)
    async with asyncio.TaskGroup() as group:
        _ = group.create_task(follower.send(REQUEST, waits=True, streams=True, before=None))
        for pause_s in (0.5, 0.75):
            await clock.wait_until_sleeping()
            asked = len(agent.asked)
            await clock.advance(pause_s - 0.01)
            assert len(agent.asked) == asked
            await clock.advance(0.01)
    assert agent.asked == ["send", "get", "get", "get"]
    assert follower.progress.state is DONE


async def test_a_stream_that_stays_open_while_the_task_waits_is_left() -> None:
    agent = Agent(streams=[[task(WORKING), moved(ASKS)]])
    follower = following(agent)
    await follower.send(REQUEST, waits=True, streams=True, before=None)
    assert follower.progress.state is ASKS


async def test_the_question_that_is_being_answered_is_not_the_end() -> None:
    agent = Agent(streams=[[task(ASKS), moved(WORKING), moved(DONE)]])
    follower = following(agent)
    await follower.send(REQUEST, waits=True, streams=True, before=task(ASKS))
    assert follower.progress.state is DONE


async def test_silence_leads_to_a_new_connection() -> None:
    silent = PeerTimeout("silent", reason="IDLE_TIMEOUT")
    agent = Agent(streams=[[task(WORKING), silent], [silent], [task(WORKING), moved(DONE)]])
    await following(agent).send(REQUEST, waits=True, streams=True, before=None)
    assert agent.asked == ["stream", "subscribe", "subscribe"]


async def test_a_stream_that_ends_too_early_is_no_reason_to_ask_without_a_pause() -> None:
    reply = Message(message_id="m", role=Role.AGENT, parts=(Part(text="?"),))
    agent = Agent(streams=[[reply], [moved(DONE)]], states=[WORKING, WORKING], ends=True)
    clock = FakeClock()
    follower = following(agent, clock)
    async with asyncio.TaskGroup() as group:
        _ = group.create_task(follower.watch("t"))
        await clock.wait_until_sleeping()
        assert agent.asked == ["get", "subscribe", "get"]
        await clock.advance(0.5)
    assert agent.asked == ["get", "subscribe", "get", "subscribe"]


async def test_silence_before_there_is_a_task_is_an_error() -> None:
    agent = Agent(streams=[[PeerTimeout("silent", reason="IDLE_TIMEOUT")]])
    with pytest.raises(PeerTimeout):
        await following(agent).send(REQUEST, waits=True, streams=True, before=None)


async def test_a_task_that_ended_before_it_could_be_followed() -> None:
    refusal = PeerRefused("it has ended", reason="UNSUPPORTED_OPERATION")
    agent = Agent(streams=[[refusal]], states=[WORKING, DONE])
    follower = following(agent)
    await follower.watch("t")
    assert agent.asked == ["get", "subscribe", "get"]
    assert follower.progress.state is DONE


async def test_a_task_that_is_settled_is_only_shown() -> None:
    agent = Agent(streams=[], states=[ASKS])
    await following(agent).watch("t")
    assert agent.asked == ["get"]


async def test_without_waiting_the_first_answer_is_enough() -> None:
    agent = Agent(streams=[], states=[WORKING])
    await following(agent).send(REQUEST, waits=False, streams=True, before=None)
    assert agent.asked == ["send"]
    [request] = agent.requests
    assert request.configuration is not None
    assert request.configuration.return_immediately
    assert request.message == REQUEST.message


async def test_an_answer_that_is_too_large_is_an_error_that_names_the_task() -> None:
    def piece() -> TaskArtifactUpdateEvent:
        found = Artifact(artifact_id="a", parts=(Part(text="x" * 1000),))
        return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=found, append=True)

    agent = Agent(streams=[[task(WORKING), *(piece() for _ in range(100))]])
    call, view = Invocation(named="http://a.test", target=TARGET), Items()
    follower = TaskFollower(
        cast(RemoteAgent, agent), agent.card(), call, view, keeps_artifacts=False, max_bytes=20_000
    )
    with pytest.raises(BadPeerAnswer, match="larger than 20000 bytes") as refused:
        await follower.send(REQUEST, waits=True, streams=True, before=None)
    assert (refused.value.reason, refused.value.task_id) == ("TOO_LARGE", "t")
    # As much as was allowed, and not all that came.
    assert 15 <= len(view.items) <= 20
    assert follower.progress.artifacts() == ()
