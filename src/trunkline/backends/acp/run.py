"""One turn of an agent that speaks ACP."""

import contextlib
import logging
from typing import TYPE_CHECKING

from trunkline.backends.acp import rpc
from trunkline.backends.acp.connection import CallFailed, Link, LinkLost, result_of
from trunkline.backends.acp.permission import CANCELLED, asked, chosen, question, rejected
from trunkline.backends.acp.rpc import blocks
from trunkline.backends.acp.session import (
    Conversation,
    NotSpoken,
    Paused,
    introduce,
    open_session,
)
from trunkline.backends.acp.updates import Updates
from trunkline.backends.json_values import table
from trunkline.backends.programs import failures
from trunkline.backends.programs.backend import EXIT_S, ProgramTurn
from trunkline.backends.programs.child import Flooded
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.prompt import prompt_of
from trunkline.backends.turn_task import done_within
from trunkline.model.outputs import Failed, Output
from trunkline.model.values import text_of
from trunkline.ports.backend import TurnRequest

if TYPE_CHECKING:
    from trunkline.backends.acp.backend import AcpBackend

_log = logging.getLogger("trunkline.acp")

# The name under which the session's notes hold the agent's id of it.
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
DONE_WITH = (LinkLost, Flooded, LineTooLong)


def asked_note(task_id: str) -> str:
    """The name under which it is noted that the task waits for an answer."""
    return f"acp.asked.{task_id}"


class Run(ProgramTurn):
    log = _log

    def __init__(self, backend: "AcpBackend", turn: TurnRequest) -> None:
        super().__init__(turn, backend)
        self._backend = backend

    async def take_turn(self) -> None:
        async with self._backend.sessions.lock(self.session):
            paused = self._backend.unpause(self.turn.task_id)
            if paused is not None:
                await self._go_on(paused)
            elif await self._has_lost_its_question():
                self.channel.put_now(Failed(LOST))
            elif self._backend.is_waiting(self.session):
                self.channel.put_now(Failed(WAITS))
            else:
                await self._begin()

    async def _begin(self) -> None:
        conversation = self._backend.pool.take(self.session)
        if conversation is not None and not _is_usable(conversation):
            await self._backend.dismiss(conversation)
            conversation = None
        if conversation is None:
            conversation = await self._open()
            if conversation is None:
                return
        updates = Updates()
        try:
            prompt = blocks(prompt_of(self.turn.message.parts), conversation.capabilities)
        except BaseException:
            # The message is at fault, not the agent.
            self._backend.pool.put(self.session, conversation)
            raise
        params = {"sessionId": conversation.session_id, "prompt": prompt}
        prompt_id = conversation.link.send("session/prompt", params)
        await self._follow(conversation, prompt_id, updates)

    async def _open(self) -> Conversation | None:
        """A new process with the session on it; None when it failed, and that was told."""
        backend = self._backend
        known = await self.recall(SESSION_NOTE)
        child = await backend.spawn(backend.program.argv[1:])
        opening = backend.tasks.start(
            backend.clock.sleep(backend.options.start_timeout_s), name="acp start"
        )
        opening.add_done_callback(lambda timer: None if timer.cancelled() else child.kill())
        try:
            conversation = await introduce(Link(child))
            await open_session(
                conversation,
                cwd=backend.program.cwd or "/",
                known=known,
                mode=backend.options.mode,
            )
            if conversation.session_id != known:
                await self.keep(SESSION_NOTE, conversation.session_id)
        except (NotSpoken, CallFailed, *DONE_WITH) as error:
            await backend.children.stop(child)
            self._tell_operator(child_errors=str(child.errors), trouble=str(error))
            self.channel.put_now(Failed(NOT_READY))
            return None
        except BaseException:
            await backend.children.stop(child)
            raise
        finally:
            opening.cancel()
        return conversation

    async def _go_on(self, paused: Paused) -> None:
        """The caller has answered the question that the turn before ended with."""
        try:
            await self.keep(asked_note(self.turn.task_id), "")
        except BaseException:
            await self._call_off(paused)
            raise
        conversation = paused.conversation
        if not conversation.link.child.is_running:
            await self._backend.dismiss(conversation)
            self.channel.put_now(Failed(LOST))
            return
        choice = chosen(paused.asked, text_of(self.turn.message.parts))
        conversation.link.answer(paused.request_id, choice)
        paused.updates.is_denied = choice == rejected(paused.asked)
        await self._follow(conversation, paused.prompt_id, paused.updates)

    async def _follow(self, conversation: Conversation, prompt_id: int, updates: Updates) -> None:
        """Pass on what the agent says until the turn ends."""
        try:
            last = await self._hear(conversation, prompt_id, updates)
        except CallFailed as error:
            self._tell_operator(str(conversation.link.child.errors), str(error))
            last = Failed(failures.MODEL_FAILED)
        except DONE_WITH as error:
            last = await self._lost(conversation, error)
        except BaseException:
            await self._wind_down(conversation, prompt_id)
            raise
        if isinstance(last, Paused):
            await self._ask(last)
            return
        try:
            await self.channel.put(last)
        finally:
            # Also when the turn is stopped while its end waits to be read.
            await self._release(conversation)

    async def _ask(self, paused: Paused) -> None:
        """End the turn with the agent's question."""
        try:
            await self.keep(asked_note(self.turn.task_id), "1")
            self._backend.pause(paused)
            await self.channel.put(question(paused.asked))
        except BaseException:
            # The caller was not asked, so no answer will come.
            self._backend.unpause(paused.task_id)
            await self._call_off(paused)
            raise

    async def _call_off(self, paused: Paused) -> None:
        conversation = paused.conversation
        conversation.link.answer(paused.request_id, CANCELLED)
        await self._wind_down(conversation, paused.prompt_id)

    async def _hear(
        self, conversation: Conversation, prompt_id: int, updates: Updates
    ) -> Output | Paused:
        while True:
            match message := await conversation.link.receive():
                case rpc.Notification(method="session/update", params=params):
                    if params.get("sessionId") == conversation.session_id:
                        for output in updates.feed(table(params.get("update"))):
                            await self.channel.put(output)
                case rpc.Request(method="session/request_permission"):
                    if paused := self._permission(conversation, message, prompt_id, updates):
                        return paused
                case rpc.Request():
                    conversation.link.refuse(message)
                case rpc.Response(id=call_id) if call_id == prompt_id:
                    return updates.end(result_of(message))
                case _:
                    pass

    def _permission(
        self, conversation: Conversation, request: rpc.Request, prompt_id: int, updates: Updates
    ) -> Paused | None:
        wanted = asked(request.params)
        if self._backend.options.permissions == "reject" or not self.turn.task_id:
            conversation.link.answer(request.id, rejected(wanted))
            updates.is_denied = True
            return None
        return Paused(
            conversation=conversation,
            session=self.session,
            task_id=self.turn.task_id,
            run_id=self.turn.run_id,
            request_id=request.id,
            prompt_id=prompt_id,
            asked=wanted,
            updates=updates,
        )

    async def _lost(self, conversation: Conversation, error: Exception) -> Failed:
        child = conversation.link.child
        try:
            if isinstance(error, Flooded | LineTooLong):
                reason = self.over_limit(error)
            elif not await child.exits_within(EXIT_S):
                reason = failures.STUCK
            else:
                code = child.exited.result()
                reason = failures.exited(code) if code else failures.NO_ANSWER
        finally:
            await self._backend.dismiss(conversation)
        self._tell_operator(str(child.errors), reason)
        return Failed(reason)

    async def _release(self, conversation: Conversation) -> None:
        if conversation.link.child.is_alive:
            self._backend.pool.put(self.session, conversation)
        else:
            await self._backend.dismiss(conversation)

    async def _wind_down(self, conversation: Conversation, prompt_id: int) -> None:
        """The turn was stopped: the agent is told, and kept if it understands."""
        if await hush(self._backend, conversation, prompt_id):
            await self._release(conversation)
        else:
            await self._backend.dismiss(conversation)

    async def _has_lost_its_question(self) -> bool:
        note = asked_note(self.turn.task_id)
        if not self.turn.history or not await self.recall(note):
            return False
        await self.keep(note, "")
        return True

    def _tell_operator(self, child_errors: str, trouble: str) -> None:
        # An agent may quote its environment in an error, too.
        masked = self._backend.program.without_secrets
        words = masked(f"{trouble}\n{child_errors}".strip())
        _log.warning("agent failed: %s", masked(trouble), extra=self.extra() | {"stderr": words})


def _is_usable(conversation: Conversation) -> bool:
    """Whether a kept process still serves the same session."""
    try:
        conversation.link.child.begin_answer()
    except LineTooLong:
        return False
    return conversation.link.child.is_running


async def hush(backend: "AcpBackend", conversation: Conversation, prompt_id: int) -> bool:
    """Tell the agent to stop; whether it said that it has, within the grace."""
    conversation.link.notify("session/cancel", {"sessionId": conversation.session_id})
    hearing = backend.tasks.start(_hear_out(conversation, prompt_id), name="acp cancel")
    grace_s = backend.children.limits.stop_grace_s
    is_hushed = await done_within(hearing, grace_s, backend.clock)
    hearing.cancel()
    return is_hushed and conversation.link.child.is_alive


async def _hear_out(conversation: Conversation, prompt_id: int) -> None:
    with contextlib.suppress(*DONE_WITH):
        while True:
            match message := await conversation.link.receive():
                case rpc.Response(id=call_id) if call_id == prompt_id:
                    return
                case rpc.Request(method="session/request_permission"):
                    conversation.link.answer(message.id, CANCELLED)
                case rpc.Request():
                    conversation.link.refuse(message)
                case _:
                    pass
