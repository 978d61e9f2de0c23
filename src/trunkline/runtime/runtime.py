"""`Runtime`: assembles the parts, opens and recovers them, and drains them at the end."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from trunkline.background import BackgroundTasks
from trunkline.engine.gateway_texts import GATEWAY_STOPPED
from trunkline.engine.recovery import Recovery, recover, restart_reason
from trunkline.engine.retention import ClockTrust
from trunkline.engine.transitions import Step
from trunkline.model.errors import LimitReached, StoreError, TrunklineError
from trunkline.model.principal import Principal
from trunkline.model.values import TaskState
from trunkline.ports.backend import Abandons
from trunkline.ports.call_path import CredentialFor
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.cluster import Cluster, Told
from trunkline.ports.copying import require_whole
from trunkline.ports.figures import Figure, Measured
from trunkline.ports.gate import Gate
from trunkline.ports.store import Store, StoredTask
from trunkline.runtime import reservations
from trunkline.runtime.adoptions import Adoptions
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.blocking_send import BlockingSends
from trunkline.runtime.direct_answers import DirectAnswers
from trunkline.runtime.drain import Drain
from trunkline.runtime.due_work import DueKind, DueWork
from trunkline.runtime.follow_ups import FollowUps
from trunkline.runtime.followers import Followers
from trunkline.runtime.forwarding import Forwarding
from trunkline.runtime.heartbeats import Heartbeats
from trunkline.runtime.housekeeping import Housekeeping
from trunkline.runtime.idempotency import IdempotencyKeys
from trunkline.runtime.inbox import Inbox
from trunkline.runtime.intake import Intake
from trunkline.runtime.journal import Journal
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.live_task import LiveTask, say
from trunkline.runtime.membership import Membership
from trunkline.runtime.new_tasks import NewTasks
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.ownership import Ownership
from trunkline.runtime.participants import Participants, Rejoin, Watchers
from trunkline.runtime.publishing import Publishing
from trunkline.runtime.queued_replies import QueuedReplies
from trunkline.runtime.recorder import Recorder
from trunkline.runtime.registry import Registry
from trunkline.runtime.retention import Retention
from trunkline.runtime.runs import Runs
from trunkline.runtime.service import Service
from trunkline.runtime.sessions import Sessions
from trunkline.runtime.shared_service import SharedService
from trunkline.runtime.slots import Slots
from trunkline.runtime.spreading import Spreading
from trunkline.runtime.store_refusals import StoreRefusals
from trunkline.runtime.store_waits import StoreWaits
from trunkline.runtime.stream_readers import StreamReaders
from trunkline.runtime.turn_gate import TurnGate
from trunkline.runtime.turns import Turns

_log = logging.getLogger("trunkline.runtime")


class Runtime:
    """The parts of one store and its agents. The server calls `service`, between `open` and
    `close`."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        agents: Iterable[PublishedAgent],
        main: MainStore | None = None,
        stream_buffer: int = 1000,
        heartbeat_s: float = 15.0,
        cluster: Cluster | None = None,
        participants: Mapping[str, Rejoin] | None = None,
        watchers: Watchers | None = None,
        gate: Gate | None = None,
        due_kinds: Iterable[DueKind] = (),
        gateway: str = "",
        credentials: Callable[[Principal | None, str], CredentialFor] | None = None,
    ) -> None:
        """`main` is the way to the main store, unless `store` is that. `cluster` joins this runtime
        with the others that share the store. `participants` are the features that come back with
        their tasks, by the kind of their records; `watchers` returns those that a task has
        without a record. `due_kinds` is the due work of features that the
        runtime does not know. `gateway` names the gateway in call chains, alike at all nodes.
        `credentials` are those of calls that agents make during turns."""
        self.store = store
        self._clock = clock
        self.main = main or MainStore.own(store, ids=ids)
        self.agents = {agent.handle: agent for agent in agents}
        journal = self.journal = Journal(store=store, ids=ids, observer=self)
        rejoins = dict(participants or {})
        if gate is not None:
            rejoins[reservations.KIND] = reservations.rejoin
        registry = self.registry = Registry(
            store=store,
            journal=journal,
            participants=Participants(store=store, kinds=rejoins, watchers=watchers or Watchers())
            if rejoins or watchers is not None
            else None,
        )
        large_values = LargeValues(store)
        self.queued_replies = QueuedReplies(
            store=store, registry=registry, journal=journal, ids=ids
        )
        direct = DirectAnswers(store=store, clock=clock)
        self.sessions = Sessions(
            store=store,
            clock=clock,
            queued_replies=self.queued_replies,
            large_values=large_values,
            direct=direct,
            open_main=self.main.open,
        )
        self.keys = IdempotencyKeys(store=store, registry=registry, journal=journal)
        new_tasks = NewTasks(keys=self.keys, registry=registry, journal=journal, clock=clock)
        self.recorder = Recorder(journal=journal, clock=clock, new_tasks=new_tasks)
        turns = Turns(
            journal=journal,
            recorder=self.recorder,
            registry=registry,
            sessions=self.sessions,
            keys=self.keys,
            direct=direct,
            credentials=credentials,
        )
        tasks = BackgroundTasks("turns")
        turn_gate = None
        if gate is not None:
            turn_gate = TurnGate(gate=gate, store=store, clock=clock, ids=ids, tasks=tasks)
        runs = self.runs = Runs(
            journal=journal,
            clock=clock,
            registry=registry,
            keys=self.keys,
            direct=direct,
            new_tasks=new_tasks,
            recorder=self.recorder,
            turns=turns,
            tasks=tasks,
            gate=turn_gate,
        )
        self._drain = Drain(runs)
        self.publishing = Publishing(
            agents=self.agents,
            drain=self._drain,
            sessions=self.sessions,
            recover=self.recover,
            gateway=gateway,
        )
        self._refusals = StoreRefusals(
            journal=journal,
            registry=registry,
            recorder=self.recorder,
            new_tasks=new_tasks,
            runs=runs,
            clock=clock,
        )
        self.ownership: Ownership | None = None
        forwarding: Forwarding | None = None
        waits: StoreWaits | None = None
        if cluster is not None:
            followers = Followers(store=store, registry=registry, journal=journal)
            slots = Slots(cluster=cluster, find=self.publishing.find, begin=runs.begin)
            runs.slots = self.publishing.slots = slots
            self.ownership = registry.ownership = Ownership(
                cluster=cluster,
                clock=clock,
                registry=registry,
                journal=journal,
                followers=followers,
                slots=slots,
                agents=self.agents,
                find=self.publishing.find,
                recover=self._recover_lane,
                give_up=runs.give_up,
            )
            forwarding = Forwarding(store=store, clock=clock, ids=ids, ownership=self.ownership)
            self.queued_replies.forwarding = forwarding
            waits = StoreWaits(store)
        held = reservations.Reservations(journal)
        self.follow_ups = FollowUps(
            reservations=held,
            keys=self.keys,
            registry=registry,
            journal=journal,
            runs=runs,
            clock=clock,
            gate=turn_gate,
        )
        self.intake = Intake(
            reservations=held,
            forwarding=forwarding,
            waits=waits,
            keys=self.keys,
            registry=registry,
            journal=journal,
            runs=runs,
            new_tasks=new_tasks,
            follow_ups=self.follow_ups,
            ids=ids,
            gate=turn_gate,
        )
        # Takes over the tasks that another gateway began.
        self.adoptions = Adoptions(
            store=store,
            keys=self.keys,
            registry=registry,
            journal=journal,
            runs=runs,
            new_tasks=new_tasks,
            reservations=held,
            intake=self.intake,
            gate=turn_gate,
            forwarding=forwarding,
            waits=waits,
        )
        subscriptions = Heartbeats(heartbeat_s)
        make_service: Callable[..., Service] = Service
        if waits is not None:
            make_service = partial(SharedService, waits=waits, forwarding=forwarding)
        self.service = make_service(
            store=store,
            registry=registry,
            journal=journal,
            runs=runs,
            intake=self.intake,
            blocking_sends=BlockingSends(
                journal=journal, runs=runs, clock=clock, forwarding=forwarding
            ),
            large_values=large_values,
            readers=StreamReaders(
                store=store,
                registry=registry,
                journal=journal,
                subscriptions=subscriptions,
                stream_buffer=stream_buffer,
            ),
        )
        self._membership: Membership | None = None
        if self.ownership is not None and forwarding is not None and waits is not None:
            inbox = Inbox(
                store=store,
                ownership=self.ownership,
                forwarding=forwarding,
                service=self.service,
                adoptions=self.adoptions,
                queued_replies=self.queued_replies,
                agents=self.agents,
            )
            runs.spreading = Spreading(
                ownership=self.ownership, runs=runs, agents=self.agents, clock=clock
            )
            self._membership = Membership(
                ownership=self.ownership,
                forwarding=forwarding,
                inbox=inbox,
                spreading=runs.spreading,
                waits=waits,
                clock=clock,
                wake_due=lambda: self.due.wake(),
            )
        self.retention = Retention(
            store=store,
            clock=clock,
            trust=ClockTrust(now_ms=clock.now_ms(), monotonic_s=clock.monotonic()),
            agents=self.agents,
            committed=lambda: journal.committed_entries,
            main=self.main,
        )
        registry.is_expired = self.retention.is_expired
        kinds = [self.retention.due_kind(), *self.main.due_kinds(), *due_kinds]
        if self._membership is not None:
            kinds.append(self._membership.inbox.due_kind())
        self.due = DueWork(store=store, clock=clock, kinds=kinds)
        self._housekeeping = Housekeeping(
            store=store,
            journal=journal,
            subscriptions=subscriptions,
            runs=runs,
            clock=clock,
            retention=self.retention,
        )
        self.is_ready = False

    @property
    def is_shared(self) -> bool:
        """Whether several nodes may share the store."""
        return self._membership is not None

    def hear(self, topic: str, hear: Callable[[str], object]) -> None:
        """Call a feature with what its own at the other nodes tell about the topic, and with an
        empty text when something may have been lost."""
        if self._membership is not None:
            self._membership.features[topic] = hear

    def tell(self, topic: str, text: str = "") -> None:
        """Tell the feature at the other nodes. Never blocks and never fails."""
        if self.ownership is not None:
            self.ownership.cluster.tell(Told(topic, text))

    def problems(self) -> list[str]:
        """The reasons why this runtime should get no traffic now, for `/readyz`."""
        found = [] if self.is_ready else ["starting or shutting down"]
        if problem := self.store.problem:
            found.append(problem)
        if stuck := self._housekeeping.stuck_commits:
            found.append(stuck)
        if self.ownership is not None and not self.ownership.is_joined:
            found.append("this node has lost touch with the others")
        return found

    def figures(self) -> Iterator[Figure]:
        """Figures of a runtime that shares its store, for `/metrics`."""
        if self.ownership is None:
            return
        lanes, taken_over = len(self.ownership.held), self.ownership.taken_over
        fenced = self.journal.fenced_appends
        yield "trunkline_lanes_owned", "Lanes that this node owns.", lanes
        yield "trunkline_lanes_taken_over_total", "Lanes taken over from others.", taken_over
        yield "trunkline_appends_fenced_total", "Commits refused as a former owner's.", fenced
        for part in (self.store, self.ownership.cluster):
            if isinstance(part, Measured):
                yield from part.figures()

    async def open(self) -> None:
        await self.store.open()
        await require_whole(self.store)
        await self._housekeeping.start()
        for agent in self.agents.values():
            await self.publishing.open_backend(agent)
        if self._membership is not None:
            await self._membership.start()
        else:
            await self.recover()
        # Claims are those of the node, which has its name now.
        self.due.start()
        self.is_ready = True

    async def recover(self, handle: str = "") -> None:
        """Continue the tasks that have work to do and no run: of one agent, or of all. A second
        call does no harm."""
        if self.ownership is not None:
            await self.ownership.take_over()
            return
        outcomes: Counter[Recovery] = Counter()
        to_run: list[tuple[PublishedAgent, LiveTask]] = []
        for scope, task_id in await self.store.unfinished():
            live = self.registry.live(scope, task_id)
            if (live is None or live.is_orphan) and handle in ("", scope.agent):
                stored = await self.store.get(scope, task_id)
                if stored is not None:
                    outcomes[await self._recover_stored(stored, to_run)] += 1
        self.follow_ups.requeue(to_run)
        # Wait for the commits, so that no client sees a working task that has no run.
        for live in self.registry.all():
            with suppress(TrunklineError):
                await self.journal.durable(live)
        if outcomes:
            _log.info("recovered unfinished tasks", extra={k.value: n for k, n in outcomes.items()})

    async def _recover_stored(
        self, stored: StoredTask, to_run: list[tuple[PublishedAgent, LiveTask]]
    ) -> Recovery:
        if self._recovery_of(stored) is Recovery.LEAVE:
            return Recovery.LEAVE
        # A reader of its stream may hold the task of an agent that was withdrawn in memory.
        live = self.registry.live(stored.scope, stored.task_id) or LiveTask.of(stored)
        if self.registry.participants is not None:
            await self.registry.participants.rejoin(live)
        self.registry.add(live)
        return self._recover(live, to_run)

    def _recover_lane(self, left: Sequence[LiveTask]) -> None:
        """Treat the tasks of a lane that this node took over as a restart would."""
        to_run: list[tuple[PublishedAgent, LiveTask]] = []
        for live in left:
            if self._recovery_of(live) is Recovery.LEAVE:
                self.registry.forget_if_idle(live)
            else:
                self._recover(live, to_run)
        self.follow_ups.requeue(to_run)

    def _recovery_of(self, task: StoredTask | LiveTask) -> Recovery:
        agent = self.agents.get(task.scope.agent)
        # Tasks of an agent that is no longer published wait until it is published again.
        if agent is None:
            return Recovery.LEAVE
        policies, can_resume = agent.profile.on_restart, agent.backend.can_resume
        return recover(task.state, policies, can_resume=can_resume)

    def _recover(self, live: LiveTask, to_run: list[tuple[PublishedAgent, LiveTask]]) -> Recovery:
        agent = self.agents[live.scope.agent]
        decision = self._recovery_of(live)
        fold = live.committed()
        is_known = fold.pending if live.state is TaskState.SUBMITTED else fold.knows_turn
        if decision is not Recovery.FAIL and not is_known:
            # Another program stored the task, and only its state is known.
            decision = Recovery.FAIL
        if decision in (Recovery.FAIL, Recovery.RETRY):
            self._abandon(agent, live)
        if decision is Recovery.FAIL:
            reason = restart_reason(live.state)
            self.recorder.move(live, Step.FAIL, say(live, f"restart.{live.seq}", reason))
            return decision
        if decision is Recovery.RETRY:
            self.recorder.record_retry(live)
        to_run.append((agent, live))
        return decision

    def _abandon(self, agent: PublishedAgent, live: LiveTask) -> None:
        """Tell an agent that may still work on the task that its work is no longer wanted."""
        fold = live.committed()
        taken_up = fold.under_way
        run_id = fold.asked_by if taken_up is None else taken_up.run_id(live.task_id)
        # Other backends ended with the process that ran them.
        if run_id and isinstance(agent.backend, Abandons):
            self.runs.abandon(agent, live, run_id)

    def stop_admitting(self) -> None:
        self.is_ready = False
        self.intake.close()

    def end_streams(self, reason: str) -> None:
        """End every stream; each reader can resume where it was."""
        for live in self.registry.all():
            for reader in live.subscriptions:
                reader.stop(reason, live.committed_seq)

    async def drain(self, *, grace_s: float) -> None:
        """Accept no more messages, let runs finish for `grace_s`, stop the others, and end all
        streams."""
        self.stop_admitting()
        if self.runs.slots is not None:
            self.runs.slots.stop()
        await self._drain.all(grace_s=grace_s, reason=GATEWAY_STOPPED)
        for live in self.registry.all():
            with suppress(TrunklineError):
                await self.journal.durable(live)
            # The sender of a queued task gets it as it is: the task runs after the restart.
            self.journal.answer_waiters(live)
        if self._membership is not None:
            # A handler that is ended here runs again at another node, which has its claim then.
            await self.due.close(grace_s=0)
            await self._membership.close()
            # Since then nothing tells this node how the tasks of others end.
            for live in self.registry.all():
                self.journal.answer_waiters(live)
        self.end_streams("the gateway is shutting down")

    async def close(self) -> None:
        await self.drain(grace_s=0)
        # A handler that is ended here runs again after the next start.
        await self.due.close(grace_s=0)
        await self._housekeeping.close()
        for agent in (*self.agents.values(), *self.publishing.leaving):
            await agent.backend.close()
        self.publishing.leaving.clear()
        await self.store.close()

    def settled(self, live: LiveTask) -> None:
        if live.keys:
            self.keys.forget(live)
        self.registry.forget_if_idle(live)

    def limited(self, live: LiveTask, error: LimitReached) -> bool:
        return self._refusals.limited(live, error)

    def refused(self, live: LiveTask, error: StoreError) -> None:
        self.keys.forget(live)
        self._refusals.refused(live, error)
