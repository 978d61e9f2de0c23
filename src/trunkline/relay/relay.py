"""`Relay`: the hosts that are attached, and the agents that can be reached through them."""

import asyncio
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.engine.access import may_attach
from trunkline.model.errors import StoreError
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.protocol.relay.close_codes import (
    FORBIDDEN,
    GOING_AWAY,
    OVER_LIMIT,
    REPLACED,
    RESTART,
    Close,
)
from trunkline.protocol.relay.events import AgentsOffered, Draining, RelayEvent, TokenOffered
from trunkline.protocol.relay.leases import Lease, LeaseTable
from trunkline.protocol.relay.relay_session import RelaySession
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.admission import Admission
from trunkline.relay.carrier import Carrier
from trunkline.relay.nodes.hops import RemoteAgent
from trunkline.relay.nodes.other_nodes import OtherNodes
from trunkline.relay.nodes.shared_leases import NewLease

_log: Final = logging.getLogger("trunkline.relay")

_TICK_S: Final = 1.0
# How long a relay that stops waits for its hosts to attach elsewhere; those without another relay
# stay until then.
LEAVE_S: Final = 2.0
_DRAIN_TICK_S: Final = 0.1
# Those who wait for an agent look again after this time, because a notice may be lost.
_LOOK_S: Final = 0.5
_TAKE_ATTEMPTS: Final = 5
# The requests under way have this time when the relay is cut off from the others.
_CUT_OFF_DRAIN_S: Final = 30.0
# A credential that was revoked is found out after this time.
RECHECK_S: Final = 60.0


class Attached:
    """A session with a host, and the credential that the host showed last."""

    def __init__(
        self,
        session: RelaySession,
        *,
        principal: Principal,
        clock: Clock,
        tasks: BackgroundTasks,
        on_event: "Callable[[Attached, RelayEvent], None]",
    ) -> None:
        self.session: Final = session
        self.principal = principal
        self.credential: Headers = {}
        # The session of another node, or of one that has restarted, which the host has given up for
        # this one.
        self.instead_of = ""
        # Its offers, one after the other.
        self.offering: Final = asyncio.Lock()
        self.checked_at = clock.monotonic()
        # One credential is checked at a time, and of those that were offered meanwhile the last one
        # is next: a host that sends tokens without end keeps nothing else busy.
        self.is_checking = False
        self.offered: Headers | None = None
        # Whether the credential in use is to be checked once more after that.
        self.is_to_check = False
        self.carrier: Final = Carrier(
            session, clock=clock, tasks=tasks, on_event=partial(on_event, self)
        )

    @property
    def host_session(self) -> str:
        return self.session.id


# To an agent: the session with its host, or with the node that has one.
Way: TypeAlias = Attached | RemoteAgent


class LeaseListener(Protocol):
    """Called on the loop. It may call the relay, and must not wait."""

    def leased(self, agent: str) -> None:
        """A session here has a new lease of the agent. It may be the successor of another one."""
        ...

    def released(self, agent: str) -> None:
        """No session here has a lease of the agent any more."""
        ...


class RelaySettings(Struct, frozen=True, kw_only=True):
    session: SessionSettings = SessionSettings()
    max_sessions: int = 10_000
    # Of the hosts of one tenant, or with one key, so that one alone cannot use them up.
    max_sessions_of_one: int = 2_500
    # Of the agents of one tenant that are attached at this node.
    max_agents_of_one: int = 10_000


class Relay:
    def __init__(
        self,
        settings: RelaySettings,
        *,
        admission: Admission,
        clock: Clock,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.settings: Final = settings
        self._admission = admission
        self._clock = clock
        self._random_bytes = random_bytes
        self._sessions: dict[str, Attached] = {}
        self._sessions_of: Counter[str] = Counter()
        self._leases = LeaseTable()
        self._listeners: list[LeaseListener] = []
        self._nodes: OtherNodes | None = None
        self._on_leaving: Callable[[], None] = lambda: None
        self._tasks = BackgroundTasks("relay")
        self.is_draining = False
        # Whether requests do not reach the hosts here any more.
        self._is_leaving = False
        # The agents whose hosts have left because this relay stops.
        self._left: set[str] = set()

    def listen(self, listener: LeaseListener) -> None:
        """Tell the listener of each lease from now on."""
        self._listeners.append(listener)

    def share(self, nodes: OtherNodes, *, on_leaving: Callable[[], None]) -> None:
        """Before the start: other nodes have the same store, and agents that are attached there can
        be reached from here. `on_leaving` is called when those that are here cannot be reached any
        more, because the relay stops."""
        self._on_leaving = on_leaving
        self._nodes = nodes
        nodes.leases.held = lambda: self._leases.epochs
        nodes.leases.on_lost = self._lost

    def start(self) -> None:
        self._tasks.spawn(self._tick(), name="tick")

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def is_full(self) -> bool:
        return len(self._sessions) >= self.settings.max_sessions

    def attached(self) -> Iterator[Attached]:
        """The sessions with hosts, in the order in which they began."""
        return iter([*self._sessions.values()])

    @property
    def attached_agents(self) -> int:
        return len(self._leases)

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def requests(self) -> int:
        return sum(len(attached.session.streams) for attached in self._sessions.values())

    def find(self, agent: str) -> Attached | None:
        """The session here by which the agent can be reached; None where another node may have
        taken it meanwhile."""
        return self._holder(agent) if self.is_trusted else None

    async def is_attached(self, agent: str) -> bool:
        """Whether a host has the agent, here or at another node. Raises Unavailable."""
        if self.find(agent) is not None:
            return True
        return self._nodes is not None and await self._nodes.has(agent)

    async def attached_in(self, tenant: str) -> set[str]:
        """The names of the tenant's agents that hosts have, here or at other nodes. Raises
        Unavailable."""
        prefix = f"{tenant}/"
        here = {agent for agent in self._leases.epochs if agent.startswith(prefix)}
        return here if self._nodes is None else await self._nodes.all_in(tenant)

    @property
    def is_trusted(self) -> bool:
        """Whether the leases that are here were not taken by other nodes, as of a short time
        ago."""
        return self._nodes is None or self._nodes.leases.is_trusted

    def _holder(self, agent: str) -> Attached | None:
        lease = self._leases.find(agent)
        return None if lease is None else self._sessions.get(lease.session)

    def _can_serve(self, attached: Attached) -> bool:
        return attached.session.is_connected and not self._is_leaving

    def _live(self, agent: str) -> Attached | None:
        """The session here that has the agent and has not ended."""
        attached = self._holder(agent)
        return None if attached is None or attached.session.is_ended else attached

    async def connected(self, agent: str, *, within_s: float, refused: str = "") -> Way | None:
        """The way to the agent, once it has a connection; None if it has none in time. A host that
        has restarted has another session by then. `refused` is the session of a host at another
        node that takes no more requests. Raises Unavailable."""
        until = self._clock.monotonic() + within_s
        while True:
            attached = self._live(agent)
            is_connected = attached is not None and self._can_serve(attached)
            is_expected = attached is not None
            carriers: list[Carrier[Any]] = [] if attached is None else [attached.carrier]
            if self._nodes is not None:
                epoch = None if attached is None else attached.session.leases.get(agent)
                found = await self._nodes.find(
                    agent, epoch=epoch, is_connected=is_connected, refused=refused
                )
                if found.remote is not None:
                    return found.remote
                is_connected, is_expected = found.is_here, found.is_expected
                carriers += [] if found.carrier is None else [found.carrier]
            if is_connected:
                return attached
            left_s = until - self._clock.monotonic()
            if not is_expected or left_s <= 0:
                return None
            await self._moved(agent, carriers, left_s)

    async def connected_here(self, agent: str, epoch: int, *, within_s: float) -> Attached | None:
        """The same for an agent that this node has with this lease."""
        until = self._clock.monotonic() + within_s
        while (attached := self._live(agent)) is not None:
            if attached.session.leases.get(agent) != epoch or self._is_leaving:
                return None
            if attached.session.is_connected:
                if self._nodes is None or await self._nodes.is_held(agent, epoch):
                    return attached
                return None
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                return None
            await self._moved(agent, [attached.carrier], left_s)
        return None

    async def _moved(self, agent: str, carriers: Sequence[Carrier[Any]], within_s: float) -> None:
        """Wait until something has happened to one of the sessions or to the lease of the agent."""
        if self._nodes is None:
            await carriers[0].moved()
            return
        moves = [carrier.next_move() for carrier in carriers]
        moves.append(self._nodes.leases.next_news(agent))
        timer = self._tasks.start(
            self._clock.sleep(min(within_s, _LOOK_S)), name="wait for an agent"
        )
        try:
            await asyncio.wait([*moves, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def session_for(self, principal: Principal, resumed: str) -> Attached | None:
        """The session that a host asks to resume, where it has it; else a new one. None where its
        tenant has as many as one may have."""
        attached = self._sessions.get(resumed)
        # The id is no credential: it resumes nothing for another principal.
        if (
            attached is not None
            and not attached.session.is_ended
            and attached.principal.id == principal.id
        ):
            return attached
        owner = _owner_of(principal)
        if self._sessions_of[owner] >= self.settings.max_sessions_of_one:
            return None
        self._sessions_of[owner] += 1
        session = RelaySession(
            id=self._random_bytes(16).hex(),
            key=self._random_bytes(32),
            settings=self.settings.session,
            now=self._clock.monotonic(),
        )
        attached = self._sessions[session.id] = Attached(
            session,
            principal=principal,
            clock=self._clock,
            tasks=self._tasks,
            on_event=self._on_event,
        )
        attached.instead_of = resumed
        return attached

    def forget_if_over(self, attached: Attached) -> None:
        """A session that no host can resume, or that has nothing to resume."""
        session = attached.session
        has_something = bool(session.leases or session.streams)
        if session.is_connected or (has_something and not session.is_ended):
            return
        if attached.offering.locked() and not session.is_ended:
            # It is about to have leases.
            return
        released = self._release(attached)
        if self._sessions.get(session.id) is attached:
            del self._sessions[session.id]
            # A session never changes hands.
            owner = _owner_of(attached.principal)
            self._sessions_of[owner] -= 1
            if not self._sessions_of[owner]:
                del self._sessions_of[owner]
        self._tell_released(released)

    def has_moved(self, agent: str) -> bool:
        """Whether the agent is at another relay now, because this one stops."""
        return agent in self._left

    async def drain(self, *, grace_s: float) -> None:
        """Tell the hosts that the relay stops, and wait until they are attached elsewhere and their
        requests have ended. Until they have left, or could have, requests still reach them."""
        self.is_draining = True
        began = self._clock.monotonic()
        for attached in [*self._sessions.values()]:
            attached.session.drain(grace_s, began)
            attached.carrier.flush()
        await self._wait_while(self._has_hosts, until=began + min(grace_s / 2, LEAVE_S))
        # A host that is still here is not about to leave. What comes now waits for its next relay,
        # because a request that begins here might not end.
        self._is_leaving = True
        if self._nodes is not None:
            self._nodes.leases.is_leaving = True
            self._on_leaving()
        await self._wait_while(self._has_requests, until=began + grace_s)

    async def _wait_while(self, is_true: Callable[[], bool], *, until: float) -> None:
        while is_true() and self._clock.monotonic() < until:
            await self._clock.sleep(_DRAIN_TICK_S)

    def _has_hosts(self) -> bool:
        sessions = [attached.session for attached in self._sessions.values()]
        return any(session.is_connected and session.leases for session in sessions)

    def _has_requests(self) -> bool:
        """Whether requests are under way. The hosts without one may go now."""
        for attached in [*self._sessions.values()]:
            if not attached.session.streams:
                attached.session.end(Close(RESTART, "the relay stops"))
                attached.carrier.flush()
        return any(attached.session.streams for attached in self._sessions.values())

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            now = self._clock.monotonic()
            is_cut_off = self._nodes is not None and self._nodes.leases.is_cut_off
            for attached in [*self._sessions.values()]:
                if is_cut_off:
                    # The host has a use for another relay.
                    attached.session.drain(_CUT_OFF_DRAIN_S, now)
                attached.carrier.tick()
                self.forget_if_over(attached)
                if attached.session.is_connected and now >= attached.checked_at + RECHECK_S:
                    attached.checked_at = now
                    self._check(attached, attached.credential, is_new=False)

    def recheck(self, concerns: Callable[[Principal], bool] = lambda _: True) -> None:
        """Check the credentials of these hosts now, because some of them may count no more."""
        for attached in [*self._sessions.values()]:
            if not attached.session.is_ended and concerns(attached.principal):
                attached.checked_at = self._clock.monotonic()
                self._check(attached, attached.credential, is_new=False)

    # What hosts say.

    def _on_event(self, attached: Attached, event: RelayEvent) -> None:
        match event:
            case AgentsOffered(agents):
                self._offer(attached, agents)
            case TokenOffered(token):
                credential = {b"authorization": b"Bearer " + token.encode()}
                self._check(attached, credential, is_new=True)
            case Draining():
                if self.is_draining:
                    self._left.update(attached.session.leases)
                released = self._release(attached)
                attached.session.lease({})
                self._tell_released(released)
            case _:
                return

    def _offer(self, attached: Attached, agents: Sequence[str]) -> None:
        session = attached.session
        for agent in agents:
            if not may_attach(attached.principal, agent):
                session.end(Close(FORBIDDEN, f"this credential may not attach {agent[:60]}"))
                return
        if self._leases.with_more(agents) > self.settings.max_agents_of_one:
            session.end(Close(OVER_LIMIT, "the tenant has as many agents as one may have"))
            return
        if self._nodes is None:
            losers = self._holders(agents, but=attached)
            epochs = {agent: self._leases.take(session.id, agent).epoch for agent in agents}
            self._lease(attached, epochs, losers)
        else:
            self._tasks.spawn(self._offer_shared(attached, agents), name="take leases")

    async def _offer_shared(self, attached: Attached, agents: Sequence[str]) -> None:
        async with attached.offering:
            epochs = await self._take_shared(attached, agents)
            session = attached.session
            if epochs is None:
                session.end(Close(RESTART, "the relay cannot use its store now"))
            elif self._sessions.get(session.id) is attached and not (
                session.is_ended or session.peer_is_draining
            ):
                self._lease(attached, epochs, self._holders(agents, but=attached))
            elif self._nodes is not None:
                self._nodes.leases.release(epochs)
        attached.carrier.flush()
        self.forget_if_over(attached)

    async def _take_shared(
        self, attached: Attached, agents: Sequence[str]
    ) -> dict[str, int] | None:
        """The epochs of the leases; None if the store cannot be used for a while."""
        assert self._nodes is not None
        for _ in range(_TAKE_ATTEMPTS):
            try:
                return await self._nodes.leases.take(
                    attached.session.id,
                    agents,
                    host=_host(attached),
                    instead_of=attached.instead_of,
                )
            except StoreError as error:
                _log.warning("no leases can be taken", extra={"reason": error.message})
                await self._clock.sleep(_TICK_S)
        return None

    def _holders(self, agents: Iterable[str], *, but: Attached) -> set[Attached]:
        """The other sessions that have one of the agents."""
        found = {self._holder(agent) for agent in agents}
        return {attached for attached in found if attached is not None and attached is not but}

    def _lease(
        self, attached: Attached, epochs: Mapping[str, int], losers: Iterable[Attached]
    ) -> None:
        """The session has these leases from now on, and no others."""
        session, before = attached.session, attached.session.leases
        # Two sessions may have taken leases at the same time, and the later one is here already.
        won = {
            agent: epoch
            for agent, epoch in epochs.items()
            if self._leases.put(agent, Lease(session.id, epoch))
        }
        released = self._release_some(
            {agent: epoch for agent, epoch in before.items() if agent not in won}
        )
        session.lease(won)
        for loser in losers:
            self._take_away(loser, _host(attached))
        if epochs and not won:
            session.end(Close(REPLACED, "another host has its agents now"))
        self._tell_released(released)
        for agent, epoch in won.items():
            if before.get(agent) != epoch:
                for listener in self._listeners:
                    listener.leased(agent)

    def _lost(self, lease: NewLease) -> None:
        """Another node has a newer lease of an agent of this one."""
        known = self._leases.find(lease.agent)
        if known is None or known.epoch >= lease.epoch:
            return
        self._leases.release(lease.agent, known.epoch)
        loser = self._sessions.get(known.session)
        if loser is not None:
            if lease.instead_of == known.session:
                loser.session.end(Close(GOING_AWAY, "the host is at another relay now"))
                loser.carrier.flush()
            else:
                self._take_away(loser, lease.host)
            self.forget_if_over(loser)
        self._tell_released([lease.agent])

    def _take_away(self, loser: Attached, winner: str) -> None:
        """Another session has agents of the loser now, and `winner` is its host. The loser is
        closed, and its requests end, unless it drains or is of the same host: then it finishes what
        it has begun."""
        session = loser.session
        left = {
            agent: epoch
            for agent, epoch in session.leases.items()
            if self._is_leased_to(loser, agent)
        }
        is_same_host = bool(winner) and _host(loser) == winner
        may_finish = is_same_host or session.is_draining or session.peer_is_draining
        if not may_finish:
            for stream in [*session.streams.values()]:
                if stream.agent not in left and stream.number in loser.carrier.streams:
                    loser.carrier.streams[stream.number].cancel(
                        "replaced", "another host has the agent now"
                    )
        session.lease(left)
        if not left and not may_finish:
            session.end(Close(REPLACED, "another host has its agents now"))
        loser.carrier.flush()

    def _is_leased_to(self, attached: Attached, agent: str) -> bool:
        lease = self._leases.find(agent)
        return lease is not None and lease.session == attached.session.id

    def _release(self, attached: Attached) -> list[str]:
        return self._release_some(attached.session.leases)

    def _release_some(self, epochs: Mapping[str, int]) -> list[str]:
        """The agents that were still leased with these epochs, and are not any more."""
        released = [agent for agent, epoch in epochs.items() if self._leases.release(agent, epoch)]
        if self._nodes is not None:
            self._nodes.leases.release({agent: epochs[agent] for agent in released})
        return released

    def _tell_released(self, agents: Sequence[str]) -> None:
        for agent in agents:
            for listener in self._listeners:
                listener.released(agent)

    def _check(self, attached: Attached, credential: Headers, *, is_new: bool) -> None:
        if not attached.is_checking:
            attached.is_checking = True
            check = self._check_in_turn(attached, credential, is_new=is_new)
            self._tasks.spawn(check, name="check a credential")
        elif is_new:
            attached.offered = credential
        else:
            # What has changed meanwhile may not be known to the check that is under way.
            attached.is_to_check = True

    async def _check_in_turn(
        self, attached: Attached, credential: Headers, *, is_new: bool
    ) -> None:
        try:
            await self._checked(attached, credential, is_new=is_new)
        finally:
            attached.is_checking = False
        offered, attached.offered = attached.offered, None
        if attached.session.is_ended:
            return
        if offered is not None:
            self._check(attached, offered, is_new=True)
        elif attached.is_to_check:
            attached.is_to_check = False
            self._check(attached, attached.credential, is_new=False)

    async def _checked(self, attached: Attached, credential: Headers, *, is_new: bool) -> None:
        """Go on with a credential, or end the session that has shown it."""
        principal = await self._admission.still_admitted(credential)
        session = attached.session
        if principal is None:
            # It cannot be checked now, and the one before counts until its end.
            return
        if isinstance(principal, Close):
            ends_at = self._admission.ends_at(attached.principal)
            has_ended = ends_at is not None and ends_at <= self._clock.monotonic()
            # The session itself sees to the grace of a credential that has ended. A host that has
            # no new one yet offers it again.
            if not (has_ended and credential == attached.credential):
                session.end(principal)
        elif principal.id != attached.principal.id or not all(
            may_attach(principal, agent) for agent in session.leases
        ):
            session.end(Close(FORBIDDEN, "the credential is for another host or other agents"))
        else:
            attached.principal = principal
            if is_new:
                attached.credential = credential
                ends_at = self._admission.ends_at(principal)
                session.renew(ends_at, self._clock.monotonic())
        attached.carrier.flush()
        self.forget_if_over(attached)


def _host(attached: Attached) -> str:
    """Tells the running host of a session from others; empty where it does not say."""
    name = attached.session.host
    if not name:
        return ""
    # The name is no credential: it does nothing for another principal.
    return hashlib.sha256(f"{attached.principal.id}\n{name}".encode()).hexdigest()[:32]


def _owner_of(principal: Principal) -> str:
    """The tenant of a host, or the key that it attaches with."""
    kind, _, rest = principal.id.partition(":")
    return f"{kind}:{rest.partition(':')[0]}" if kind == "host" else principal.id
