"""`Run`: one turn with OpenClaw, which it attaches to again after a lost connection."""

import logging
from collections.abc import Callable
from typing import Final

from trunkline.backends.openclaw.connection import Connection, Link
from trunkline.backends.openclaw.exchange import Exchange
from trunkline.backends.openclaw.failures import Trouble, Unfit, unreachable
from trunkline.backends.openclaw.notes import question_name, recall, run_name
from trunkline.backends.openclaw.questions import answers_in, asked
from trunkline.backends.turn_task import TurnTask
from trunkline.model.outputs import Failed, Note, Question, Refused
from trunkline.model.values import Part

_log = logging.getLogger("trunkline.backends.openclaw")

_BUSY_WAIT_S: Final = 1.0
_WAITING: Final = "OpenClaw cannot be reached at the moment; trying again."
_ANSWER_ALL: Final = "Please answer every question."


class Run(TurnTask):
    # The work may be canceled as soon as the end of the turn was read.
    winds_down = False

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.turn, exchange.link.tasks, exchange.channel)
        self._exchange = exchange
        self._link, self._clock = exchange.link, exchange.link.clock
        self._unreachable_s = exchange.link.address.unreachable_s
        # The time at which the turn stops waiting for an unreachable OpenClaw.
        self._give_up_at: float | None = None
        self._attached_at = self._clock.monotonic()

    async def work(self) -> None:
        exchange = self._exchange
        try:
            await self._look_back()
            while not exchange.is_over:
                self._start_clock()
                await self._attach()
                await exchange.until_cut()
        finally:
            await exchange.leave()

    async def stop(self) -> None:
        """Stop the run at OpenClaw, whether it runs, waits in a queue or asks."""
        exchange = self._exchange
        self.cancel()
        await stop_run(
            self._link,
            exchange.session_key,
            exchange.openclaw_id,
            is_moot=lambda: not exchange.is_sent or exchange.fold.is_ended,
        )

    async def _look_back(self) -> None:
        """Continue the run that this turn sent before a restart, or whose question it answers."""
        turn, exchange = self.turn, self._exchange
        note = await recall(exchange.notes, run_name(turn.run_id)) if turn.is_resumed else None
        if note is not None:
            exchange.go_on_with(note)
            return
        # The first message of a task answers no question.
        note = await recall(exchange.notes, question_name(turn.task_id)) if turn.history else None
        if note is None or note.question is None:
            return
        answers = answers_in(turn.message, note.question.questions)
        exchange.go_on_with(note, answers)
        if answers is None:
            exchange.tell([Question(asked(note.question.questions, hint=_ANSWER_ALL))])

    async def _attach(self) -> None:
        """Attach to OpenClaw, with further attempts for `unreachable_s`."""
        exchange = self._exchange
        while not exchange.is_over:
            try:
                connection = await self._link.connection()
                if self._is_late():
                    raise unreachable("connections to it do not last")
                exchange.is_cut = False
                self._attached_at = self._clock.monotonic()
                await exchange.attach(connection)
                return
            except Unfit as unfit:
                exchange.tell([Refused(str(unfit))])
            except Trouble as trouble:
                is_first = self._give_up_at is None
                if self._give_up_at is None:
                    self._give_up_at = self._clock.monotonic() + self._unreachable_s
                # A message that was sent may have arrived, and its run may go on there.
                is_unreachable = trouble.is_unreachable and not exchange.is_sent
                if trouble.is_lasting or self._is_late():
                    _log.error("%s. %s", trouble.found, trouble.remedy, extra=exchange.extra())
                    exchange.tell([Failed(trouble.told, is_unreachable)])
                    return
                if is_first:
                    self.channel.put_now(Note((Part(text=_WAITING),), is_unreachable))
                if self._link.is_connected:
                    await self._clock.sleep(trouble.retry_after_s or _BUSY_WAIT_S)

    def _start_clock(self) -> None:
        """A connection that lasted, or brought an output, ends the time limit; one that was of no
        use does not, and starts it."""
        now = self._clock.monotonic()
        if self._exchange.has_heard or now - self._attached_at > self._unreachable_s:
            self._give_up_at = None
        elif self._give_up_at is None:
            self._give_up_at = now + self._unreachable_s
        self._exchange.has_heard = False

    def _is_late(self) -> bool:
        return self._give_up_at is not None and self._clock.monotonic() >= self._give_up_at


_ATTEMPTS: Final = 6
_WAIT_S: Final = 0.5


async def stop_run(
    link: Link, session_key: str, openclaw_id: str, *, is_moot: Callable[[], bool] = lambda: False
) -> None:
    """Stop a run that works, waits in a queue or asks. `is_moot` tells that it ended by itself."""
    extra = {"run": openclaw_id, "session": session_key}
    for _ in range(_ATTEMPTS):
        if is_moot():
            return
        try:
            if await _abort(await link.connection(), session_key, openclaw_id):
                return
        except Trouble as trouble:
            _log.info("cannot stop a run: %s", trouble.found, extra=extra)
        # OpenClaw cannot stop an id that it does not know yet, and the run may be on its way.
        await link.clock.sleep(_WAIT_S)
    _log.warning("OpenClaw did not stop a run", extra=extra)


async def _abort(connection: Connection, session_key: str, openclaw_id: str) -> bool:
    """Whether OpenClaw confirms that the run has ended."""
    fields = await connection.ask("chat.abort", {"sessionKey": session_key, "runId": openclaw_id})
    if fields.get("aborted") is True:
        return True
    waited = await connection.ask("agent.wait", {"runId": openclaw_id, "timeoutMs": 0})
    return waited.get("status") in ("ok", "error")
