"""`Recorder`: records the output of a run in the journal of its task, or holds it back while the
run may end as a direct reply."""

import logging
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, structs

from trunkline.engine.decisions import Chunk, Decision
from trunkline.engine.gateway_texts import AGENT_FAILED
from trunkline.engine.late_output import LateOutput
from trunkline.engine.media_types import UNREPRESENTABLE, AcceptedModes
from trunkline.engine.promotion import Direct, Staging, Unrepresentable, Verdict
from trunkline.engine.transitions import TABLE, Step
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.calls import Refusal
from trunkline.model.errors import ContentTypeNotSupported
from trunkline.model.events import Event, StatusShown, TurnRetried
from trunkline.model.large_values import MAX_INLINE_CHARS
from trunkline.model.outputs import ENDS_TURN, DirectReply, Failed, Final, Output, Text
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    TERMINAL,
    Artifact,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Settles
from trunkline.ports.records import Group
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask, say
from trunkline.runtime.new_tasks import NewTasks, refusal_message
from trunkline.runtime.run import Run, extra_of

_log = logging.getLogger("trunkline.turns")

# Constants, because Python 3.11 looks up enum members through the metaclass, which is slow.
_START = Step.START
_NOTE = Step.NOTE
_ENDS_WELL = frozenset({Step.COMPLETE, Step.ASK, Step.NEED_AUTH})

# The id of the artifact of late output. A task ends once, so it has one such artifact at most.
LATE = "late-output"


class Recorder(Struct, frozen=True, kw_only=True, eq=False):
    journal: Journal
    clock: Clock
    new_tasks: NewTasks

    def begin(self, run: Run) -> TurnFold:
        """Record that the turn begins, in a new task if the run has none. A resumed turn has begun
        before, and its artifacts keep the names they had."""
        live = run.live or self.new_tasks.promote(run)
        style = run.agent.style
        made: Sequence[Artifact] = ()
        if run.is_resumed:
            made = live.ahead().earlier_artifacts
        else:
            live.turns += 1
            if live.turns > 1:
                made = live.ahead().artifacts
            if style.names.reports_submitted_first:
                self.move(live, Step.ACCEPT)
            self.move(live, _START)
        run.fold = TurnFold(
            run_id=run.run_id,
            task_id=live.task_id,
            context_id=live.context_id,
            names=style.names(live.turns, {each.artifact_id for each in made} if made else set()),
            style=style,
            accepted=run.agent.unnamed_modes if run.options is None else _accepted(run),
            # At least the number of messages that the turn has sent, so that no two get the same
            # id.
            said=live.seq if run.is_resumed else 0,
        )
        return run.fold

    def undo_beginning(self, run: Run) -> None:
        """Forget that the turn began: the store refused it, and the agent has not started."""
        run.fold = None
        if run.live is not None:
            run.live.turns -= 1

    def record_retry(self, live: LiveTask, run: Run | None = None) -> None:
        """Record that the current turn is run again. `run` is its run, if there is one that has not
        started."""
        now_ms = self.clock.now_ms()
        state = TABLE[live.state, Step.CONTINUE]
        update = TaskStatusUpdateEvent(
            task_id=live.task_id,
            context_id=live.context_id,
            status=TaskStatus(state=state, timestamp=format_timestamp(now_ms)),
            metadata={"reason": "gateway_restarted", "previousState": live.state.value},
        )
        event = TurnRetried(status_update=update)
        self.journal.record(live, event, state=state, status_ms=now_ms)
        # The turn has the same number again, so that its artifacts have the same ids.
        live.turns -= 1
        if run is not None:
            run.fold = None

    def feed(self, run: Run, output: Output) -> bool:
        """Record the output; True when it ended the turn."""
        live = run.live
        if live is None:
            return self._hold(run, output)
        fold = run.fold or self.begin(run)
        if run.first is not None:
            output = self._after_first(run, output)
        elif fold.may_be_all(output):
            assert isinstance(output, Text)
            run.first = output
            self.journal.hold_back(live, partial(self._first_events, run))
            return False
        ended = False
        for decision in fold.feed(output):
            ended = self._record(live, decision) or ended
        if ended and run.admission is not None and run.admission.settles is not None:
            self._settle(run, live, run.admission.settles, output)
        return ended

    def _settle(self, run: Run, live: LiveTask, settles: Settles, output: Output) -> None:
        """Change the records of the gate by what the turn used, in the commit of its end."""
        metadata = output.metadata if isinstance(output, Final | DirectReply) else None
        try:
            changes = settles(metadata or {})
        except Exception:  # noqa: BLE001 - logged, and the task ends
            _log.exception("the gate failed", extra=extra_of(run))
            return
        if changes:
            self.journal.attach(live, Group(changes, is_required=False))

    def _after_first(self, run: Run, output: Output) -> Output:
        """The output to record. An end without content takes over the text that was held back."""
        if type(output) is Final and not output.parts and not output.said:
            assert run.first is not None
            text, run.first = run.first.delta, None
            return Final((Part(text=text),), output.metadata)
        self.catch_up(run)
        return output

    def _first_events(self, run: Run) -> list[Event]:
        """Release the text that was held back, and return its events."""
        live, first = run.live, run.first
        run.first = None
        if first is None or live is None or run.fold is None or live.state in TERMINAL:
            return []
        decisions = run.fold.feed(first)
        return [self._chunk_event(live, each) for each in decisions if isinstance(each, Chunk)]

    def catch_up(self, run: Run) -> None:
        """Record the text that was held back, because something follows it."""
        live = run.live
        if live is not None and run.first is not None:
            for event in self._first_events(run):
                self.journal.record(live, event, state=live.state, status_ms=live.status_ms)

    def reveal(self, run: Run) -> bool:
        """Make a task of the run and record its output so far; False when some of that cannot
        be recorded."""
        try:
            self._reveal(run)
        except Exception:  # noqa: BLE001 - goes to the log
            # The output may not be JSON. The run has a task by now, which the caller needs.
            _log.exception("agent failed", extra=extra_of(run))
            return False
        return True

    def _reveal(self, run: Run) -> bool:
        held = run.staging.take() if run.staging is not None else []
        self.begin(run)
        # All of it is recorded before anything else can happen to the task.
        return any([self.feed(run, output) for output in held])

    def fail(self, run: Run) -> None:
        """Record that the agent raised an error."""
        if run.outcome is not None:
            # The reply could not be given, so its output no longer counts.
            run.outcome = run.staging = None
        try:
            self.feed(run, Failed(AGENT_FAILED))
        except Exception:  # noqa: BLE001 - goes to the log
            # The output held back may not be JSON either. The first attempt has discarded it.
            _log.exception("agent failed", extra=extra_of(run))
            self.feed(run, Failed(AGENT_FAILED))

    def refuse(self, run: Run, live: LiveTask, refused: Refusal) -> None:
        """Record that a task which waited for its first turn does not get it."""
        step = Step.REFUSE if run.agent.profile.refusal_state == "rejected" else Step.FAIL
        self.move(live, step, refusal_message(run, live, refused))

    def feed_stopped(self, run: Run, output: Output) -> bool:
        """Record or keep output after a stop, as the profile says; True when further output does
        not count."""
        live, fold = run.live, run.fold
        if (
            run.agent.style.names.keeps_output_after_stop
            and live is not None
            and fold is not None
            and live.state not in TERMINAL
            and not live.is_dropped
        ):
            self.catch_up(run)
            for decision in fold.hear(output):
                self._record(live, decision)
            return isinstance(output, ENDS_TURN)
        if run.agent.profile.late_output == "drop" or run.stopping is None:
            return True
        run.late = run.late or LateOutput()
        return run.late.hear(output) or isinstance(output, ENDS_TURN)

    def keep_late(self, run: Run, live: LiveTask) -> None:
        """Record the late output as an artifact of the ended task."""
        text = run.late.text if run.late is not None else ""
        accepted = _accepted(run)
        if text and (accepted is None or accepted.takes_text):
            artifact = Artifact(artifact_id=LATE, name=LATE, parts=(Part(text=text),))
            self._record(live, Chunk(artifact, append=False, last_chunk=True))

    def end(self, run: Run, live: LiveTask, step: Step, reason: str) -> None:
        """Record that the run was stopped, which ends its task by `step`."""
        if run.fold is None:
            self.move(live, step, say(live, f"{run.run_id}.stop", reason) if reason else None)
            return
        self.catch_up(run)
        for decision in run.fold.stop(step, reason):
            self._record(live, decision)

    def _hold(self, run: Run, output: Output) -> bool:
        if run.staging is None:
            is_hybrid = run.agent.profile.agent_style == "hybrid"
            run.staging = Staging(is_hybrid=is_hybrid, accepted=_accepted(run))
        outcome = run.staging.feed(output)
        match outcome:
            case Verdict.HOLD:
                return False
            case Verdict.PROMOTE:
                return self._reveal(run)
            case Direct():
                run.outcome = _reply(run, outcome)
            case Unrepresentable():
                run.outcome = _unrepresentable(run, outcome)
        return True

    def _record(self, live: LiveTask, decision: Decision) -> bool:
        """True when it ended the turn."""
        if isinstance(decision, Chunk):
            if not (decision.is_closing and self._close_last(live, decision)):
                event = self._chunk_event(live, decision)
                self.journal.record(live, event, state=live.state, status_ms=live.status_ms)
            return False
        step = decision.step
        # A waiting message is the answer to a question, or further work, so the task continues.
        if live.waiting and step in _ENDS_WELL:
            step = Step.CONTINUE
        self.move(live, step, decision.message, is_kept=decision.is_kept)
        return step is not _NOTE

    def _chunk_event(self, live: LiveTask, chunk: Chunk) -> TaskArtifactUpdateEvent:
        artifact = chunk.artifact
        for part in artifact.parts:
            # A text of fewer characters is never large.
            if part.text is not None and len(part.text) > MAX_INLINE_CHARS:
                parts = self.journal.slim(live, artifact.parts)
                artifact = structs.replace(artifact, parts=parts)
                break
        return TaskArtifactUpdateEvent(
            task_id=live.task_id,
            context_id=live.context_id,
            artifact=artifact,
            append=chunk.append,
            last_chunk=chunk.last_chunk or (False if chunk.is_open else None),
        )

    def _close_last(self, live: LiveTask, closing: Chunk) -> bool:
        """Mark the previous chunk as the last one, if it is not on its way to the store yet."""
        last = live.unflushed[-1].event if live.unflushed else None
        if (
            not isinstance(last, TaskArtifactUpdateEvent)
            or last.artifact.artifact_id != closing.artifact.artifact_id
        ):
            return False
        self.journal.amend(live, structs.replace(last, last_chunk=True))
        return True

    def move(
        self, live: LiveTask, step: Step, message: Message | None = None, *, is_kept: bool = True
    ) -> None:
        """Record a step of the task."""
        now_ms = self.clock.now_ms()
        state = TABLE[live.state, step]
        if message is not None:
            for part in message.parts:
                if part.text is not None and len(part.text) > MAX_INLINE_CHARS:
                    parts = self.journal.slim(live, message.parts)
                    message = structs.replace(message, parts=parts)
                    break
        status = TaskStatus(state=state, message=message, timestamp=format_timestamp(now_ms))
        event = TaskStatusUpdateEvent(
            task_id=live.task_id, context_id=live.context_id, status=status
        )
        self.journal.record(
            live,
            event if is_kept or message is None else StatusShown(status_update=event),
            state=state,
            status_ms=now_ms,
        )


def _accepted(run: Run) -> AcceptedModes | None:
    options = run.options
    if options is None or not options.accepted_output_modes:
        return run.agent.unnamed_modes
    return AcceptedModes.of(options.accepted_output_modes)


def _reply(run: Run, direct: Direct) -> Message:
    return Message(
        message_id=run.task_id,
        context_id=run.context_id,
        role=Role.AGENT,
        parts=direct.parts,
        metadata=direct.metadata,
    )


def _unrepresentable(run: Run, outcome: Unrepresentable) -> ContentTypeNotSupported:
    accepted = _accepted(run)
    return ContentTypeNotSupported(
        UNREPRESENTABLE,
        metadata={
            "acceptedOutputModes": ", ".join(accepted.named if accepted is not None else ()),
            "availableOutputModes": ", ".join(outcome.available),
        },
    )
