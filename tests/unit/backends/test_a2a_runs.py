"""A turn with an upstream, from the first call to the last output."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from trunkline.backends.a2a.pipe import MAX_AHEAD
from trunkline.backends.a2a.run import Run
from trunkline.backends.a2a.upstream import Reach
from trunkline.model.calls import ListTasksRequest, SendMessageRequest
from trunkline.model.card import AgentCapabilities, AgentCard
from trunkline.model.outputs import ArtifactEmitted, Final
from trunkline.model.values import Artifact, Message, Part, Task, TaskState, TaskStatus
from trunkline.protocol.answers import StreamItem, TaskPage
from trunkline.remote.errors import PeerRefused
from trunkline.runtime.tasks import Tasks
from trunkline.testing import FakeClock, settle, turn_request

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
        self._answer = answer
        self._task = answer if isinstance(answer, Task) else DONE

    async def card(self, *, fresh: bool = False) -> AgentCard:
        return CARD

    async def send(self, request: SendMessageRequest) -> Task | Message:
        raise AssertionError("it streams")

    async def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]:
        self.sent.append(request)
        self._task = replace(self._task, history=(request.message,))
        if isinstance(self._answer, PeerRefused):
            raise self._answer
        yield self._task

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        yield self._task

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        return self._task

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage:
        return TaskPage(tasks=(self._task,))

    async def cancel(self, task_id: str) -> Task:
        return self._task


def run_of(upstream: Upstream, tasks: Tasks, clock: FakeClock) -> Run:
    return Run(
        turn_request("hello"),
        lambda headers, timeout_s: upstream,
        card=CARD,
        reach=Reach(on_unreachable="retry"),
        clock=clock,
        tasks=tasks,
    )


async def test_a_message_that_may_have_arrived_is_looked_for_and_not_sent_again() -> None:
    for status in (502, 504):
        clock, tasks = FakeClock(), Tasks("test")
        upstream = Upstream(PeerRefused("no answer in time", status=status))
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
    tasks = Tasks("test")
    artifacts = tuple(
        Artifact(artifact_id=str(number), parts=(Part(text="x"),))
        for number in range(2 * MAX_AHEAD)
    )
    outputs = run_of(Upstream(replace(DONE, artifacts=artifacts)), tasks, FakeClock()).outputs()
    assert isinstance(await anext(outputs), ArtifactEmitted)
    await outputs.aclose()
    await settle()
    assert len(tasks) == 0
