"""`StreamReaders`: opens the readers of streams, and gives each the task or run that it follows."""

import asyncio
from functools import partial

from msgspec import Struct, field

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import TrunklineError
from trunkline.model.values import TaskState
from trunkline.ports.store import Snapshot, Store
from trunkline.runtime.admitted import Admitted
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import NoReply, Opening, Reply, SnapshotSubscription, Subscription
from trunkline.runtime.heartbeats import Heartbeats
from trunkline.runtime.journal import Journal
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.registry import Registry
from trunkline.runtime.replay import MAX_STEPS, Replay
from trunkline.runtime.run import Run
from trunkline.runtime.task_json import task_json
from trunkline.runtime.wakeups import Wakeups

# The maximum number of entries to read at a time for a reader that resumes.
REPLAY_CHUNK = 500


class StreamReaders(Struct, frozen=True, kw_only=True, eq=False):
    store: Store
    registry: Registry
    journal: Journal
    subscriptions: Heartbeats
    stream_buffer: int
    _wakeups: Wakeups = field(default_factory=Wakeups)
    _replays: Wakeups = field(default_factory=lambda: Wakeups(MAX_STEPS))

    def open(
        self, agent: PublishedAgent, closes_on: frozenset[TaskState], *, is_whole: bool = False
    ) -> Subscription:
        """With `is_whole` the reader gets whole tasks, whatever the profile says."""
        make = SnapshotSubscription if is_whole else agent.reader
        reader = make(closes_on=closes_on, limit=self.stream_buffer, wakeups=self._wakeups)
        self.subscriptions.add(reader)
        reader.on_close(self.subscriptions.discard)
        return reader

    def attach(
        self,
        reader: Subscription,
        admitted: Admitted,
        history_length: int | None,
    ) -> None:
        """Stream what became of a message: an answer, a run, or a task."""
        if admitted.earlier is not None:
            earlier = admitted.earlier
            reader.finish(Opening(earlier.seq, task_json(earlier, history_length)))
            return
        if admitted.reply is not None:
            reader.finish(admitted.reply)
            return
        live = admitted.live
        if live is None:
            # The run has the reader, and hands it on when it becomes a task.
            assert admitted.run is not None
            if admitted.is_joined:
                self._follow_run(reader, admitted.run, history_length)
                return
            reader.on_close(partial(self._leave_run, admitted.run))
            _show(reader, admitted.run, history_length)
            return
        reader.on_close(partial(self._leave, live))
        _show(reader, live, history_length)
        if reader in live.subscriptions:
            return
        if admitted.begun_after:
            accepted = live.ahead(admitted.begun_after).snapshot()
            reader.open_with(Opening(accepted.seq, task_json(accepted, history_length)))
            live.subscribe(reader)
            return
        is_new = live.unflushed or live.in_flight
        if is_new:
            self.journal.once_durable(live, partial(self._join, reader, live, history_length))
        else:
            self._join(reader, live, history_length, None)

    async def attach_forwarded(
        self, reader: Subscription, admitted: Admitted, history_length: int | None
    ) -> None:
        """Stream a task that another node works on, from the message that was sent."""
        live, seq = admitted.live, admitted.accepted_seq
        assert live is not None
        with self.registry.pinned(live):
            accepted = await as_accepted(self.store, live, seq)
            reader.on_close(partial(self._leave, live))
            _show(reader, live, history_length)
            if isinstance(reader, SnapshotSubscription):
                if live.committed_state in reader.closes_on and accepted.seq < live.committed_seq:
                    # The turn was over before this node could join, and the task has a start.
                    reader.put(Opening(accepted.seq, task_json(accepted, history_length)))
                self._join(reader, live, history_length, None)
                return
            # The first entry of a new task is the task itself.
            is_from_start = seq == 1 and history_length != 0
            if not is_from_start:
                reader.put(Opening(accepted.seq, task_json(accepted, history_length)))
            await self._replay(reader, live, 0 if is_from_start else accepted.seq)

    def _follow_run(self, reader: Subscription, run: Run, history_length: int | None) -> None:
        """Stream the outcome of a run that an earlier request began."""
        assert run.answer is not None
        reader.on_close(self.subscriptions.discard)

        def tell(answer: "asyncio.Future[Reply | NoReply | LiveTask]") -> None:
            if reader.is_ended or answer.cancelled():
                return
            outcome = answer.result()
            if isinstance(outcome, LiveTask):
                self.attach(reader, Admitted(live=outcome), history_length)
                return
            reader.finish(outcome)

        run.answer.add_done_callback(tell)

    def _join(
        self,
        reader: Subscription,
        live: LiveTask,
        history_length: int | None,
        error: TrunklineError | None,
    ) -> None:
        """Snapshot and live tail in one step, so there is neither gap nor duplicate."""
        if error is not None:
            reader.stop(error.message, 0)
            return
        if reader.is_ended:  # the client left before the commit
            return
        reader.put(_opening(live, history_length))
        if live.committed_state in reader.closes_on or live.is_orphan:
            reader.end()
        else:
            live.subscribe(reader)

    async def follow(self, reader: Subscription, live: LiveTask, last_seq: int | None) -> None:
        """Give the reader the task and all further entries, or only the entries after
        `last_seq`."""
        reader.on_close(partial(self._leave, live))
        _show(reader, live, None)
        if last_seq is None or isinstance(reader, SnapshotSubscription):
            self._join(reader, live, None, None)
            return
        try:
            await self._replay(reader, live, last_seq)
        except BaseException:
            reader.close()
            raise

    async def _replay(self, reader: Subscription, live: LiveTask, after: int) -> None:
        """Give the reader the entries of the journal after entry `after`, then those to come."""
        # Subscribed during the replay, so that the task stays in memory.
        live.subscribe(reader)
        replay = Replay(
            store=self.store,
            live=live,
            reader=reader,
            seen=after,
            chunk=min(REPLAY_CHUNK, self.stream_buffer),
            turns=self._replays,
            rejoin=self._rejoin,
        )
        reader.catch_up(replay.step, after=after)
        # Nothing is sent yet, so a journal that cannot be read becomes an error response.
        await replay.step()

    def _rejoin(self, reader: Subscription, live: LiveTask) -> None:
        live.unsubscribe(reader)
        self._join(reader, live, None, None)

    def _leave_run(self, run: Run, reader: Subscription) -> None:
        if run.live is not None:
            self._leave(run.live, reader)
        else:
            run.forget_reader()
            self.subscriptions.discard(reader)

    def _leave(self, live: LiveTask, reader: Subscription) -> None:
        self.subscriptions.discard(reader)
        live.unsubscribe(reader)
        self.registry.forget_if_idle(live)


async def as_accepted(store: Store, live: LiveTask, seq: int) -> Snapshot:
    """The task as of entry `seq`, or as it is now where the journal is not complete."""
    entries = await store.entries(live.task_id, after=0, limit=seq) if seq else ()
    if not entries or entries[-1].seq != seq or len(entries) != seq:
        return live.view()
    fold = TaskFold.begin(entries[0])
    for entry in entries[1:]:
        fold.apply(entry)
    return fold.snapshot()


def _show(reader: Subscription, of: LiveTask | Run, history_length: int | None) -> None:
    """Tell a reader of snapshots where to get them."""
    if isinstance(reader, SnapshotSubscription):
        reader.opening = partial(_opening, of, history_length)


def _opening(of: LiveTask | Run, history_length: int | None) -> Opening:
    live = of.live if isinstance(of, Run) else of
    assert live is not None
    view = live.view()
    return Opening(view.seq, task_json(view, history_length, live.position))
