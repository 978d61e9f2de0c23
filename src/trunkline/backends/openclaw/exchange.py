"""`Exchange`: the messages between gateway and OpenClaw about one run."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from trunkline.backends.openclaw.agents import check_agent
from trunkline.backends.openclaw.connection import Connection, Link
from trunkline.backends.openclaw.failures import (
    Trouble,
    is_draining,
    is_spent,
    not_accepted,
    unreachable,
)
from trunkline.backends.openclaw.frames import (
    AgentEvent,
    ChatEvent,
    Happening,
    QuestionEvent,
    Response,
)
from trunkline.backends.openclaw.notes import RunNote, keep, question_name, run_name
from trunkline.backends.openclaw.outputs import RunFold
from trunkline.backends.openclaw.prompt import agent_params
from trunkline.backends.openclaw.questions import Answers, asked
from trunkline.backends.openclaw.recovery import LOST, Action, Seen, Verdict, judge
from trunkline.backends.output_channel import OutputChannel
from trunkline.model.outputs import ENDS_TURN, Failed, Note, Output, Question
from trunkline.model.values import Part, text_of
from trunkline.ports.backend import Notes, TurnRequest

_log = logging.getLogger("trunkline.backends.openclaw")

_WAIT_MS: Final = 30_000
_BETWEEN_WAITS_S: Final = 1.0
_HISTORY: Final = 50
_RENAMINGS: Final = 5
# Outputs that OpenClaw may be ahead of the journal, texts that can be joined not counted. The
# connection serves all runs, so it cannot wait for the reader of one.
_MAX_AHEAD: Final = 10_000
_TOO_MUCH: Final = "The agent said more than can be taken in."
_RECOVERING: Final = "OpenClaw restarted; waiting for it to go on with this."


class Exchange:
    """Listens to the link, and puts the outputs of the run into the channel.

    Methods that take a connection raise Trouble.
    """

    def __init__(self, turn: TurnRequest, link: Link, notes: Notes) -> None:
        self.turn = turn
        self.link = link
        self.notes = notes
        self.session_key = link.address.session_of(turn)
        # The id of the run at OpenClaw. It is ours, except for the answer to a question, which
        # continues an earlier run, and for a run that OpenClaw continues after its restart.
        self.openclaw_id = turn.run_id
        self.channel = OutputChannel(
            max_waiting=_MAX_AHEAD,
            overflow=_TOO_MUCH,
            max_total_bytes=link.address.max_output_bytes,
        )
        self.fold = RunFold(is_resumed=turn.is_resumed)
        self.is_sent = False
        # The connection is lost, or was never made.
        self.is_cut = True
        # OpenClaw sent something about the run since the connection was made.
        self.has_heard = True
        # The channel has the end of the turn.
        self._has_ended = False
        # A question of OpenClaw that the channel does not have yet.
        self._question: QuestionEvent | None = None
        self._attention = asyncio.Event()
        self._note: RunNote | None = None
        self._answers: Answers | None = None
        self._first: asyncio.Future[Response] | None = None
        self._stop_hearing: Callable[[], object] = lambda: None
        self._adopts = False
        self._renamings = 0
        # The time when the connection was lost, until which OpenClaw had the run.
        self._seen_ms = 0

    async def attach(self, connection: Connection) -> None:
        """Send the run, or continue with it over a new connection. Raises Unfit, too."""
        self.link.listen(self)
        await connection.subscribe(self.session_key)
        if self._answers is not None and self._note is not None:
            await self._answer(connection, self._note, self._answers)
        elif self.is_sent:
            await self._pick_up(connection)
        else:
            await self._send(connection)

    def go_on_with(self, note: RunNote, answers: Answers | None = None) -> None:
        """The run was sent before, by an earlier turn or an earlier process."""
        self._note, self._answers = note, answers
        self.openclaw_id = note.openclaw_id
        self.is_sent = True

    @property
    def is_over(self) -> bool:
        return self._has_ended or self.channel.is_closed

    async def until_cut(self) -> None:
        """Pass questions on until the connection is lost or the turn has ended."""
        while not self.is_over:
            if (question := self._question) is not None:
                self._question = None
                # Kept before it is told, so that a restart in between knows the question.
                if self._note is not None:
                    await self._keep_question(structs.replace(self._note, question=question))
                self.tell([Question(asked(question.questions))])
            elif self.is_cut:
                return
            else:
                self._attention.clear()
                await self._attention.wait()

    def hear(self, told: Happening) -> None:
        """OpenClaw sent an event of the run."""
        match told:
            case AgentEvent():
                # OpenClaw also sends the question itself, so its tool call is not shown.
                if told.stream != "tool" or told.data.get("name") != "ask_user":
                    self.tell(self.fold.hear(told))
            case ChatEvent():
                self.fold.hear_chat(told)
            case QuestionEvent():
                self._question = told
                self._attention.set()

    def may_adopt(self, told: AgentEvent) -> bool:
        """Whether an unknown run is this one, which OpenClaw continues under another id."""
        if not self._adopts:
            return False
        self._adopts = False
        self._spawn_follow(told.run_id)
        return True

    def lose(self) -> None:
        """The connection is lost."""
        if not self.is_cut:
            self._seen_ms = self.link.clock.now_ms()
        self.is_cut = True
        self._attention.set()
        if self._first is not None and not self._first.done():
            self._first.set_exception(unreachable("the connection was lost"))

    async def leave(self) -> None:
        """The reader has left: the connection and the link forget the run."""
        self._stop_hearing()
        await self.link.forget(self)

    def extra(self) -> dict[str, str]:
        """The log fields of the run."""
        return {"task": self.turn.task_id, "run": self.turn.run_id, "session": self.session_key}

    def tell(self, outputs: list[Output]) -> None:
        for output in outputs:
            self.has_heard = True
            self.channel.put_now(output)
            if isinstance(output, ENDS_TURN):
                self._has_ended = True
                self._attention.set()
        if self.fold.fault:
            _log.warning("a run of OpenClaw failed: %s", self.fold.fault, extra=self.extra())

    async def _send(self, connection: Connection) -> None:
        await check_agent(connection, self.link.address.agent_id)
        params = agent_params(self.turn, self.session_key, self.openclaw_id, connection.hello)
        self._note = RunNote(
            openclaw_id=self.openclaw_id,
            session_key=self.session_key,
            boot=connection.hello.boot,
            sent_ms=self.link.clock.now_ms(),
        )
        # Kept before it is sent: after a restart the gateway knows that OpenClaw may have it.
        await keep(self.notes, run_name(self.turn.run_id), self._note)
        self.is_sent = True
        self._first = asyncio.get_running_loop().create_future()
        self._stop_hearing()
        self._stop_hearing = await connection.send("agent", params, self._hear_response)
        try:
            async with asyncio.timeout(self.link.address.accept_s):
                response = await self._first
        except TimeoutError:
            raise unreachable("it does not accept a run") from None
        if not response.ok:
            self.is_sent = False
            if not is_spent(response.fault) or self._renamings >= _RENAMINGS:
                raise not_accepted(response.fault)
            # A restart of OpenClaw removed the run from its queue: it never began, and OpenClaw
            # refuses its id from then on.
            self._renamings += 1
            await self._rename(f"{self.turn.run_id}-{self._renamings}", connection)
            await self._send(connection)
            return
        match response.fields.get("status"):
            case "accepted":
                return
            case "in_flight":
                self._spawn_follow(self.openclaw_id)
            case _:
                self.tell(self.fold.end(response))

    def _hear_response(self, response: Response) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(response)
        elif not response.ok and is_draining(response.fault) and not self.fold.is_started:
            # The run never began, so it is sent again to the OpenClaw that starts next.
            self.is_sent = False
            self.lose()
        else:
            self.tell(self.fold.end(response))

    async def _answer(self, connection: Connection, note: RunNote, answers: Answers) -> None:
        assert note.question is not None
        response = await connection.call(
            "question.resolve", {"id": note.question.id, "answers": {"answers": answers}}
        )
        self._answers = None
        is_settled = response.fault.detail == "QUESTION_ALREADY_TERMINAL"
        if response.ok or (is_settled and self.turn.is_resumed):
            self._note = structs.replace(note, question=None)
            await keep(self.notes, run_name(self.turn.run_id), self._note)
            await self._keep_question(None)
            self._spawn_follow(self.openclaw_id)
            return
        # The answer is late, another client answered, or a restart lost the question: the run has
        # continued without it. The session has the question, so the answer is sent as a message.
        _log.info("a question is no longer open: %s", response.fault.code, extra=self.extra())
        self.is_sent = False
        await self._keep_question(None)
        await self._rename(self.turn.run_id, connection)
        await self._send(connection)

    async def _pick_up(self, connection: Connection) -> None:
        """Find out how the run went on while the connection was lost."""
        history = await self._history(connection)
        waited = await connection.ask("agent.wait", {"runId": self.openclaw_id, "timeoutMs": 0})
        verdict = judge(self._seen(connection), history, waited)
        _log.info("picked up a run: %s", verdict.action.value, extra=self.extra())
        match verdict.action:
            case Action.FOLLOW:
                self.tell(self.fold.catch_up(verdict.text))
                self._spawn_follow(self.openclaw_id)
            case Action.SEND:
                await self._send(connection)
            case Action.ADOPT:
                await self._adopt(verdict, connection)
            case _:
                self._conclude(verdict)

    def _conclude(self, verdict: Verdict) -> None:
        """Put the end of the run into the channel."""
        match verdict.action:
            case Action.FINISH:
                self.tell(self.fold.finish([verdict.text] if verdict.text else [], []))
            case Action.STOPPED:
                self.tell(self.fold.stop())
            case Action.GIVE_UP:
                self.tell([Failed(LOST)])
            case _:
                self.tell(self.fold.fail(verdict.text))

    async def _adopt(self, verdict: Verdict, connection: Connection) -> None:
        """Wait for OpenClaw to continue the run that its restart interrupted."""
        self.tell([Note((Part(text=_RECOVERING),))])
        if verdict.run_id:
            await self._rename(verdict.run_id, connection)
            self.tell(self.fold.catch_up(verdict.text))
            self._spawn_follow(verdict.run_id)
        else:
            self._adopts = True
            self.link.tasks.spawn(self._give_up_later(), name=f"recover {self.openclaw_id}")

    async def _give_up_later(self) -> None:
        await self.link.clock.sleep(self.link.address.recovery_s)
        if self._adopts and not self.is_over:
            self._adopts = False
            self.tell([Failed(LOST)])

    def _spawn_follow(self, run_id: str) -> None:
        self.link.tasks.spawn(self._follow(run_id), name=f"follow {run_id}")

    async def _follow(self, run_id: str) -> None:
        """Wait for the end of a run whose second answer goes to another connection."""
        try:
            connection = await self.link.connection()
            while not self.is_over and not self.fold.is_ended:
                response = await connection.call(
                    "agent.wait",
                    {"runId": run_id, "timeoutMs": _WAIT_MS},
                    within_s=2 * _WAIT_MS / 1000,
                )
                waited = response.fields
                if waited.get("status") in ("ok", "error"):
                    history = {} if "terminalReply" in waited else await self._history(connection)
                    self._conclude(judge(self._seen(connection), history, waited))
                    return
                # OpenClaw answers at once if it does not know the run, or does not wait.
                await self.link.clock.sleep(_BETWEEN_WAITS_S)
        except Trouble:
            # `Run` notices the lost connection, and attaches again.
            return

    async def _keep_question(self, note: RunNote | None) -> None:
        await keep(self.notes, question_name(self.turn.task_id), note)

    async def _history(self, connection: Connection) -> dict[str, Any]:
        return await connection.ask(
            "chat.history", {"sessionKey": self.session_key, "limit": _HISTORY}
        )

    def _seen(self, connection: Connection) -> Seen:
        note, hello = self._note, connection.hello
        assert note is not None
        return Seen(
            run_id=self.openclaw_id,
            message=text_of(self.turn.message.parts),
            same_boot=note.boot.is_same(hello.boot),
            attributes=hello.attributes_messages,
            unseen_s=(self.link.clock.now_ms() - max(note.sent_ms, self._seen_ms)) / 1000,
        )

    async def _rename(self, run_id: str, connection: Connection) -> None:
        """Listen to the run under another id."""
        await self.link.forget(self)
        self.openclaw_id = run_id
        self.link.listen(self)
        await connection.subscribe(self.session_key)
