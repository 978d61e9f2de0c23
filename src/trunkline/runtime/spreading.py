"""`Spreading`: contexts that wait at a busy node go to a node that has room.

This concerns agents with `max_concurrency_per_node`. A node that could run more turns says so
(`RoomLeft`). A node that runs as many as it may then frees lanes in which no turn has begun, those
that wait longest first (`LanesFreed`), and the other one takes them over like those of a node that
left. Where that fails, any node takes them over with its next sweep, the first one included.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct, field

from trunkline.background import BackgroundTasks
from trunkline.engine.recovery import Recovery, recover
from trunkline.engine.run_states import RunEvent, RunState
from trunkline.model.errors import StoreError, TrunklineError
from trunkline.model.values import HAS_WORK
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import LanesFreed, RoomLeft
from trunkline.runtime.agents import Lane, PublishedAgent
from trunkline.runtime.ownership import Ownership, is_quiet
from trunkline.runtime.run import Run
from trunkline.runtime.runs import Runs

_log = logging.getLogger("trunkline.cluster")

# A node that has room says so again with every sweep.
_ROOM_KNOWN_S = 2.0
_CONTINUES = (Recovery.REQUEUE, Recovery.RESUME)


class _Room(Struct, eq=False):
    """The turns that another node could run, as it said last."""

    turns: int
    until: float


class Spreading(Struct, kw_only=True, eq=False):
    ownership: Ownership
    runs: Runs
    agents: Mapping[str, PublishedAgent]
    clock: Clock
    # By agent.
    _elsewhere: dict[str, _Room] = {}
    _tasks: BackgroundTasks = field(default_factory=lambda: BackgroundTasks("spreading"))

    async def close(self) -> None:
        await self._tasks.close()

    def sweep(self) -> None:
        for agent in self.agents.values():
            if agent.lanes.max_running:
                self.offer(agent)

    def offer(self, agent: PublishedAgent) -> None:
        """Tell the other nodes how many more turns of the agent could run here."""
        if (turns := self._room(agent)) > 0:
            self.ownership.cluster.tell(RoomLeft(agent.handle, turns))

    def _room(self, agent: PublishedAgent) -> int:
        lanes = agent.lanes
        if self.runs.is_draining or not self.ownership.is_joined:
            return 0
        return lanes.max_running - lanes.busy

    def hear_room(self, handle: str, turns: int) -> None:
        """Another node has room for this many turns of the agent."""
        agent = self.agents.get(handle)
        if agent is not None and agent.lanes.max_running:
            self._elsewhere[handle] = _Room(turns, self.clock.monotonic() + _ROOM_KNOWN_S)
            self._free_soon(agent)

    def hear_freed(self, handle: str) -> None:
        """Another node has freed lanes of the agent."""
        agent = self.agents.get(handle)
        if agent is not None and agent.lanes.max_running and self._room(agent) > 0:
            self._tasks.spawn(self._take_over(agent), name="take over")

    async def _take_over(self, agent: PublishedAgent) -> None:
        try:
            # Other lanes may have come since the notice.
            if (turns := self._room(agent)) > 0:
                await self.ownership.take_over(agent.handle, limit=turns)
        except StoreError as error:
            _log.error("lanes cannot be taken over", extra={"reason": error.message})

    def waits(self, run: Run) -> None:
        """A run has to wait. Its lane may go to a node that has room, once it is stored."""
        live, handle = run.live, run.agent.handle
        if live is not None and handle in self._elsewhere:
            self.runs.journal.once_durable(live, partial(self._stored, handle))

    def _stored(self, handle: str, error: TrunklineError | None) -> None:
        agent = self.agents.get(handle)
        if error is None and agent is not None:
            self._free_soon(agent)

    def _free_soon(self, agent: PublishedAgent) -> None:
        if agent.lanes.held_up:
            self._tasks.spawn(self._free(agent), name="free lanes")

    async def _free(self, agent: PublishedAgent) -> None:
        room, lanes = self._elsewhere.get(agent.handle), agent.lanes
        # Lanes that wait for a slot of all nodes would wait as long anywhere.
        is_full = lanes.running >= lanes.max_running > 0
        if room is None or room.until < self.clock.monotonic() or not is_full:
            return
        chosen = self._movable(agent, room.turns)
        if not chosen:
            return
        room.turns -= len(chosen)
        try:
            await self.ownership.free(chosen, partial(self._release, agent))
            self.ownership.cluster.tell(LanesFreed(agent.handle))
        except StoreError as error:
            _log.error("lanes cannot be freed", extra={"reason": error.message})

    def _movable(self, agent: PublishedAgent, count: int) -> Sequence[Lane]:
        held_up = agent.lanes.held_up
        return list(islice((lane for lane in held_up if self._is_movable(agent, lane)), count))

    def _is_movable(self, agent: PublishedAgent, lane: Lane) -> bool:
        """Whether another node would continue the lane where this one leaves it."""
        lease = self.ownership.held.get(lane)
        # An epoch of 0 means that the store has not answered yet.
        if lease is None or lease.is_lost or not lease.epoch or not is_quiet(lease):
            return False
        # No other node knows a run that may end without a task.
        if any(
            run.live is None or run.state is not RunState.QUEUED
            for run in agent.lanes.tickets(lane)
        ):
            return False
        policies, can_resume = agent.profile.on_restart, agent.backend.can_resume
        return all(
            recover(live.state, policies, can_resume=can_resume) in _CONTINUES
            for live in lease.tasks
            if live.state in HAS_WORK
        )

    def _release(self, agent: PublishedAgent, lane: Lane) -> None:
        # In reverse, because the first run may have the lane, which would go to the next of them.
        for run in reversed(agent.lanes.tickets(lane)):
            live = run.live
            assert live is not None
            self.runs.keys.forget(live)
            self.runs.happen(run, RunEvent.RELEASE)
            self.runs.registry.forget_if_idle(live)
