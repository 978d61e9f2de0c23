"""A turn with an upstream, from the first call to the last output."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from trunkline.backends.a2a import notes
from trunkline.backends.a2a.notes import Kept
from trunkline.backends.a2a.run import Run
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.output_channel import MAX_WAITING
from trunkline.background import BackgroundTasks
from trunkline.model.calls import ListTasksRequest, SendMessageRequest
from trunkline.model.card import AgentCapabilities, AgentCard
from trunkline.model.outputs import ArtifactEmitted, Final
from trunkline.model.values import Artifact, Message, Part, Task, TaskState, TaskStatus
from trunkline.protocol.client_responses import StreamItem, TaskPage
from trunkline.remote.errors import PeerRefused
from trunkline.testing import FakeClock, FakeSession, settle, turn_request

CARD = AgentCard(
    name="Upstream",
    description="Answers.",
    version="1",
    supported_interfaces=(),
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=(),
    default_output_modes=(),
    skills=(),
)
DONE = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.COMPLETED))


class Upstream:
    """Does what it is sent, and answers a stream with `answer`, or with a refusal."""

    def __init__(self, answer: Task | PeerRefused) -> None:
        self.sent: list[SendMessageRequest] = []
        # Tasks are found in no other, if it is set.
        self.context_id = ""
        self._answer = answer
        self.task = answer if isinstance(answer, Task) else DONE

    async def card(self, *, fresh: bool = False) -> AgentCard:
        return CARD

    async def send(self, request: SendMessageRequest) -> Task | Message:
        raise AssertionError("it streams")

    async def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]:
        self.sent.append(request)
        self.task = replace(self.task, history=(request.message,))
        if isinstance(self._answer, PeerRefused):
            raise self._answer
        yield self.task

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        yield self.task

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        return self.task

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage:
        asked = request.context_id if request is not None else ""
        is_found = self.context_id in ("", asked)
        return TaskPage(tasks=(self.task,) if is_found else ())

    async def cancel(self, task_id: str) -> Task:
        return self.task


def run_of(upstream: Upstream, tasks: BackgroundTasks, clock: FakeClock) -> Run:
    return Run(
        turn_request("hello"),
        A2aBackend(url="http://upstream.example", on_unreachable="retry"),
        lambda headers, timeout_s: upstream,
        card=CARD,
        turn_s=1800,
        clock=clock,
        tasks=tasks,
    )


async def test_a_message_that_may_have_arrived_is_looked_for_and_not_sent_again() -> None:
    lost = PeerRefused("lost in a stream", reason="AGENT_LOST")
    late = [PeerRefused("no answer in time", status=status) for status in (502, 504)]
    for error in (*late, lost):
        clock, tasks = FakeClock(), BackgroundTasks("test")
        upstream = Upstream(error)
        outputs = run_of(upstream, tasks, clock).outputs()
        ended: list[object] = []
        reading = tasks.start(_read(outputs, ended), name="read")
        await clock.advance(60)
        assert reading.done()
        assert ended == [Final()]
        assert len(upstream.sent) == 1


async def _read(outputs: AsyncGenerator[object, None], into: list[object]) -> None:
    async for output in outputs:
        into.append(output)


async def test_who_leaves_in_the_middle_of_an_answer_leaves_nothing_behind() -> None:
    tasks = BackgroundTasks("test")
    artifacts = tuple(
        Artifact(artifact_id=str(number), parts=(Part(text="x"),))
        for number in range(2 * MAX_WAITING)
    )
    outputs = run_of(Upstream(replace(DONE, artifacts=artifacts)), tasks, FakeClock()).outputs()
    assert isinstance(await anext(outputs), ArtifactEmitted)
    await outputs.aclose()
    await settle()
    assert len(tasks) == 0


async def test_after_a_restart_a_message_is_looked_for_where_it_was_sent() -> None:
    """The upstream has a name of its own for the conversation."""
    clock, tasks, session = FakeClock(), BackgroundTasks("test"), FakeSession()
    turn = turn_request("hello", session=session, is_resumed=True)
    sent = Kept(turn.run_id, context="theirs")
    await session.keep(notes.name_of(turn.run_id), notes.written(sent))
    upstream = Upstream(DONE)
    upstream.context_id = "theirs"
    message = replace(turn.message, message_id=turn.run_id)
    upstream.task = replace(DONE, history=(message,))
    ended: list[object] = []
    run = Run(
        turn,
        A2aBackend(url="http://upstream.example"),
        lambda headers, timeout_s: upstream,
        card=CARD,
        turn_s=1800,
        clock=clock,
        tasks=tasks,
    )
    await _read(run.outputs(), ended)
    assert ended == [Final()]
    assert upstream.sent == []
