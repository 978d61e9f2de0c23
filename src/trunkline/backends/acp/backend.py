"""Puts an agent that speaks ACP behind the `Backend` port."""

import asyncio

from msgspec import convert

from trunkline.backends.acp.permission import CANCELLED
from trunkline.backends.acp.run import Run, hush
from trunkline.backends.acp.session import AcpOptions, Conversation, Paused
from trunkline.backends.acp.settings import AcpBackend as AcpSettings
from trunkline.backends.kind import Resources
from trunkline.backends.programs.backend import ProgramBackend
from trunkline.backends.programs.children import Limits, limits_of
from trunkline.backends.programs.program import Program, program_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock


class AcpBackend(ProgramBackend[Run, Conversation]):
    def __init__(
        self,
        program: Program,
        *,
        clock: Clock,
        limits: Limits | None = None,
        options: AcpOptions | None = None,
    ) -> None:
        self.options = options or AcpOptions()
        super().__init__(
            "acp", program, clock=clock, limits=limits, keeps_for_s=self.options.idle_s
        )
        # Turns that wait for the caller, by task.
        self._paused: dict[str, tuple[Paused, asyncio.Task[None]]] = {}

    def turn_task(self, turn: TurnRequest) -> Run:
        return Run(self, turn)

    async def cancel(self, run_id: str) -> None:
        await super().cancel(run_id)
        for paused, _ in list(self._paused.values()):
            if paused.run_id == run_id:
                await self._give_up(paused)

    async def close(self) -> None:
        await self.end_turns()
        for paused, timer in self._paused.values():
            timer.cancel()
            self.children.stop_soon(paused.conversation.link.child)
        self._paused.clear()
        await super().close()

    async def dismiss(self, kept: Conversation) -> None:
        await self.children.stop(kept.link.child)

    def pause(self, paused: Paused) -> None:
        """Keep the turn until its question is answered, but not for ever."""
        timer = self.tasks.start(self._expire(paused), name=f"question {paused.task_id}")
        self._paused[paused.task_id] = (paused, timer)

    def unpause(self, task_id: str) -> Paused | None:
        """The turn of the task that waits, which belongs to the caller from now on."""
        found = self._paused.pop(task_id, None)
        if found is None:
            return None
        paused, timer = found
        timer.cancel()
        return paused

    def is_waiting(self, session: str) -> bool:
        """Whether the session's process is in the middle of a turn that waits."""
        return any(paused.session == session for paused, _ in self._paused.values())

    async def _expire(self, paused: Paused) -> None:
        await self.clock.sleep(self.options.question_timeout_s)
        # Not `unpause`, which would end this very task. The note of the question stays, so
        # that a late answer is told what happened.
        self._paused.pop(paused.task_id, None)
        await self.dismiss(paused.conversation)

    async def _give_up(self, paused: Paused) -> None:
        """No answer will come: the agent is told, and kept if it understands."""
        async with self.sessions.lock(paused.session):
            if self.unpause(paused.task_id) is None:
                # The answer came first.
                return
            conversation = paused.conversation
            conversation.link.answer(paused.request_id, CANCELLED)
            if await hush(self, conversation, paused.prompt_id):
                self.pool.put(paused.session, conversation)
            else:
                await self.dismiss(conversation)


def make(settings: AcpSettings, resources: Resources) -> AcpBackend:
    options = convert(settings, AcpOptions, from_attributes=True)
    return AcpBackend(
        program_of(settings), clock=resources.clock, limits=limits_of(settings), options=options
    )
