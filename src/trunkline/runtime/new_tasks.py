"""`NewTasks`: makes the task of a run, or a task that says why a message was refused."""

from msgspec import Struct, structs

from trunkline.engine.gateway_texts import refusal_text
from trunkline.engine.queue_limits import INTERRUPTED
from trunkline.engine.run_states import WAITING
from trunkline.model.calls import Refusal
from trunkline.model.events import TaskSubmitted
from trunkline.model.large_values import MAX_INLINE_CHARS
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import (
    Message,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.clock import Clock
from trunkline.ports.store import Creation
from trunkline.runtime.given_tasks import FirstEntry
from trunkline.runtime.idempotency import IdempotencyKeys, RequestKey
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask, message_of_task, say
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run

# A constant, because Python 3.11 looks up enum members through the metaclass, which is slow.
_SUBMITTED = TaskState.SUBMITTED
REFUSAL_STATES = {"rejected": TaskState.REJECTED, "failed": TaskState.FAILED}


class NewTasks(Struct, frozen=True, kw_only=True, eq=False):
    keys: IdempotencyKeys
    registry: Registry
    journal: Journal
    clock: Clock

    def promote(self, run: Run) -> LiveTask:
        """Make the task of a run that has none yet, whether the run waits or has started."""
        return self.create(run, run.key)

    def create(
        self,
        run: Run,
        key: RequestKey | None,
        refused: Refusal | None = None,
        *,
        again: LiveTask | None = None,
    ) -> LiveTask:
        """Make the task of a message. With `refused`, the task has ended from the start. `again` is
        a task that the store refused because of a limit: it is recorded anew."""
        now_ms = self.clock.now_ms()
        task_id, context_id, scope = run.task_id, run.context_id, run.lane.scope
        is_waiting = run.state in WAITING
        live = again or LiveTask(
            task_id=task_id,
            scope=scope,
            context_id=context_id,
            lease=run.lease,
            run=None if is_waiting or refused is not None else run,
            waiting=[run] if is_waiting and refused is None else [],
        )
        given = run.given
        created_ms = now_ms if given is None else given.created_ms
        live.creation = Creation(scope, context_id, created_ms)
        if again is not None:
            self.keys.keep_again(live)
        else:
            if run.lease.lane:
                run.lease.tasks.add(live)
            if key is not None:
                self.keys.keep(live, key)
            if run.admission is not None and run.admission.also:
                live.admitted = run
                for group in run.admission.also:
                    self.journal.attach(live, group)
            self.registry.add(live)
        state = _SUBMITTED
        said: Message | None = None
        if refused is not None:
            state = _refused_state(run, refused)
            said = refusal_message(run, live, refused)
        message = message_of_task(run.message, task_id, context_id)
        run.become(live, message)
        participants = self.registry.participants
        if participants is not None and participants.watchers.of is not None:
            live.participants += participants.watchers.of(live)
        if run.joins is not None:
            self.registry.join(live, run.joins)
        if given is not None:
            self._record_given(live, given, state, said)
            return live
        for part in message.parts:
            if part.text is not None and len(part.text) > MAX_INLINE_CHARS:
                parts = self.journal.slim(live, message.parts)
                message = structs.replace(message, parts=parts)
                break
        task = Task(
            id=task_id,
            context_id=context_id,
            status=TaskStatus(state=state, message=said, timestamp=format_timestamp(now_ms)),
            history=(message,) if said is None else (message, said),
        )
        options = run.options
        event = task if options is None else TaskSubmitted(task=task, options=options)
        self.journal.record(live, event, state=state, status_ms=now_ms)
        return live

    def _record_given(
        self, live: LiveTask, given: FirstEntry, state: TaskState, said: Message | None
    ) -> None:
        """Record the entry as it is, except that large texts become references as in any other.
        Where the gateway has `said` that the message is refused, a second entry says so."""
        parts = self.journal.slim(live, given.message.parts)
        entry = given.entry if parts is given.message.parts else given.with_parts(parts)
        self.journal.record_first(live, entry, status_ms=given.status_ms)
        if said is None:
            return
        now_ms = self.clock.now_ms()
        status = TaskStatus(state=state, message=said, timestamp=format_timestamp(now_ms))
        event = TaskStatusUpdateEvent(
            task_id=live.task_id, context_id=live.context_id, status=status
        )
        self.journal.record(live, event, state=state, status_ms=now_ms)


def _refused_state(run: Run, refused: Refusal) -> TaskState:
    if refused is INTERRUPTED:
        return TaskState.FAILED
    return REFUSAL_STATES[run.agent.profile.refusal_state]


def refusal_message(run: Run, live: LiveTask, refused: Refusal) -> Message:
    """The status message of a task that was refused."""
    name = refused.reason.replace("_", "-")
    metadata = {"reason": refused.reason, "retryAfterSeconds": refused.retry_after_s}
    text = refusal_text(run.agent.profile.texts, refused, handle=run.agent.handle)
    return say(live, name, text, metadata)
