"""`AcpBackend`: an agent that speaks ACP behind the `Backend` port, and `Run`, one of its turns."""

import logging
from dataclasses import dataclass

from trunkline.backends.acp import rpc
from trunkline.backends.acp.permission import CANCELLED, Asked, asked, chosen, question, rejected
from trunkline.backends.acp.session import (
    DONE_WITH,
    CallFailed,
    Conversation,
    NotSpoken,
    result_of,
)
from trunkline.backends.acp.settings import AcpBackend as AcpSettings
from trunkline.backends.json_values import table
from trunkline.backends.kind import Resources
from trunkline.backends.programs import failures
from trunkline.backends.programs.backend import EXIT_S, ProgramBackend, ProgramTurn
from trunkline.backends.programs.child import Flooded
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.prompt import prompt_of
from trunkline.backends.programs.sessions import Pool
from trunkline.model.outputs import Failed, Output
from trunkline.model.values import text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LendsTools

_log = logging.getLogger("trunkline.acp")

# The note of a session that holds the agent's id of it.
SESSION_NOTE = "acp.session"
LOST = (
    "The agent was restarted while it waited for this answer, and has forgotten the question. "
    "Please send the request again."
)
WAITS = (
    "The agent waits for an answer in another task of this conversation. "
    "Answer that one or cancel it first."
)
NOT_READY = (
    "The agent's program does not speak as it should. "
    "The operator finds the reason in the gateway's log."
)


def asked_note(task_id: str) -> str:
    """The name of the note that the task waits for an answer."""
    return f"acp.asked.{task_id}"


@dataclass(frozen=True, slots=True, eq=False)
class Paused:
    """A turn that waits for the caller: the process, and the question that the agent asked."""

    conversation: Conversation
    session: str
    task_id: str
    run_id: str
    request_id: str | int
    asked: Asked


class AcpBackend(ProgramBackend["Run", Conversation]):
    def __init__(
        self, settings: AcpSettings, *, clock: Clock, lends_tools: LendsTools | None = None
    ) -> None:
        super().__init__("acp", settings, clock=clock, keeps=True, lends_tools=lends_tools)
        self.settings = settings
        # Turns that wait for the caller, by task.
        self.paused: Pool[Paused] = Pool(
            clock=clock, tasks=self.tasks, idle_s=settings.question_timeout_s, end=self._give_up
        )

    def turn_task(self, turn: TurnRequest) -> "Run":
        return Run(turn, self)

    async def cancel(self, run_id: str) -> None:
        await super().cancel(run_id)
        for paused in self.paused:
            if paused.run_id == run_id:
                async with self.sessions.lock(paused.session):
                    # None when the answer came first.
                    if self.paused.take(paused.task_id) is not None:
                        await self.call_off(paused)

    async def close(self) -> None:
        await self.end_turns()
        await self.paused.close()
        await super().close()

    async def dismiss(self, kept: Conversation) -> None:
        await self.children.stop(kept.child)

    async def release(self, session: str, conversation: Conversation) -> None:
        """The turn is over: keep the process for the next one if it is alive."""
        if conversation.child.is_alive:
            self.pool.put(session, conversation)
        else:
            await self.dismiss(conversation)

    async def wind_down(self, session: str, conversation: Conversation) -> None:
        """The turn was stopped: tell the agent, and keep the process if it obeys in time."""
        if await self.hear_out(conversation.cancel()):
            await self.release(session, conversation)
        else:
            await self.dismiss(conversation)

    async def call_off(self, paused: Paused) -> None:
        """No answer to the question will come."""
        paused.conversation.answer(paused.request_id, CANCELLED)
        await self.wind_down(paused.session, paused.conversation)

    async def _give_up(self, paused: Paused) -> None:
        """The note of the question stays, so that a late answer learns that it is lost."""
        await self.dismiss(paused.conversation)


class Run(ProgramTurn[AcpBackend]):
    """One turn, which ends with the answer of the agent or with its question."""

    log = _log

    async def take_turn(self) -> None:
        async with self.backend.sessions.lock(self.session):
            paused = self.backend.paused.take(self.turn.task_id)
            if paused is not None:
                await self._go_on(paused)
            elif await self._has_lost_its_question():
                self.channel.put_now(Failed(LOST))
            elif any(paused.session == self.session for paused in self.backend.paused):
                self.channel.put_now(Failed(WAITS))
            else:
                await self._begin()

    async def _begin(self) -> None:
        conversation = self.backend.pool.take(self.session)
        if conversation is not None and not _is_usable(conversation):
            await self.backend.dismiss(conversation)
            conversation = None
        if conversation is None:
            conversation = await self._open()
            if conversation is None:
                return
        else:
            await self.lent_tools(conversation.child)
        try:
            conversation.prompt(prompt_of(self.turn.message.parts))
        except BaseException:
            # The message is at fault, not the agent.
            self.backend.pool.put(self.session, conversation)
            raise
        await self._follow(conversation)

    async def _open(self) -> Conversation | None:
        """A new process with the session on it; None after a failure, which ends the turn."""
        settings, children = self.backend.settings, self.backend.children
        known = await self.recall(SESSION_NOTE)
        tools = await self.lent_tools()
        child = await self.backend.spawn(settings.command[1:], tools=tools)
        conversation = Conversation(child)
        try:
            with children.killed_after(child, settings.start_timeout_s):
                await conversation.introduce()
                await conversation.open(
                    cwd=settings.cwd or "/", known=known, mode=settings.mode, tools=tools
                )
            if conversation.session_id != known:
                await self.keep(SESSION_NOTE, conversation.session_id)
        except (NotSpoken, CallFailed, *DONE_WITH) as error:
            await children.stop(child)
            self._tell_operator(conversation, str(error))
            self.channel.put_now(Failed(NOT_READY))
            return None
        except BaseException:
            await children.stop(child)
            raise
        return conversation

    async def _go_on(self, paused: Paused) -> None:
        """The caller has answered the question that the turn before ended with."""
        try:
            await self.keep(asked_note(self.turn.task_id), "")
        except BaseException:
            await self.backend.call_off(paused)
            raise
        conversation = paused.conversation
        if not conversation.child.is_running:
            await self.backend.dismiss(conversation)
            self.channel.put_now(Failed(LOST))
            return
        await self.lent_tools(conversation.child)
        choice = chosen(paused.asked, text_of(self.turn.message.parts))
        conversation.answer(paused.request_id, choice)
        conversation.updates.is_denied = choice == rejected(paused.asked)
        await self._follow(conversation)

    async def _follow(self, conversation: Conversation) -> None:
        """Pass the outputs of the agent on until the turn ends."""
        try:
            last = await self._hear(conversation)
        except CallFailed as error:
            self._tell_operator(conversation, str(error))
            last = Failed(failures.MODEL_FAILED)
        except DONE_WITH as error:
            last = await self._lost(conversation, error)
        except BaseException:
            await self.backend.wind_down(self.session, conversation)
            raise
        if isinstance(last, Paused):
            await self._ask(last)
            return
        try:
            await self.channel.put(last)
        finally:
            # Also when the turn is stopped while its end waits to be read.
            await self.backend.release(self.session, conversation)

    async def _ask(self, paused: Paused) -> None:
        """End the turn with the agent's question."""
        try:
            await self.keep(asked_note(self.turn.task_id), "1")
            self.backend.paused.put(paused.task_id, paused)
            await self.channel.put(question(paused.asked))
        except BaseException:
            # The caller was not asked, so no answer will come.
            self.backend.paused.take(paused.task_id)
            await self.backend.call_off(paused)
            raise

    async def _hear(self, conversation: Conversation) -> Output | Paused:
        updates = conversation.updates
        while True:
            match message := await conversation.receive():
                case rpc.Notification(method="session/update", params=params):
                    if params.get("sessionId") == conversation.session_id:
                        for output in updates.feed(table(params.get("update"))):
                            await self.channel.put(output)
                case rpc.Request(method="session/request_permission"):
                    wanted = asked(message.params)
                    if self.backend.settings.permissions == "ask" and self.turn.task_id:
                        return Paused(
                            conversation=conversation,
                            session=self.session,
                            task_id=self.turn.task_id,
                            run_id=self.turn.run_id,
                            request_id=message.id,
                            asked=wanted,
                        )
                    conversation.answer(message.id, rejected(wanted))
                    updates.is_denied = True
                case rpc.Request():
                    conversation.refuse(message)
                case rpc.Response(id=call_id) if call_id == conversation.prompt_id:
                    return updates.end(result_of(message))
                case _:
                    pass

    async def _lost(self, conversation: Conversation, error: Exception) -> Failed:
        child = conversation.child
        try:
            if isinstance(error, Flooded | LineTooLong):
                reason = self.over_limit(error)
            elif not await child.exits_within(EXIT_S):
                reason = failures.STUCK
            else:
                reason = failures.ended(child.exited.result())
        finally:
            await self.backend.dismiss(conversation)
        self._tell_operator(conversation, reason)
        return Failed(reason)

    async def _has_lost_its_question(self) -> bool:
        note = asked_note(self.turn.task_id)
        if not self.turn.history or not await self.recall(note):
            return False
        await self.keep(note, "")
        return True

    def _tell_operator(self, conversation: Conversation, trouble: str) -> None:
        # An agent may quote its environment in an error.
        masked = self.limits.without_secrets
        words = masked(f"{trouble}\n{conversation.child.errors}".strip())
        _log.warning("agent failed: %s", masked(trouble), extra=self.extra() | {"stderr": words})


def _is_usable(conversation: Conversation) -> bool:
    """Whether a kept process still serves the same session."""
    try:
        conversation.child.begin_answer()
    except LineTooLong:
        return False
    return conversation.child.is_running


def make(settings: AcpSettings, resources: Resources) -> AcpBackend:
    return AcpBackend(settings, clock=resources.clock, lends_tools=resources.lends_tools)
