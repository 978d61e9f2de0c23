"""What a run says, on its way into the journal of its task, or back as a direct reply."""

from collections.abc import Callable

from msgspec import structs

from trunkline.engine.decisions import Chunk, Decision, Move
from trunkline.engine.media_types import UNREPRESENTABLE, AcceptedModes
from trunkline.engine.promotion import Direct, Staging, Unrepresentable, Verdict
from trunkline.engine.transitions import Step, after
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.errors import ContentTypeNotSupported
from trunkline.model.events import StatusShown
from trunkline.model.large_values import MAX_INLINE_CHARS
from trunkline.model.outputs import Final, Output, Text
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
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.run import Run

# By names of their own where it counts: Python 3.11 looks members up through the metaclass.
_START = Step.START
_NOTE = Step.NOTE
_ENDS_WELL = frozenset({Step.COMPLETE, Step.ASK, Step.NEED_AUTH})

# The artifact with what came too late; a task ends once, so it is there once at most.
LATE = "late-output"


class Recorder:
    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        promote: Callable[[Run], LiveTask],
        drop_waiting: Callable[[LiveTask], None],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._promote = promote
        self._drop_waiting = drop_waiting

    def begin(self, run: Run) -> TurnFold:
        """The turn shows from here on, so it needs a task."""
        live = run.live or self._promote(run)
        style = run.agent.style
        if run.is_resumed:
            return self._resume(run, live)
        live.turns += 1
        made = [each.artifact_id for each in live.ahead().artifacts] if live.turns > 1 else ()
        if style.names.reports_submitted_first:
            self.move(live, Step.ACCEPT)
        self.move(live, _START)
        run.fold = TurnFold(
            run_id=run.run_id,
            task_id=live.task_id,
            context_id=live.context_id,
            number=live.turns,
            artifact_ids=made,
            style=style,
            accepted=_accepted(run),
        )
        return run.fold

    def _resume(self, run: Run, live: LiveTask) -> TurnFold:
        """The turn has begun before. What it says anew has the names that it had then."""
        made = [each.artifact_id for each in live.ahead().earlier_artifacts]
        run.fold = TurnFold(
            run_id=run.run_id,
            task_id=live.task_id,
            context_id=live.context_id,
            number=live.turns,
            artifact_ids=made,
            style=run.agent.style,
            accepted=_accepted(run),
            # More than it can have said by then: no message has the id of another.
            said=live.seq,
        )
        return run.fold

    def feed(self, run: Run, output: Output) -> bool:
        """Record what the output means; True when it ended the turn."""
        live = run.live
        if live is None:
            return self._hold(run, output)
        fold = run.fold or self.begin(run)
        if run.first is not None:
            output = self._after_first(run, live, output)
        elif fold.may_be_all(output):
            assert isinstance(output, Text)
            run.first = output
            if not live.is_dirty:
                self._journal.schedule(live)
            return False
        ended = False
        for decision in fold.feed(output):
            if isinstance(decision, Chunk):
                self._record_chunk(live, decision)
            else:
                ended = self._record_move(live, decision) or ended
        return ended

    def _after_first(self, run: Run, live: LiveTask, output: Output) -> Output:
        """What the output comes to, given the text that was kept back before it."""
        if type(output) is Final and not output.parts and not output.said:
            assert run.first is not None
            text, run.first = run.first.delta, None
            return Final((Part(text=text),), output.metadata)
        self.catch_up(live)
        return output

    def catch_up(self, live: LiveTask) -> None:
        """Record what is kept back, for it has to show now."""
        run = live.run
        if run is None or run.first is None or run.fold is None:
            return
        first, run.first = run.first, None
        if live.state not in TERMINAL:
            for decision in run.fold.feed(first):
                self._record(live, decision)

    def reveal(self, run: Run) -> bool:
        """The run needs a task now, and all that it held back goes there."""
        held = run.staging.take() if run.staging is not None else []
        self.begin(run)
        # All of it is recorded before anything else can happen to the task.
        return any([self.feed(run, output) for output in held])

    def hear(self, run: Run, output: Output) -> bool:
        """Record what a run still says while it is being stopped, if that counts."""
        live, fold = run.live, run.fold
        if not run.agent.style.names.keeps_output_after_stop or live is None or fold is None:
            return False
        if live.state in TERMINAL or live.is_dropped:
            return False
        self.catch_up(live)
        for decision in fold.hear(output):
            self._record(live, decision)
        return True

    def keep_late(self, run: Run, live: LiveTask) -> None:
        """What was said when nothing counted any more, as an artifact of the ended task."""
        text = run.late.text if run.late is not None else ""
        accepted = _accepted(run)
        if text and (accepted is None or accepted.takes_text):
            artifact = Artifact(artifact_id=LATE, name=LATE, parts=(Part(text=text),))
            self._record_chunk(live, Chunk(artifact, append=False, last_chunk=True))

    def end(self, run: Run, live: LiveTask, step: Step, reason: str) -> None:
        """The run is stopped, and its task ends by that step."""
        if run.fold is None:
            self.move(live, step, say(live, f"{run.run_id}.stop", reason) if reason else None)
            return
        self.catch_up(live)
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
                return self.reveal(run)
            case Direct():
                run.outcome = _reply(run, outcome)
            case Unrepresentable():
                run.outcome = _unrepresentable(run, outcome)
        return True

    def _record(self, live: LiveTask, decision: Decision) -> None:
        if isinstance(decision, Chunk):
            self._record_chunk(live, decision)
        else:
            self._record_move(live, decision)

    def _record_move(self, live: LiveTask, decision: Move) -> bool:
        """True when it ended the turn."""
        step = decision.step
        # A message that waits is the answer to a question, and work left to do.
        if live.waiting and step in _ENDS_WELL:
            step = Step.CONTINUE
        self.move(live, step, decision.message, is_kept=decision.is_kept)
        return step is not _NOTE

    def _record_chunk(self, live: LiveTask, chunk: Chunk) -> None:
        if chunk.is_closing and self._close_last(live, chunk):
            return
        artifact = chunk.artifact
        for part in artifact.parts:
            # Longer than this, it is looked at closely.
            if part.text is not None and len(part.text) > MAX_INLINE_CHARS:
                parts = self._journal.slim(live, artifact.parts)
                artifact = structs.replace(artifact, parts=parts)
                break
        event = TaskArtifactUpdateEvent(
            task_id=live.task_id,
            context_id=live.context_id,
            artifact=artifact,
            append=chunk.append,
            last_chunk=chunk.last_chunk or (False if chunk.is_open else None),
        )
        self._journal.record(live, event, state=live.state, status_ms=live.status_ms)

    def _close_last(self, live: LiveTask, closing: Chunk) -> bool:
        """Mark the chunk before as the last one, if it has not left for the store yet."""
        last = live.unflushed[-1].event if live.unflushed else None
        if (
            not isinstance(last, TaskArtifactUpdateEvent)
            or last.artifact.artifact_id != closing.artifact.artifact_id
        ):
            return False
        self._journal.amend(live, structs.replace(last, last_chunk=True))
        return True

    def move(
        self, live: LiveTask, step: Step, message: Message | None = None, *, is_kept: bool = True
    ) -> None:
        """Record a step of the task."""
        now_ms = self._clock.now_ms()
        state = after(live.state, step)
        if message is not None:
            for part in message.parts:
                if part.text is not None and len(part.text) > MAX_INLINE_CHARS:
                    parts = self._journal.slim(live, message.parts)
                    message = structs.replace(message, parts=parts)
                    break
        status = TaskStatus(state=state, message=message, timestamp=format_timestamp(now_ms))
        event = TaskStatusUpdateEvent(
            task_id=live.task_id, context_id=live.context_id, status=status
        )
        self._journal.record(
            live,
            event if is_kept or message is None else StatusShown(status_update=event),
            state=state,
            status_ms=now_ms,
        )
        if live.waiting and state in TERMINAL:
            self._drop_waiting(live)


def say(live: LiveTask, message_id: str, text: str) -> Message:
    """A message of the gateway itself, in the agent's place."""
    return Message(
        message_id=f"{live.task_id}.{message_id}",
        context_id=live.context_id,
        task_id=live.task_id,
        role=Role.AGENT,
        parts=(Part(text=text),),
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
