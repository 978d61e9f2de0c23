"""`CallsAgents`: how a Python agent asks other agents during its turn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, TypeAlias

from trunkline.background import BackgroundTasks
from trunkline.ports.backend import TurnRequest
from trunkline.ports.tools import TurnTool

OnUpdate: TypeAlias = Callable[[Any], None]
# An agent by its name, or with what else the debate shall know of it.
Participant: TypeAlias = str | Mapping[str, Any]


class CallsAgents:
    """The part of a turn that asks other agents."""

    __slots__ = ("_request", "_tools")

    def __init__(self, request: TurnRequest, tools: Mapping[str, TurnTool]) -> None:
        self._request = request
        self._tools = tools

    async def call(
        self,
        agent: str,
        input: Any = None,
        *,
        skill: str = "",
        timeout_s: float | None = None,
        wait: bool = True,
        task_id: str = "",
    ) -> dict[str, Any]:
        """Ask another agent of the gateway, in the name of the caller of this turn.

        Returns its answer: `status` is `completed` with the `output`, `input_required` with a
        `question`, which a call with this `task_id` answers, `timeout`, `error` or `forbidden`.
        Without `wait` it returns at once, and the answer comes to the transcript of this session.
        A timeout of 0 expects no answer.
        """
        waits = wait and timeout_s != 0
        arguments = {
            "agent": agent,
            "input": input,
            "skill": skill or None,
            "timeoutSeconds": timeout_s,
            "wait": waits or None,
            "taskId": task_id or None,
        }
        return await self._use("agent_call", arguments)

    async def poll(self, task_id: str) -> dict[str, Any]:
        """How the last call stands that this session has made to the task."""
        return await self._use("agent_poll", {"taskId": task_id})

    def call_batch(
        self,
        calls: Sequence[Mapping[str, Any]],
        *,
        concurrency: int = 5,
        total_timeout_s: float | None = None,
        wait: bool = True,
    ) -> "Progress":
        """Ask several agents side by side. Each call is `{"agent": …, "input": …}`, and may have a
        `skill` and `timeoutSeconds`.

        `await` it for the result: `results` in the order of the calls, each with its `status`, and
        `aggregateConfidence`, `completedCount`, `errorCount` and `totalCount`. Iterate over it to
        see each call that has ended, as soon as it has.
        """
        arguments = {
            "calls": calls,
            "concurrency": concurrency,
            "totalTimeoutSeconds": total_timeout_s,
            "wait": wait,
        }
        return Progress(lambda told: self._use("agent_call_batch", arguments, told))

    def debate(
        self,
        topic: str,
        *,
        proposer: Participant,
        critics: Sequence[Participant],
        resolver: Participant,
        input: Any = None,
        rounds: int = 2,
        min_confidence: float = 0.85,
        anonymous: bool = False,
        timeout_s: float | None = None,
        total_timeout_s: float | None = None,
        wait: bool = True,
    ) -> "Progress":
        """Have agents debate: one proposes, critics find flaws, the proposer refines, and a
        resolver concludes. A participant is a name, or `{"agent": …, "skill": …}`; a critic may
        also have a `perspective` and a `weight`.

        `await` it for the result: `status` is `resolved`, `unresolved` or `error`, with the
        `conclusion`, its `confidence`, the `rounds` and the `dissent`. Iterate over it to see each
        step that has ended, as soon as it has.
        """
        arguments = {
            "topic": topic,
            "proposer": proposer,
            "critics": critics,
            "resolver": resolver,
            "input": input,
            "rounds": rounds,
            "minConfidence": min_confidence,
            "anonymous": anonymous,
            "timeoutSeconds": timeout_s,
            "totalTimeoutSeconds": total_timeout_s,
            "wait": wait,
        }
        return Progress(lambda told: self._use("debate_call", arguments, told))

    async def _use(
        self,
        name: str,
        arguments: dict[str, Any],
        on_update: OnUpdate = lambda _: None,
    ) -> dict[str, Any]:
        """The result of a tool of the gateway. Raises RuntimeError where there is no gateway."""
        tool = self._tools.get(name)
        if tool is None:
            raise RuntimeError("there is no gateway that could call another agent")
        given = {key: value for key, value in arguments.items() if value is not None}
        result = await tool.call(given, turn=self._request, on_update=on_update)
        value: dict[str, Any] = result.value
        return value


class Progress:
    """A batch or a debate: `await` it for the result, or first iterate over its steps."""

    def __init__(self, use: Callable[[OnUpdate], Coroutine[Any, Any, dict[str, Any]]]) -> None:
        self._use = use
        self._task: asyncio.Task[dict[str, Any]] | None = None
        # None after the last one.
        self._steps: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._count = 0

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return self._started().__await__()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        task = self._started()
        try:
            while (step := await self._steps.get()) is not None:
                yield step
        except asyncio.CancelledError:
            task.cancel()
            raise

    def _started(self) -> "asyncio.Task[dict[str, Any]]":
        if self._task is None:
            self._task = BackgroundTasks("python agent").start(self._run(), name="batch or debate")
        return self._task

    async def _run(self) -> dict[str, Any]:
        try:
            return await self._use(self._take)
        finally:
            self._steps.put_nowait(None)

    def _take(self, update: dict[str, Any]) -> None:
        """Each update has all steps so far."""
        for step in update["steps"][self._count :]:
            self._steps.put_nowait(step)
        self._count = len(update["steps"])
